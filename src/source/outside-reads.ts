/**
 * Finds the files and directories outside of a project's directory that it may read, such as `../../base`, so that a push or
 * a pull request that changes one of them affects the project. What its files name is searched as well, and links are
 * followed, as kluctl follows them. It errs on the safe side: what only looks like a path counts, and if a path can be
 * anything, so can what it reads.
 */
import { lstat, readdir, readFile, readlink, realpath } from "node:fs/promises";
import { join, posix } from "node:path";
import { setImmediate } from "node:timers/promises";
import type { NamedElsewhere, OutsideReads } from "../model/outside-reads.ts";
import { pathWordsOf } from "./path-words.ts";

/** Beyond these, what a project reads counts as unknown. */
const [mostReads, mostFiles, mostBytes] = [50, 10_000, 64 * 1024 * 1024];
/** A larger file is only searched for any parent directory. */
const largestFile = 1024 * 1024;
const longestPath = 300;
/** Paths that files name, from each directory that they may start from. */
const mostTried = 10_000;

/** Charts that were pulled before, which kluctl looks for in each directory above, too. */
const foundByName = ".helm-charts";

class UnknownReads extends Error {}

/** Relative to the repository's root, sorted, without those that another one contains. Empty for a project at the root. */
export async function findOutsideReads(
  root: string,
  path: string,
  named: NamedElsewhere,
  signal?: AbortSignal,
): Promise<OutsideReads> {
  if (path === "") return [];
  try {
    const found = await search(await realpath(root), path, named, signal);
    return found.filter((one) => !found.some((other) => one.startsWith(`${other}/`))).toSorted();
  } catch (error) {
    if (error instanceof UnknownReads) return undefined;
    throw error;
  }
}

/** A directory to be searched. Its paths start from it, and those above up to `top`, or where a link to it is. */
interface Place {
  /** Relative to the root; no link. */
  readonly directory: string;
  readonly top: string;
  readonly seenAs?: string | undefined;
}

async function search(
  root: string,
  path: string,
  named: NamedElsewhere,
  signal: AbortSignal | undefined,
): Promise<string[]> {
  const found = new Set<string>();
  const tried = new Set<string>();
  const searched = new Set<string>();
  const places: Place[] = [];
  let [files, bytes] = [0, 0];

  if ((await realOf(path)) !== path) throw new UnknownReads();
  places.push({ directory: path, top: path });
  for (const directory of above(path)) await note(posix.join(directory, foundByName));
  for (const { directory, path: one } of named.paths) await note(posix.join(path, directory, one), { isThere: true });
  for (const text of named.texts) await noteWords(text, "", [path]);
  for (let place = places.pop(); place !== undefined; place = places.pop()) await searchPlace(place);
  return [...found];

  async function searchPlace({ directory, top, seenAs }: Place): Promise<void> {
    if (searched.has(directory)) return;
    searched.add(directory);
    signal?.throwIfAborted();
    // kluctl resolves some paths from the file, and others from the projects above it.
    const start = new Set([...upTo(top, directory), ...(seenAs === undefined ? [] : upTo(path, seenAs)), path]);
    for (const entry of await readdir(join(root, directory), { withFileTypes: true })) {
      const name = posix.join(directory, entry.name);
      const as = seenAs && posix.join(seenAs, entry.name);
      if (name.length > longestPath) throw new UnknownReads();
      if (entry.isSymbolicLink()) await followLink(name, as ?? name);
      else if (entry.isDirectory() && entry.name !== ".git") places.push({ directory: name, top, seenAs: as });
      else if (entry.isFile()) await searchFile(name, [...start]);
    }
  }

  async function searchFile(name: string, start: readonly string[]): Promise<void> {
    const { size } = await lstat(join(root, name));
    files++;
    bytes += size;
    if (files > mostFiles || bytes > mostBytes) throw new UnknownReads();
    const text = await readFile(join(root, name), "latin1");
    await setImmediate();
    signal?.throwIfAborted();
    if (size <= largestFile) await noteWords(text, name, start);
    else if (/(?<!\.)\.\.\//.test(text)) throw new UnknownReads();
  }

  async function noteWords(text: string, file: string, start: readonly string[]): Promise<void> {
    const words = pathWordsOf(text, file);
    if (words === undefined) throw new UnknownReads();
    for (const { word, isPart, isOwn } of words) {
      if (word.length > longestPath) throw new UnknownReads();
      const to = isPart && !word.endsWith("..") ? word.slice(0, word.lastIndexOf("/") + 1) : word;
      for (const from of isOwn ? start.slice(0, 1) : start) await note(posix.join(from, to));
    }
  }

  /** `isThere`: kluctl itself named it, so that it counts before it exists. */
  async function note(to: string, { isThere = false } = {}): Promise<void> {
    const place = to.replace(/\/+$/, "");
    if (tried.has(place)) return;
    if (tried.size >= mostTried) throw new UnknownReads();
    tried.add(place);
    if (place === ".") throw new UnknownReads();
    if (!isOutside(place)) return;
    const real = await realOf(place);
    if (real === undefined ? isThere : isOutside(real)) add(place);
    if (real === undefined) return;
    if (real !== place) for (const link of await linksOf(place)) add(link);
    if (isOutside(real)) await open(real, real === place ? undefined : place);
  }

  async function followLink(name: string, seenAs: string): Promise<void> {
    const target = await readlink(join(root, name));
    // What is elsewhere on the machine is not part of the repository.
    const next = posix.isAbsolute(target) ? undefined : posix.join(posix.dirname(name), target).replace(/\/+$/, "");
    const real = await realOf(name);
    if (next === "." || real === "") throw new UnknownReads();
    if (next !== undefined && isOutside(next)) add(next);
    if (real !== undefined && isOutside(real)) await open(real, seenAs);
  }

  /** Counts a place, and searches it. */
  async function open(real: string, seenAs?: string): Promise<void> {
    add(real);
    const info = await lstat(join(root, real));
    if (info.isDirectory()) places.push({ directory: real, top: real, seenAs });
    else if (info.isFile() && !searched.has(real)) {
      searched.add(real);
      const directories = [real, seenAs ?? real].map((one) => posix.dirname(one));
      await searchFile(real, [...new Set([...directories, path])]);
    }
  }

  function add(place: string): void {
    found.add(place);
    if (found.size > mostReads) throw new UnknownReads();
  }

  /** Within the repository, and not in the project. What contains the project counts as a whole. */
  function isOutside(to: string): boolean {
    if (to === ".." || to.startsWith("../") || to.startsWith("/")) return false;
    if (to.length > longestPath) throw new UnknownReads();
    return to !== path && !to.startsWith(`${path}/`);
  }

  /** Without links, relative to the root, which is `""`; `undefined`: it is not in the repository. */
  async function realOf(place: string): Promise<string | undefined> {
    const real = await realpath(join(root, place)).catch(() => undefined);
    if (real === root) return "";
    return real?.startsWith(`${root}/`) === true ? real.slice(root.length + 1) : undefined;
  }

  /** The links on the way to a place: if one of them is changed, it leads elsewhere. */
  async function linksOf(place: string): Promise<string[]> {
    const parts = place.split("/").map((_, at, all) => all.slice(0, at + 1).join("/"));
    const links: string[] = [];
    for (const part of parts) {
      const info = await lstat(join(root, part)).catch(() => undefined);
      if (info?.isSymbolicLink() === true) links.push(part);
    }
    return links.filter(isOutside);
  }
}

/** The directories above, up to the root. */
function above(path: string): string[] {
  return upTo("", path).slice(1);
}

/** A directory and those above it, up to and with `top`; `""` is the root. */
function upTo(top: string, directory: string): string[] {
  const found = [directory];
  for (let at = directory; at !== top && at !== "" && at !== ".";) {
    at = posix.dirname(at) === "." ? "" : posix.dirname(at);
    found.push(at);
  }
  return found;
}
