/** A simulated registry: the test defines its answers, and it records the requests. */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createHttpsServer, type ServerOptions } from "node:https";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { Header } from "tar";
import { onTestFinished } from "vitest";

export const registryLogin = { username: "ada", password: "right-horse-battery" };
export const registryToken = "a-token-of-the-registry";

export interface RegistryHostOptions {
  /** The authentication that it requires. */
  readonly wants?: "nothing" | "basic" | "bearer";
  readonly tls?: ServerOptions;
  /** URL of its token service, if it is not the registry's own. */
  readonly realm?: string;
}

export interface RegistryHost {
  /** `127.0.0.1:port`, or the name in the URL for clients that resolve it. */
  readonly host: string;
  /** Requests as `GET /v2/… Basic`, in the order in which they came. */
  readonly asked: string[];
  /** Bodies of POST requests. */
  readonly posted: string[];
  /** Called first; answers the request itself if it returns true. */
  fault: ((req: IncomingMessage, res: ServerResponse) => boolean) | undefined;
  url(repository: string): string;
  /** Stores an artifact with these files; returns its digest. */
  push(repository: string, tag: string, files: Readonly<Record<string, string>>, more?: PushOptions): string;
  /** Stores any manifest; returns its digest. */
  pushManifest(repository: string, reference: string, manifest: object): string;
  /** Stores any bytes; returns their descriptor for a manifest. */
  pushBlob(bytes: Buffer): { digest: string; size: number };
}

export interface PushOptions {
  readonly annotations?: Readonly<Record<string, string>>;
}

export function toTar(files: Readonly<Record<string, string>>): Buffer {
  const parts = Object.entries(files).flatMap(([path, content]) => {
    const bytes = Buffer.from(content);
    const header = Buffer.alloc(512);
    new Header({ path, size: bytes.length, mode: 0o644, type: "File" }).encode(header);
    return [header, bytes, Buffer.alloc((512 - (bytes.length % 512)) % 512)];
  });
  return Buffer.concat([...parts, Buffer.alloc(1_024)]);
}

const digestOf = (bytes: Buffer) => `sha256:${createHash("sha256").update(bytes).digest("hex")}`;

export async function useRegistryHost({
  wants = "nothing",
  tls,
  realm,
}: RegistryHostOptions = {}): Promise<RegistryHost> {
  const blobs = new Map<string, Buffer>();
  const manifests = new Map<string, Buffer>();
  const handle = (req: IncomingMessage, res: ServerResponse): void => void answer(req, res);
  const server = tls ? createHttpsServer(tls, handle) : createHttpServer(handle);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const own = `http${tls ? "s" : ""}://${host}`;
  const basic = `Basic ${Buffer.from(`${registryLogin.username}:${registryLogin.password}`).toString("base64")}`;

  async function answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const { pathname } = new URL(req.url ?? "/", own);
    const { authorization = "" } = req.headers;
    registry.asked.push([req.method, pathname, authorization.split(" ")[0]].join(" ").trim());
    if (registry.fault?.(req, res)) return;
    if (pathname === "/token") return giveToken(req, res);
    const expected = { nothing: authorization, basic, bearer: `Bearer ${registryToken}` }[wants];
    if (authorization !== expected) {
      const challenge = `Bearer realm="${realm ?? `${own}/token`}",service="the registry"`;
      res.writeHead(401, { "www-authenticate": wants === "basic" ? 'Basic realm="registry"' : challenge });
      return void res.end(JSON.stringify({ errors: [{ code: "UNAUTHORIZED", message: "no" }] }));
    }
    const [, repository = "", kind, reference = ""] = /^\/v2\/(.+)\/(manifests|blobs)\/([^/]+)$/.exec(pathname) ?? [];
    const bytes = kind === "blobs" ? blobs.get(reference) : manifests.get(`${repository} ${reference}`);
    if (bytes === undefined) {
      res.writeHead(404);
      const known = [...manifests.keys()].some((key) => key.startsWith(`${repository} `));
      return void res.end(JSON.stringify({ errors: [{ code: known ? "MANIFEST_UNKNOWN" : "NAME_UNKNOWN" }] }));
    }
    res.writeHead(200, { "content-length": bytes.length, "docker-content-digest": digestOf(bytes) });
    res.end(req.method === "HEAD" ? undefined : bytes);
  }

  async function giveToken(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const body = Buffer.concat(await req.toArray()).toString("utf8");
    if (req.method === "POST") registry.posted.push(body);
    const known =
      req.method === "POST" ? body.includes("refresh_token=an-identity-token") : req.headers.authorization === basic;
    if (!known) return void res.writeHead(401).end();
    res.end(JSON.stringify({ token: registryToken, expires_in: 300 }));
  }

  const registry: RegistryHost = {
    host,
    asked: [],
    posted: [],
    fault: undefined,
    url: (repository) => `oci://${host}/${repository}`,
    pushBlob(bytes) {
      const digest = digestOf(bytes);
      blobs.set(digest, bytes);
      return { digest, size: bytes.length };
    },
    pushManifest(repository, reference, manifest) {
      const bytes = Buffer.from(JSON.stringify(manifest));
      manifests.set(`${repository} ${reference}`, bytes);
      manifests.set(`${repository} ${digestOf(bytes)}`, bytes);
      return digestOf(bytes);
    },
    push(repository, tag, files, { annotations } = {}) {
      const layer = registry.pushBlob(gzipSync(toTar(files)));
      return registry.pushManifest(repository, tag, { schemaVersion: 2, layers: [layer], annotations });
    },
  };
  return registry;
}
