/** A git host for the tests of sources: real git behind HTTP, with a login, counters, and faults on demand. */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pino } from "pino";
import { onTestFinished } from "vitest";
import type { Freshness } from "../../src/model.ts";
import { createSources } from "../../src/source/sources.ts";
import type { GitSources, SourcesDeps } from "../../src/source/sources.ts";

export const login = { username: "deploy", password: "canary-5f0e" };

const gitEnv = {
  PATH: process.env["PATH"],
  HOME: "/nonexistent",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_AUTHOR_NAME: "Ada",
  GIT_AUTHOR_EMAIL: "ada@example.com",
  GIT_COMMITTER_NAME: "Ada",
  GIT_COMMITTER_EMAIL: "ada@example.com",
};

/** Answers a request itself and returns true, or leaves it to git. */
export type Fault = (
  req: IncomingMessage,
  res: ServerResponse,
  kind: "info" | "ls-refs" | "fetch",
  body: Buffer,
) => boolean;

export interface GitHost {
  readonly url: string;
  /** Requests that passed the login, by kind. */
  readonly counts: { info: number; lsRefs: number; fetch: number };
  /** Bytes sent in answers of git. */
  sent: number;
  /** If the host is secured: the accepted passwords, and the directory below which each finds its repositories. */
  readonly passwords: Map<string, string>;
  fault: Fault | undefined;
  /** Creates a repository; the test changes its working copy. */
  repo(name: string): Repo;
}

export interface Repo {
  readonly url: string;
  readonly credentials: [];
  readonly bare: string;
  /** Runs any git command in the working copy. */
  git(...args: string[]): string;
  write(path: string, content: string): void;
  link(path: string, target: string): void;
  /** Commits everything and pushes the current branch. */
  push(message?: string): string;
  /** Commits these files byte for byte, whatever the attributes of the repository say, and pushes. */
  pushUnconverted(paths: readonly string[]): string;
}

export function useDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), "towline-source-"));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true, maxRetries: 5 }));
  return directory;
}

export async function useGitHost({ secured = false } = {}): Promise<GitHost> {
  const root = useDirectory();
  const passwords = new Map([[login.password, ""]]);
  const counts = { info: 0, lsRefs: 0, fetch: 0 };
  const server = createServer((req, res) => void answer(req, res));

  async function answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const body = req.method === "POST" ? Buffer.concat(await req.toArray()) : Buffer.alloc(0);
    const kind = req.method === "GET" ? "info" : body.includes("command=ls-refs") ? "ls-refs" : "fetch";
    if (host.fault?.(req, res, kind, body)) return;
    const below = secured ? passwords.get(passwordOf(req)) : "";
    if (below === undefined) {
      res.writeHead(401, { "www-authenticate": 'Basic realm="git"' }).end();
      return;
    }
    counts[kind === "ls-refs" ? "lsRefs" : kind]++;
    serve(join(root, below), req, body, res, (bytes) => void (host.sent += bytes));
  }

  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const host: GitHost = {
    url,
    counts,
    sent: 0,
    passwords,
    fault: undefined,
    repo: (name) => createRepo(root, url, name),
  };
  return host;
}

function passwordOf({ headers }: IncomingMessage): string {
  const [username, password = ""] = Buffer.from(headers.authorization?.slice("Basic ".length) ?? "", "base64")
    .toString()
    .split(":");
  return username === login.username ? password : "";
}

function createRepo(root: string, url: string, name: string): Repo {
  const bare = join(root, `${name}.git`);
  const tree = join(root, "trees", name);
  const git = (...args: string[]): string =>
    execFileSync("git", args, { cwd: tree, env: gitEnv, encoding: "utf8" }).trim();
  mkdirSync(tree, { recursive: true });
  mkdirSync(bare, { recursive: true });
  git("init", "-q", "--bare", "-b", "main", bare);
  git("init", "-q", "-b", "main");
  git("remote", "add", "origin", bare);
  git("-C", bare, "config", "receive.denyDeleteCurrent", "ignore");
  return {
    url: `${url}/${name}.git`,
    credentials: [],
    bare,
    git,
    write(path, content) {
      mkdirSync(dirname(join(tree, path)), { recursive: true });
      writeFileSync(join(tree, path), content);
    },
    link: (path, target) => symlinkSync(target, join(tree, path)),
    push(message = "Change") {
      git("add", "--all");
      git("commit", "-q", "--allow-empty", "-m", message);
      git("push", "-q", "-f", "origin", "HEAD");
      return git("rev-parse", "HEAD");
    },
    pushUnconverted(paths) {
      for (const path of paths) {
        const blob = git("hash-object", "-w", "--no-filters", path).trim(); // `git add` would convert it
        git("update-index", "--add", "--cacheinfo", `100644,${blob},${path}`);
      }
      git("commit", "-q", "-m", "attributes");
      git("push", "-q", "origin", "HEAD");
      return git("rev-parse", "HEAD").trim();
    },
  };
}

function serve(
  root: string,
  req: IncomingMessage,
  body: Buffer,
  res: ServerResponse,
  sent: (bytes: number) => void,
): void {
  const url = new URL(req.url ?? "/", "http://git");
  const env = {
    ...gitEnv,
    GIT_PROJECT_ROOT: root,
    GIT_HTTP_EXPORT_ALL: "1",
    REQUEST_METHOD: req.method,
    PATH_INFO: decodeURIComponent(url.pathname),
    QUERY_STRING: url.search.slice(1),
    CONTENT_TYPE: req.headers["content-type"],
    CONTENT_LENGTH: String(body.length),
    HTTP_CONTENT_ENCODING: req.headers["content-encoding"],
    GIT_PROTOCOL: [req.headers["git-protocol"]].flat()[0],
  };
  const backend = spawn("git", ["http-backend"], { env, stdio: ["pipe", "pipe", "ignore"] });
  backend.stdin.on("error", () => undefined);
  backend.stdin.end(body);
  const chunks: Buffer[] = [];
  backend.stdout.on("data", (chunk: Buffer) => chunks.push(chunk));
  backend.on("close", () => {
    const output = Buffer.concat(chunks);
    const end = output.indexOf("\r\n\r\n");
    for (const line of output.subarray(0, end).toString("latin1").split("\r\n")) {
      const [name = "", value = ""] = line.split(/:\s*/, 2);
      if (name.toLowerCase() === "status") res.statusCode = Number.parseInt(value, 10);
      else if (name !== "") res.setHeader(name, value);
    }
    sent(output.length - end - 4);
    res.end(output.subarray(end + 4));
  });
}

export interface Watched {
  readonly sources: GitSources;
  readonly cacheDir: string;
  readonly seen: { lsRemotes: number; fetches: number };
  /** Existing directories of jobs and logins. */
  work(): string[];
  mirrors(): string[];
}

export function useSources(deps: Partial<SourcesDeps> = {}): Watched {
  const cacheDir = deps.cacheDir ?? join(useDirectory(), "cache");
  const seen = { lsRemotes: 0, fetches: 0 };
  const list = (name: string): string[] => {
    try {
      return readdirSync(join(cacheDir, name));
    } catch {
      return [];
    }
  };
  const sources = createSources({
    log: pino({ level: "silent" }),
    env: { PATH: process.env["PATH"] },
    observe: { lsRemote: () => void seen.lsRemotes++, fetch: () => void seen.fetches++, checkout: () => undefined },
    ...deps,
    limits: { idleCheckouts: 0, ...deps.limits },
    cacheDir,
  });
  return { sources, cacheDir, seen, work: () => list("work"), mirrors: () => list("mirrors") };
}

export const since = (move: string): Freshness => ({ since: move });
