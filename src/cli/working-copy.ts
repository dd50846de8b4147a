/** A git working copy on the user's machine, and the result of merging it. The working copy is not changed. */
import { execFile } from "node:child_process";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
/** Limit of branches listed in an error. */
const mostNamed = 10;
const mostBytes = 64 * 1024 ** 2;

export interface WorkingCopy {
  /** URLs of all remotes. */
  readonly urls: readonly string[];
  /** The commit that is checked out; with uncommitted changes, a temporary commit that includes them. */
  readonly head: string;
  readonly dirty: boolean;
  /** Whether the target branch already contains the head. */
  readonly isMerged: boolean;
  /** Branch to merge into, and its commit. */
  readonly baseBranch: string;
  readonly base: string;
  /** Full name of the remote's default branch, if known. */
  readonly defaultRef: string | undefined;
  /** Why the base may be outdated. */
  readonly warning: string | undefined;
  merge(): Promise<LocalMerge>;
  /** Extracts the files of a commit and returns their directory. Throws if the repository does not have it. */
  extract(commit: string): Promise<string>;
  /** Removes temporary files. */
  release(): Promise<void>;
}

/** Resolves a revision of a working copy, such as `HEAD`, a branch or a tag; `undefined` if it does not exist. */
export async function resolveRevision(where: string, revision: string): Promise<string | undefined> {
  const args = ["rev-parse", "--verify", "--quiet", "--end-of-options", `${revision}^{commit}`];
  const found = await git(where, args).catch(() => "");
  return /^[0-9a-f]{40,64}$/.exec(found.trim())?.[0];
}

export type LocalMerge =
  | { readonly kind: "merged"; readonly changed: readonly string[]; readonly dir: string }
  | { readonly kind: "conflict"; readonly paths: readonly string[] };

export interface OpenOptions {
  /** Branch to merge into; default: the remote's default branch. */
  readonly into?: string | undefined;
  readonly fetch: boolean;
}

/** Throws with advice if it is not a working copy, or has no branch to merge into. */
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
  if (remote === undefined) throw new Error(`${top} has no git remote, which is needed to find its deployments`);
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
    throw new Error(`no branch ${baseBranch} at ${remote}${why}; choose one with --into${choice}`);
  }
  const warning = problem && `cannot fetch ${remote}/${baseBranch}, which may be outdated: ${problem}`;
  const { head, dirty } = await snapshot(top, join(temporary, "index"));
  const defaultRef = defaultName === undefined ? undefined : `refs/heads/${defaultName}`;

  async function extractTree(name: string, tree: string): Promise<string> {
    const dir = join(temporary, name);
    const env = { GIT_INDEX_FILE: join(temporary, `${name}-index`) };
    await git(top, ["read-tree", tree], env);
    await git(top, ["checkout-index", "--all", `--prefix=${dir}/`], env);
    return dir;
  }

  const extracted = new Map<string, Promise<string>>();
  /** Several deployments ask for the same commits. */
  async function extract(commit: string): Promise<string> {
    const hash = await resolveRevision(top, commit);
    if (hash === undefined) throw new Error(`there is no commit ${commit.slice(0, 40)} in ${top}`);
    const known = extracted.get(hash) ?? extractTree(`commit-${extracted.size}`, hash);
    extracted.set(hash, known);
    return known;
  }

  async function merge(): Promise<LocalMerge> {
    const { tree, conflicts } = await mergeTrees(top, base ?? "", head);
    if (conflicts.length > 0) return { kind: "conflict", paths: conflicts };
    const dir = await extractTree("merged", tree);
    const changed = await git(top, ["diff", "--name-only", "--no-renames", "-z", `${base}^{tree}`, tree]);
    return { kind: "merged", changed: changed.split("\0").filter(Boolean), dir };
  }

  const isMerged = !dirty && (await isAncestor(top, head, base));
  return { urls, head, dirty, isMerged, baseBranch, base, defaultRef, warning, merge, extract };
}

async function findTop(where: string): Promise<string> {
  const is = await stat(where).catch(() => undefined);
  if (is === undefined) throw new Error(`${where} does not exist; pass a git working copy or a directory in it`);
  try {
    return await git(is.isDirectory() ? where : dirname(where), ["rev-parse", "--show-toplevel"]);
  } catch (error) {
    if (!/not a git repository/.test((error as Error).message)) throw error;
    throw new Error(
      `${resolve(where)} is not in a git working copy; run the command in one, or pass it: towline preview DIRECTORY`,
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

/** Commits everything that `git add -A` would add, with a separate index. */
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
