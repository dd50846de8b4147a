/**
 * A workaround for `kluctl validate`, which takes no images: they are written into a copy of the project's
 * configuration.
 */
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { isMap, parseDocument } from "yaml";
import type { Run } from "../model.ts";

export interface ProjectConfig {
  readonly text: string;
  /** The target to select with this configuration: images belong to a target, and the run has none. */
  readonly madeUpTarget?: string | undefined;
}

/** More than any real configuration has. */
const mostBytes = 4 * 1024 * 1024;

/**
 * Returns an empty mapping for a project without a configuration, and `undefined` for one that is not a regular file or
 * is too large, such as a link to a device: kluctl, which runs under a watchdog, then reports the problem.
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
 * Appends the images to the target's own: later entries win, as images from flags do. The rest of the text stays as
 * written, because it contains templates and scalars that kluctl parses by its own rules. Returns `undefined` for a
 * configuration that cannot be understood: kluctl gives the better error message.
 */
export function withImages(text: string | undefined, run: Pick<Run, "target" | "images">): ProjectConfig | undefined {
  try {
    return text === undefined ? undefined : addImages(text, run);
  } catch {
    return undefined; // an alias without an anchor, or too many aliases
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
