/** A way around `kluctl validate`, which takes no images: they are written into a copy of the project's configuration. */
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { isMap, parseDocument } from "yaml";
import type { Run } from "../ports.ts";

export interface ProjectConfig {
  /** YAML. */
  readonly text: string;
  /** A target that has to be chosen now: images belong to a target, and the run has none. */
  readonly madeUpTarget?: string | undefined;
}

/** Longer than any in earnest. */
const mostBytes = 4 * 1024 * 1024;

/**
 * Of a project without any, the empty one. `undefined` for what is no file or has no end, such as a link to a device: kluctl, which is
 * watched, says what is wrong with it.
 */
export async function readProjectConfig(projectDir: string): Promise<string | undefined> {
  for (const name of [".kluctl.yml", ".kluctl.yaml"]) {
    const path = join(projectDir, name);
    const info = await stat(path).catch(() => undefined);
    if (info === undefined) continue;
    return info.isFile() && info.size <= mostBytes ? readFile(path, "utf8") : undefined;
  }
  return "{}";
}

/**
 * Adds the images behind the target's own: later ones win, as those from flags do. The rest stays as it is written, since
 * it has templates, and scalars that kluctl reads by rules of its own. `undefined` for a configuration that we cannot make
 * sense of: what is wrong with it kluctl says best.
 */
export function withImages(text: string | undefined, run: Pick<Run, "target" | "images">): ProjectConfig | undefined {
  try {
    return text === undefined ? undefined : addImages(text, run);
  } catch {
    return undefined; // an alias of nothing, or too many of them
  }
}

function addImages(text: string, { target, images }: Pick<Run, "target" | "images">): ProjectConfig | undefined {
  const document = parseDocument(text);
  if (document.errors.length > 0 || !(document.contents === null || isMap(document.contents))) return undefined;
  if (target === undefined) {
    const madeUpTarget = "no-target";
    document.set("targets", document.createNode([{ name: madeUpTarget, images }]));
    return { text: document.toString({ lineWidth: 0 }), madeUpTarget };
  }
  const { targets } = (document.toJS() ?? {}) as { targets?: unknown };
  if (!Array.isArray(targets)) return undefined;
  const index = targets.findIndex((one: { name?: unknown } | null) => one?.name === target);
  const found = document.getIn(["targets", index]);
  if (!isMap(found)) return undefined;
  const own: unknown = (targets[index] as { images?: unknown }).images;
  found.set("images", document.createNode([...(Array.isArray(own) ? (own as unknown[]) : []), ...images]));
  return { text: document.toString({ lineWidth: 0 }) };
}
