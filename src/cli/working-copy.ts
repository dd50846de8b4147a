/** A working copy of git as somebody has it on their machine, and what merging it would give. Nothing of it is changed. */
import { execFile } from "node:child_process";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
/** Of branches to choose from. */
const mostNamed = 10;
const mostBytes = 64 * 1024 ** 2;

export interface WorkingCopy {
  /** Of all its remotes. */
  readonly urls: readonly string[];
  /** The commit that is checked out; with changes that are not committed, a commit of all that is there. */
  readonly head: string;
  readonly dirty: boolean;
  /** All that is there is in what it would be merged into. */
  readonly isMerged: boolean;
  /** What it would be merged into, and where that is. */
  readonly baseBranch: string;
  readonly base: string;
  /** Full name of the remote's default branch, if it is known. */
  readonly defaultRef: string | undefined;
  /** Why the base may be old. */
  readonly warning: string | undefined;
  merge(): Promise<LocalMerge>;
  /** Removes what was made for it. */
  release(): Promise<void>;
}

/** The commit that `HEAD`, a branch, a tag … of a working copy is; `undefined` if it is not one. */
export async function resolveRevision(where: string, revision: string): Promise<string | undefined> {
  const args = ["rev-parse", "--verify", "--quiet", "--end-of-options", `${revision}^{commit}`];
  const found = await git(where, args).catch(() => "");
  return /^[0-9a-f]{40,64}$/.exec(found.trim())?.[0];
}

export type LocalMerge =
  | { readonly kind: "merged"; readonly changed: readonly string[]; readonly dir: string }
  | { readonly kind: "conflict"; readonly paths: readonly string[] };

export interface OpenOptions {
  /** The remote's default branch, if left out. */
  readonly into?: string | undefined;
  readonly fetch: boolean;
}

/** Throws with what to do if it is none, or has nothing to be merged into. */
export async function openWorkingCopy(where: string, { into, fetch }: OpenOptions): Promise<WorkingCopy> {
  const temporary = await mkdtemp(join(tmpdir(), "towline-preview-"));
  const release = () => rm(temporary, { recursive: true, force: true, maxRetries: 3 });
  try {
    return { ...(await open(where, temporary, into, fetch)), release };
  } catch (error) {
    await release();
    throw error;
  }
}

async function open(where: string, temporary: string, into: string | undefined, fetch: boolean) {
  const top = (await findTop(where)).trim();
  const remotes = (await git(top, ["remote"])).split("\n").filter(Boolean);
  const remote = remotes.includes("origin") ? "origin" : remotes[0];
  if (remote === undefined) throw new Error(`${top} has no remote: deployments are found by its address`);
  const urls = (await Promise.all(remotes.map((name) => git(top, ["remote", "get-url", "--all", name]))))
    .flatMap((text) => text.split("\n"))
    .filter(Boolean);

  const defaultName = await findDefault(top, remote);
  const baseBranch = into ?? defaultName ?? "main";
  const refspec = `+refs/heads/${baseBranch}:refs/remotes/${remote}/${baseBranch}`;
  const problem = fetch
    ? await git(top, ["fetch", "--quiet", "--no-tags", remote, refspec]).then(
        () => undefined,
        (error: unknown) => (error as Error).message,
      )
    : undefined;
  const isGone = problem?.includes("couldn't find remote ref") === true;
  const base = isGone ? undefined : await commitOf(top, `refs/remotes/${remote}/${baseBranch}`);
  if (base === undefined) {
    const why = problem === undefined || isGone ? "" : ` (${problem})`;
    const others = (await branchesOf(top, remote)).filter((name) => name !== baseBranch).slice(0, mostNamed);
    const choice = others.length > 0 ? `: ${others.join(", ")}` : "";
    throw new Error(`there is no branch ${baseBranch} at ${remote}${why}: name one with --into${choice}`);
  }
  const warning = problem && `${remote}/${baseBranch} could not be fetched and may be old: ${problem}`;
  const { head, dirty } = await snapshot(top, join(temporary, "index"));
  const defaultRef = defaultName === undefined ? undefined : `refs/heads/${defaultName}`;

  async function merge(): Promise<LocalMerge> {
    const { tree, conflicts } = await mergeTrees(top, base ?? "", head);
    if (conflicts.length > 0) return { kind: "conflict", paths: conflicts };
    const dir = join(temporary, "merged");
    const env = { GIT_INDEX_FILE: join(temporary, "merged-index") };
    await git(top, ["read-tree", tree], env);
    await git(top, ["checkout-index", "--all", `--prefix=${dir}/`], env);
    const changed = await git(top, ["diff", "--name-only", "--no-renames", "-z", `${base}^{tree}`, tree]);
    return { kind: "merged", changed: changed.split("\0").filter(Boolean), dir };
  }

  const isMerged = !dirty && (await isAncestor(top, head, base));
  return { urls, head, dirty, isMerged, baseBranch, base, defaultRef, warning, merge };
}

async function findTop(where: string): Promise<string> {
  const is = await stat(where).catch(() => undefined);
  if (is === undefined) throw new Error(`there is no ${where}: name a working copy of git, or a directory in one`);
  try {
    return await git(is.isDirectory() ? where : dirname(where), ["rev-parse", "--show-toplevel"]);
  } catch (error) {
    if (!/not a git repository/.test((error as Error).message)) throw error;
    throw new Error(
      `${resolve(where)} is in no working copy of git: go to one, or name it: towline preview DIRECTORY`,
      {
        cause: error,
      },
    );
  }
}

async function findDefault(top: string, remote: string): Promise<string | undefined> {
  const prefix = `refs/remotes/${remote}/`;
  const full = await git(top, ["symbolic-ref", "--quiet", `${prefix}HEAD`]).catch(() => "");
  return full.startsWith(prefix) ? full.trim().slice(prefix.length) : undefined;
}

async function branchesOf(top: string, remote: string): Promise<readonly string[]> {
  const refs = await git(top, ["for-each-ref", "--format=%(refname:lstrip=3)", `refs/remotes/${remote}/`]);
  return refs.split("\n").filter((name) => name !== "" && name !== "HEAD");
}

async function isAncestor(top: string, commit: string, of: string): Promise<boolean> {
  return git(top, ["merge-base", "--is-ancestor", commit, of]).then(
    () => true,
    () => false,
  );
}

async function commitOf(top: string, ref: string): Promise<string | undefined> {
  const found = await git(top, ["rev-parse", "--verify", "--quiet", `${ref}^{commit}`]).catch(() => "");
  return found.trim() || undefined;
}

/** All that is there, as `git add -A` would take it, by an index of its own. */
async function snapshot(top: string, index: string): Promise<{ head: string; dirty: boolean }> {
  const head = await commitOf(top, "HEAD");
  if (head === undefined) throw new Error(`${top} has no commit yet`);
  const env = { GIT_INDEX_FILE: index };
  await git(top, ["read-tree", head], env);
  await git(top, ["add", "--all", "."], env);
  const tree = (await git(top, ["write-tree"], env)).trim();
  if (tree === (await git(top, ["rev-parse", `${head}^{tree}`])).trim()) return { head, dirty: false };
  const author = { GIT_AUTHOR_NAME: "towline", GIT_AUTHOR_EMAIL: "towline@localhost" };
  const committer = { GIT_COMMITTER_NAME: "towline", GIT_COMMITTER_EMAIL: "towline@localhost" };
  const made = await git(top, ["commit-tree", tree, "-p", head, "-m", "working copy"], { ...author, ...committer });
  return { head: made.trim(), dirty: true };
}

async function mergeTrees(top: string, base: string, head: string): Promise<{ tree: string; conflicts: string[] }> {
  const args = ["merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", base, head];
  try {
    const { stdout } = await run("git", args, { cwd: top, maxBuffer: mostBytes });
    return { tree: stdout.split("\0", 1)[0]?.trim() ?? "", conflicts: [] };
  } catch (error) {
    const { code, stdout = "" } = error as { code?: unknown; stdout?: string };
    if (code !== 1) throw explain(error, args);
    return { tree: "", conflicts: [...new Set(stdout.split("\0").slice(1).filter(Boolean))] };
  }
}

async function git(cwd: string, args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<string> {
  try {
    const options = { cwd, maxBuffer: mostBytes, env: { ...process.env, GIT_TERMINAL_PROMPT: "0", ...env } };
    return (await run("git", [...args], options)).stdout;
  } catch (error) {
    throw explain(error, args);
  }
}

function explain(error: unknown, [command]: readonly string[]): Error {
  const { stderr = "", message } = error as Error & { stderr?: string };
  return new Error(`git ${command} failed: ${stderr.trim() || message}`, { cause: error });
}
