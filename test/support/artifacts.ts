/** Artifacts and charts in a real registry, that of Gitea, and in a Helm repository over TLS. */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { stringify } from "yaml";
import { onTestFinished } from "vitest";
import { createCertificateAuthority } from "../../dev/parts/certificates.ts";
import { kluctlEnvironment } from "./kluctl-beside.ts";
import { toTar } from "./registry-host.ts";
import { type TestForge, type TestWorld, uniqueName } from "./world.ts";

const run = promisify(execFile);

export interface TestRegistry {
  /** `host:port` */
  readonly host: string;
  readonly login: { readonly username: string; readonly password: string };
  /** One organization with public artifacts, and one whose artifacts only members can read. */
  readonly open: string;
  readonly closed: string;
  url(organization: string, name: string): string;
  /** Runs `kluctl oci push` on a working copy; returns the artifact's digest. */
  push(url: string, tag: string, projectDir: string): Promise<string>;
  /** Pushes a chart like Helm. `tag`: another one than its version. */
  pushChart(organization: string, chart: Chart, tag?: string): Promise<void>;
}

export interface Chart {
  readonly name: string;
  readonly version: string;
  /** Namespace of the ConfigMap that the chart consists of. */
  readonly namespace: string;
  /** What the ConfigMap says; default: the chart's name. */
  readonly from?: string;
}

export async function useGiteaRegistry(world: TestWorld, gitea: TestForge): Promise<TestRegistry> {
  const { url, user, token } = gitea.login;
  const { host } = new URL(url);
  const closed = uniqueName("closed");
  await gitea.call("POST", "/orgs", { username: closed, visibility: "private" });
  const authorization = `Basic ${Buffer.from(`${user}:${token}`).toString("base64")}`;

  async function send(method: string, path: string, body: Buffer, type: string): Promise<void> {
    const headers = { authorization, "content-type": type };
    const answer = await fetch(`${url}/v2/${path}`, { method, headers, body: new Uint8Array(body) });
    if (!answer.ok) throw new Error(`the registry answered ${answer.status} to ${path}: ${await answer.text()}`);
  }

  async function sendBlob(repository: string, mediaType: string, bytes: Buffer) {
    const digest = `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
    await send("POST", `${repository}/blobs/uploads/?digest=${digest}`, bytes, "application/octet-stream");
    return { mediaType, digest, size: bytes.length };
  }

  return {
    host,
    login: { username: user, password: token },
    open: gitea.organization,
    closed,
    url: (organization, name) => `oci://${host}/${organization}/${name}`,
    async push(artifact, tag, projectDir) {
      const args = ["oci", "push", "--no-update-check", "--output", "json", "--url", `${artifact}:${tag}`];
      const login = { KLUCTL_REGISTRY_HOST: host, KLUCTL_REGISTRY_USERNAME: user, KLUCTL_REGISTRY_PASSWORD: token };
      const env = { ...kluctlEnvironment(world), ...login };
      const { stdout } = await run(world.kluctl, args, { env, cwd: projectDir });
      return (JSON.parse(stdout) as { digest: string }).digest;
    },
    async pushChart(organization, chart, tag = chart.version) {
      const repository = `${organization}/${chart.name}`;
      const helm = "application/vnd.cncf.helm";
      const meta = Buffer.from(JSON.stringify(metaOf(chart)));
      const config = await sendBlob(repository, `${helm}.config.v1+json`, meta);
      const layer = await sendBlob(repository, `${helm}.chart.content.v1.tar+gzip`, toArchive(chart));
      const mediaType = "application/vnd.oci.image.manifest.v1+json";
      const manifest = { schemaVersion: 2, mediaType, config, layers: [layer] };
      await send("PUT", `${repository}/manifests/${tag}`, Buffer.from(JSON.stringify(manifest)), mediaType);
    },
  };
}

export interface TestHelmRepository {
  readonly url: string;
  readonly host: string;
  readonly login: { readonly username: string; readonly password: string };
  /** The authority that signed its certificate. */
  readonly ca: string;
}

/** A Helm repository with a password and a certificate of an unknown authority. */
export async function useHelmRepository(chart: Chart): Promise<TestHelmRepository> {
  const login = { username: "ada", password: "chart-horse-battery" };
  const authority = createCertificateAuthority("Charts");
  const { cert, key } = authority.issueServer("charts", ["127.0.0.1"]);
  const expected = `Basic ${Buffer.from(`${login.username}:${login.password}`).toString("base64")}`;
  const file = `${chart.name}-${chart.version}.tgz`;
  const index = { apiVersion: "v1", entries: { [chart.name]: [{ ...metaOf(chart), urls: [file] }] } };
  const contents = new Map<string, string | Buffer>([
    ["/stable/index.yaml", stringify(index)],
    [`/stable/${file}`, toArchive(chart)],
  ]);
  const server = createServer({ cert, key }, (req, res) => {
    const content = contents.get(req.url ?? "");
    if (req.headers.authorization !== expected) res.writeHead(401).end();
    else if (content === undefined) res.writeHead(404).end();
    else res.end(content);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url: `https://${host}/stable`, host, login, ca: authority.cert };
}

function metaOf({ name, version }: Chart) {
  return { apiVersion: "v2", name, version };
}

function toArchive(chart: Chart): Buffer {
  const { name, namespace, from = name } = chart;
  const object = { apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace }, data: { from } };
  return gzipSync(
    toTar({ [`${name}/Chart.yaml`]: stringify(metaOf(chart)), [`${name}/templates/it.yaml`]: stringify(object) }),
  );
}
