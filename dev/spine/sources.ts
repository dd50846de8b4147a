/** Reads our sources: their lengths, and which file uses which. */
import { readdirSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import type { SourceFile } from "./count.ts";

/** These create and connect everything, so that their use of a file says nothing about it. */
const wiring = /^src\/(?:app|cli)(?:\.ts$|\/)/;

const imported = /^(?:import|export)\b([^;"']*?)\bfrom\s+"(\.[^"]+)"|^import\s+"(\.[^"]+)"|\bimport\(\s*"(\.[^"]+)"/gm;

/** The folders of the server. */
const folders = ["src", "routes", "jobs"] as const;

/** All files of the server but those that only connect others. */
export function readSources(root: string): ReadonlyMap<string, SourceFile> {
  const files = folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".ts"))
      .map((name) => `${folder}/${name}`),
  );
  return new Map(
    files
      .filter((file) => !wiring.test(file))
      .map((file) => [file, readSource(file, readFileSync(join(root, file), "utf8"))]),
  );
}

export function readSource(file: string, text: string): SourceFile {
  const uses = [...text.matchAll(imported)].flatMap(([, names = "", from, effect, lazy]) => {
    const specifier = from ?? effect ?? lazy;
    if (specifier === undefined || (from !== undefined && onlyTypes(names))) return [];
    return [posix.join(posix.dirname(file), specifier)];
  });
  const lines = text.trimEnd().split("\n");
  return { uses, lines: lines.length, code: countCode(lines) };
}

/** Whether nothing is left of the import once types are stripped. */
function onlyTypes(names: string): boolean {
  if (/^\s*type\b/.test(names)) return true;
  const listed = /\{([^}]*)\}/
    .exec(names)?.[1]
    ?.split(",")
    .map((name) => name.trim()) ?? [""];
  return listed.every((name) => name.startsWith("type ") || (name === "" && listed.length > 1));
}

/** Our comments begin and end on lines of their own, or end a line of code. */
function countCode(lines: readonly string[]): number {
  let inComment = false;
  let count = 0;
  for (const line of lines.map((one) => one.trim())) {
    const begins = line.startsWith("/*");
    if (!inComment && !begins && line !== "" && !line.startsWith("//")) count++;
    if (begins) inComment = true;
    if (line.endsWith("*/")) inComment = false;
  }
  return count;
}
