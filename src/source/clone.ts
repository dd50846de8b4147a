/** A clone for one job: a regular clone, as kluctl requires, that shares the mirror's files through hard links. */
import { mkdir, readFile, realpath, stat, writeFile } from "node:fs/promises";
import { join, sep } from "node:path";
import { SourceError } from "../errors.ts";
import type { Git } from "./git.ts";

export interface Clone {
  /** A mirror or another clone. */
  readonly path: string;
  /** Only the refs in this namespace are cloned, if there is one. */
  readonly namespace?: string | undefined;
  /** An empty directory. */
  readonly root: string;
  /** The URL of `origin` in the clone's configuration. */
  readonly origin: string;
}

/**
 * Files are checked out as they were committed, as the git library in kluctl does, whatever the repository's
 * `.gitattributes` say: with these attributes, git could write forty times as many bytes as the size of the blob, and
 * other content than kluctl reads from what a project includes. `info/attributes` takes precedence over all other files.
 */
const asCommitted = "* !text !crlf !eol !ident !working-tree-encoding !filter\n";

/** Clones without checking anything out. */
export async function cloneLocally(
  git: Git,
  { path, namespace, root, origin }: Clone,
  signal: AbortSignal,
): Promise<void> {
  await git(["clone", "--local", "--no-checkout", "--template=", "--", path, root], {
    protocols: ["file"],
    env: namespace === undefined ? {} : { GIT_NAMESPACE: namespace },
    signal,
  });
  const info = join(root, ".git", "info");
  await mkdir(info, { recursive: true });
  await writeFile(join(info, "attributes"), asCommitted);
  const config = join(root, ".git", "config");
  const text = await readFile(config, "utf8");
  await writeFile(
    config,
    text.replace(/^\turl = .*$/m, () => `\turl = ${quoteForConfig(origin)}`),
  );
}

export async function checkOut(git: Git, root: string, commit: string, signal: AbortSignal): Promise<void> {
  await git(["checkout", "--detach", commit], { at: { tree: root }, protocols: [], signal });
}

/** Throws "refused" for a path that could lead out of the repository or into git's own files. */
export function checkPath(path: string): void {
  const parts = path.split("/");
  const leadsOut = path.startsWith("/") || parts.includes("..") || parts[0]?.toLowerCase() === ".git";
  if (leadsOut || /\p{Cc}/u.test(path)) {
    throw new SourceError("refused", `the path ${JSON.stringify(path)} leads out of the repository`);
  }
}

/** Returns the project's directory. Symbolic links may point anywhere inside the clone, but not out of it. */
export async function findProject(root: string, path: string): Promise<string> {
  const projectDir = join(root, path);
  const real = await realpath(projectDir).catch(() => undefined);
  const realRoot = await realpath(root);
  const inside = real !== undefined && (real === realRoot || real.startsWith(realRoot + sep));
  if (real !== undefined && !inside) {
    throw new SourceError("refused", `the path ${JSON.stringify(path)} leads out of the repository by a symbolic link`);
  }
  if (real === undefined || !(await stat(real)).isDirectory()) {
    throw new SourceError("path-not-found", `there is no directory ${JSON.stringify(path)}`);
  }
  return projectDir;
}

function quoteForConfig(value: string): string {
  return `"${value.replace(/["\\]/g, "\\$&")}"`;
}
