/** A working copy for commits and pushes, like a developer's. */
import { execFile } from "node:child_process";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Isolates git from the settings of the machine and its user, and keeps it from prompting. */
export const gitEnvironment: NodeJS.ProcessEnv = {
  PATH: process.env["PATH"],
  HOME: "/nonexistent",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_TERMINAL_PROMPT: "0",
  GIT_AUTHOR_NAME: "Ada",
  GIT_AUTHOR_EMAIL: "ada@example.com",
  GIT_COMMITTER_NAME: "Ada",
  GIT_COMMITTER_EMAIL: "ada@example.com",
  LC_ALL: "C",
};

/** Path → content; `undefined` removes the file. */
export type FileChanges = Readonly<Record<string, string | undefined>>;

export interface PushOptions {
  readonly branch?: string;
  readonly message?: string;
  /** Discards the branch's history and files and starts it from scratch. */
  readonly force?: boolean;
}

export interface WorkCopy {
  readonly dir: string;
  /** Commits the changes to the checked-out branch without pushing them. Returns the commit. */
  commit(changes: FileChanges, message?: string): Promise<string>;
  /** Commits the changes to a branch (`main`; a new one starts at the current commit) and pushes it. Returns the commit. */
  push(changes: FileChanges, options?: PushOptions): Promise<string>;
  pushTag(name: string): Promise<void>;
  deleteBranch(name: string): Promise<void>;
  /** Runs any other git command and returns its output. */
  git(...args: string[]): Promise<string>;
}

/** An existing working copy keeps its commits and gets this remote. `remote` may contain a login, because the directory is temporary. */
export async function createWorkCopy(dir: string, remote: string): Promise<WorkCopy> {
  await mkdir(dir, { recursive: true });
  const git = async (...args: string[]) => {
    const { stdout } = await run("git", ["-C", dir, ...args], { env: gitEnvironment });
    return stdout.trim();
  };
  const exists = (ref: string) =>
    git("rev-parse", "--quiet", "--verify", ref).then(
      () => true,
      () => false,
    );
  async function commit(changes: FileChanges, message = "Change"): Promise<string> {
    for (const [path, content] of Object.entries(changes)) {
      const file = join(dir, path);
      if (content === undefined) await rm(file, { force: true });
      else {
        await mkdir(dirname(file), { recursive: true });
        await writeFile(file, content);
      }
    }
    await git("add", "--all");
    await git("commit", "--quiet", "--allow-empty", "-m", message);
    return git("rev-parse", "HEAD");
  }

  await git("init", "--quiet", "--initial-branch=main");
  if (await git("remote").then((names) => names === "")) await git("remote", "add", "origin", remote);
  else await git("remote", "set-url", "origin", remote);

  return {
    dir,
    git,
    commit,
    async push(changes, { branch = "main", message, force = false } = {}) {
      const known = await exists(`refs/heads/${branch}`);
      if (force && known) {
        await git("checkout", "--quiet", "--detach");
        await git("branch", "--quiet", "-D", branch);
        await git("checkout", "--quiet", "--orphan", branch);
        await git("rm", "-rfq", "--ignore-unmatch", ".");
      } else if (known) await git("checkout", "--quiet", branch);
      else if (await exists("HEAD")) await git("checkout", "--quiet", "-b", branch);
      else await git("symbolic-ref", "HEAD", `refs/heads/${branch}`); // for the first commit
      const commitId = await commit(changes, message);
      await git("push", "--quiet", ...(force ? ["--force"] : []), "origin", `HEAD:refs/heads/${branch}`);
      return commitId;
    },
    async pushTag(name) {
      await git("tag", name);
      await git("push", "--quiet", "origin", `refs/tags/${name}`);
    },
    async deleteBranch(name) {
      await git("push", "--quiet", "origin", `:refs/heads/${name}`);
    },
  };
}
