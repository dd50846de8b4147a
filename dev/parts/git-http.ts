/**
 * Git over HTTP without a forge: `git http-backend` behind a CGI bridge, which counts requests and can inject failures.
 */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { gitEnvironment } from "./work-copy.ts";

export interface GitHttpOptions {
  /** Directory of the bare repositories. */
  readonly root: string;
  /** The address to listen on; that of the loopback interface if absent. */
  readonly host?: string | undefined;
  /** Required on every request. */
  readonly login?: { readonly username: string; readonly password: string } | undefined;
}

export interface GitHttp {
  readonly url: string;
  /** Requests since the start: one `infoRefs` per ls-remote, fetch or push, and at least one `uploadPack` per fetch. */
  readonly requests: { infoRefs: number; uploadPack: number; receivePack: number };
  /** Creates an empty bare repository and returns its URL. */
  createRepository(name: string): Promise<string>;
  /**
   * Serves reads from the repositories below another directory until it is called with `undefined`; pushes still go to
   * the originals.
   */
  readFrom(root: string | undefined): void;
  /** Answers every request with this status until it is called with `undefined`. */
  failWith(status: number | undefined): void;
  stop(): Promise<void>;
}

const run = promisify(execFile);

export async function startGitHttp({ root, host = "127.0.0.1", login }: GitHttpOptions): Promise<GitHttp> {
  const requests = { infoRefs: 0, uploadPack: 0, receivePack: 0 };
  const expected = login && `Basic ${Buffer.from(`${login.username}:${login.password}`).toString("base64")}`;
  let failure: number | undefined;
  let readRoot = root;

  const server = createServer((req, res) => {
    const { pathname, searchParams } = new URL(req.url ?? "/", "http://git");
    const isPush = pathname.endsWith("/git-receive-pack") || searchParams.get("service") === "git-receive-pack";
    if (isPush) requests.receivePack++;
    else if (pathname.endsWith("/info/refs")) requests.infoRefs++;
    else if (pathname.endsWith("/git-upload-pack")) requests.uploadPack++;

    if (failure !== undefined) res.writeHead(failure).end();
    else if (expected !== undefined && req.headers.authorization !== expected)
      res.writeHead(401, { "www-authenticate": 'Basic realm="git"' }).end();
    else serve(isPush ? root : readRoot, req, res);
  });
  server.listen(0, host);
  await once(server, "listening");
  const url = `http://${host}:${(server.address() as AddressInfo).port}`;

  return {
    url,
    requests,
    async createRepository(name) {
      const dir = join(root, `${name}.git`);
      await mkdir(dir, { recursive: true });
      await run("git", ["init", "--quiet", "--bare", "--initial-branch=main", dir], { env: gitEnvironment });
      for (const [key, value] of [
        ["http.receivepack", "true"],
        ["uploadpack.allowFilter", "true"],
        ["uploadpack.allowAnySHA1InWant", "true"],
      ] as const)
        await run("git", ["-C", dir, "config", key, value], { env: gitEnvironment });
      return `${url}/${name}.git`;
    },
    readFrom(other = root) {
      readRoot = other;
    },
    failWith(status) {
      failure = status;
    },
    async stop() {
      server.close();
      server.closeAllConnections();
      if (server.listening) await once(server, "close");
    },
  };
}

function serve(root: string, req: IncomingMessage, res: ServerResponse): void {
  const [path = "/", query = ""] = (req.url ?? "/").split("?", 2);
  const header = (name: string) => {
    const value = req.headers[name];
    return typeof value === "string" ? value : undefined;
  };
  const env = {
    ...gitEnvironment,
    GIT_PROJECT_ROOT: root,
    GIT_HTTP_EXPORT_ALL: "1",
    REQUEST_METHOD: req.method,
    PATH_INFO: decodeURIComponent(path),
    QUERY_STRING: query,
    CONTENT_TYPE: header("content-type"),
    CONTENT_LENGTH: header("content-length"),
    HTTP_CONTENT_ENCODING: header("content-encoding"),
    GIT_PROTOCOL: header("git-protocol"),
    REMOTE_ADDR: "127.0.0.1",
  };
  const backend = spawn("git", ["http-backend"], { env, stdio: ["pipe", "pipe", "ignore"] });
  backend.on("error", () => res.destroy());
  backend.stdin.on("error", () => undefined); // the backend may answer without reading the whole input
  req.pipe(backend.stdin);
  res.on("close", () => backend.kill());
  passOn(backend.stdout, res);
}

/** Converts a CGI answer: header lines, an empty line, the body. */
function passOn(output: NodeJS.ReadableStream, res: ServerResponse): void {
  let head = Buffer.alloc(0);
  const readHead = (chunk: Buffer) => {
    head = Buffer.concat([head, chunk]);
    const end = head.indexOf("\r\n\r\n");
    if (end === -1) return;
    output.off("data", readHead);
    for (const line of head.subarray(0, end).toString("latin1").split("\r\n")) {
      const [name = "", value = ""] = line.split(/:\s*/, 2);
      if (name.toLowerCase() === "status") res.statusCode = Number.parseInt(value, 10);
      else res.setHeader(name, value);
    }
    res.write(head.subarray(end + 4));
    output.pipe(res);
  };
  output.on("data", readHead);
  output.on("end", () => res.end());
}
