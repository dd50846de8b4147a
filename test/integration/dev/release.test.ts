import { createHash } from "node:crypto";
import { chmod, mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { basename, join } from "node:path";
import { create } from "tar";
import { expect, onTestFinished, test, vi } from "vitest";
import { download, type Download } from "../../../dev/release/download.ts";
import type { ReleaseTable } from "../../../dev/release/releases.ts";
import { findTools } from "../../../dev/tools.ts";
import { useTempDir } from "../../support/world.ts";

const content = Buffer.from(Array.from({ length: 40_000 }, (_, i) => `line ${i}\n`).join(""));
const sha256 = createHash("sha256").update(content).digest("hex");

test("a file is downloaded, also after redirects, and kept under its name only", async () => {
  const dir = await useTempDir();
  const server = await serve((request, response) => {
    if (request.url === "/latest") return void response.writeHead(302, { location: "/there" }).end();
    if (request.url === "/there") return void response.writeHead(307, { location: `${server.url}/file` }).end();
    sendFrom(request, response);
  });

  await downloadTo(dir, { url: `${server.url}/latest` });

  expect(await readFile(join(dir, "file"))).toEqual(content);
  expect(await readdir(dir)).toEqual(["file"]);
});

test("after a lost connection, the rest is requested", async () => {
  const dir = await useTempDir();
  const ranges: (string | undefined)[] = [];
  const server = await serve((request, response) => {
    ranges.push(request.headers.range);
    if (ranges.length > 2) return sendFrom(request, response);
    const from = fromOf(request);
    response.writeHead(from === 0 ? 200 : 206, {
      "content-length": content.length - from,
      ...(from > 0 && { "content-range": `bytes ${from}-${content.length - 1}/${content.length}` }),
    });
    response.write(content.subarray(from, from + 100_000), () => response.destroy());
  });
  const { said } = await downloadTo(dir, { url: server.url });

  expect(await readFile(join(dir, "file"))).toEqual(content);
  expect(ranges).toHaveLength(3);
  expect(ranges[0]).toBeUndefined();
  expect(ranges[2]).toMatch(/^bytes=[1-9]\d*-$/);
  expect(said[0]).toMatch(/^downloading tool 1\.0: the connection was lost after 0\.\d of 0\.\d MB; going on …$/);
});

test("a connection on which nothing arrives is given up, and the download goes on", async () => {
  const dir = await useTempDir();
  let requests = 0;
  const server = await serve((request, response) => {
    if (++requests > 1) return sendFrom(request, response);
    response.writeHead(200, { "content-length": content.length });
    response.write(content.subarray(0, 1_000));
  });

  await downloadTo(dir, { url: server.url, idleMs: 200 });

  expect(await readFile(join(dir, "file"))).toEqual(content);
});

test("what another run left behind is continued, and replaced if it belongs to another file", async () => {
  const dir = await useTempDir();
  const server = await serve(sendFrom);
  for (const left of [content.subarray(0, 5_000), Buffer.from("of another file"), Buffer.alloc(content.length + 1)]) {
    await writeFile(join(dir, "file.part"), left);
    await downloadTo(dir, { url: server.url });
    expect(await readFile(join(dir, "file"))).toEqual(content);
  }
});

test("a server that sends no parts of files sends the whole one", async () => {
  const dir = await useTempDir();
  await writeFile(join(dir, "file.part"), content.subarray(0, 5_000));
  const server = await serve((_, response) => void response.end(content));

  await downloadTo(dir, { url: server.url });

  expect(await readFile(join(dir, "file"))).toEqual(content);
});

test("of a file with another checksum nothing is kept", async () => {
  const dir = await useTempDir();
  const server = await serve((_, response) => void response.end("something else"));

  await expect(downloadTo(dir, { url: server.url })).rejects.toThrow(`instead of ${sha256}`);

  expect(await readdir(dir)).toEqual([]);
});

test("a file that does not exist and a server that is away are errors at once", async () => {
  const dir = await useTempDir();
  let requests = 0;
  const server = await serve((_, response) => {
    requests++;
    response.writeHead(404).end();
  });

  await expect(downloadTo(dir, { url: server.url })).rejects.toThrow("answered with HTTP 404");
  expect(requests).toBe(1);
  await server.close();
  await expect(downloadTo(dir, { url: server.url })).rejects.toThrow(/127\.0\.0\.1:\d+ cannot be reached/);
});

test("a server that is busy is asked again", async () => {
  const dir = await useTempDir();
  let requests = 0;
  const server = await serve((request, response) => {
    if (++requests === 1) return void response.writeHead(503).end();
    sendFrom(request, response);
  });

  await downloadTo(dir, { url: server.url });

  expect(requests).toBe(2);
});

test("the proxies of the environment are used", async () => {
  const dir = await useTempDir();
  const server = await serve(sendFrom);
  const through: (string | undefined)[] = [];
  const proxy = await serve((request, response) => {
    through.push(request.url);
    sendFrom(request, response);
  });
  proxy.server.on("connect", (request, socket, head: Buffer) => {
    through.push(request.url);
    const [host, port] = (request.url ?? "").split(":");
    const target = connect(Number(port), host, () => {
      socket.write("HTTP/1.1 200 Connection Established\r\n\r\n");
      target.write(head);
      socket.pipe(target).pipe(socket);
    });
  });

  await downloadTo(dir, { url: `${server.url}/file`, env: { HTTP_PROXY: proxy.url } });

  expect(await readFile(join(dir, "file"))).toEqual(content);
  expect(through).toHaveLength(1);
  expect(through[0]).toContain(new URL(server.url).host);
});

test("a program is taken from its project's release, and from the cache the second time", async () => {
  const { releases, env, said, requests } = await publish("2.22.1");

  const { kluctl } = await findTools(["kluctl"], { say: (line) => said.push(line), env, releases });
  const offline = { ...env, TOWLINE_DEMO_OFFLINE: "1" };
  const again = await findTools(["kluctl"], { say: (line) => said.push(line), env: offline, releases });

  expect(again, "offline, what is there is used").toEqual({ kluctl });
  expect(basename(kluctl)).toBe("kluctl");
  expect((await stat(kluctl)).mode & 0o111).toBe(0o111);
  expect(await readFile(kluctl, "utf8")).toContain("2.22.1");
  expect(requests()).toBe(1);
  expect(said.map((line) => line.replace(/\d+ s/, "0 s"))).toEqual([
    "downloading kluctl 2.22.1 (once) …",
    "downloaded kluctl 2.22.1 (0 s)",
  ]);
});

test.each([
  ["is not what its checksum says", { wrongHash: true }, /: its SHA-256 is [0-9a-f]{64} instead of 0+\. /],
  ["has no such file", { member: "bin/kluctl" }, /: its archive has no file bin\/kluctl\. /],
  ["is for another machine", { program: "#!/nowhere/sh\n" }, /: it does not run on this machine\. /],
])("a release that %s is not used: the program is built", async (_, how, why) => {
  const { releases, env, said } = await publish("2.22.1", how);

  // There is no Go on this PATH.
  await expect(findTools(["kluctl"], { say: (line) => said.push(line), env, releases })).rejects.toThrow(
    "kluctl 2.22.1 is built with Go: install it",
  );

  expect(said.at(-1)).toMatch(why);
  expect(said.at(-1)).toMatch(/^No ready-made kluctl 2\.22\.1: .* It will be built\.$/);
  // Neither is it the next time.
  await expect(findTools(["kluctl"], { say: () => undefined, env, releases })).rejects.toThrow("is built with Go");
});

test("TOWLINE_DEMO_OFFLINE=1 and a release without a checksum request no release", async () => {
  const { releases, env, said, requests } = await publish("2.22.1");
  const unknown = structuredClone(releases);
  for (const file of Object.values(unknown["kluctl"]?.platforms ?? {})) delete file.sha256;
  const say = (line: string) => void said.push(line);

  const offline = findTools(["kluctl"], { say, env: { ...env, TOWLINE_DEMO_OFFLINE: "1" }, releases });
  await expect(offline).rejects.toThrow("is built with Go");
  await expect(findTools(["kluctl"], { say, env, releases: unknown })).rejects.toThrow("is built with Go");

  expect(requests()).toBe(0);
  expect(said).toEqual([]);
});

/** Publishes an archive with a program that prints this version, and gives the test a cache of its own. */
async function publish(version: string, how: { wrongHash?: boolean; member?: string; program?: string } = {}) {
  const dir = await useTempDir();
  vi.stubEnv("TOWLINE_CACHE", join(dir, "cache"));
  onTestFinished(() => void vi.unstubAllEnvs());
  await mkdir(join(dir, "content"));
  await writeFile(join(dir, "content", "kluctl"), how.program ?? `#!/bin/sh\necho '${version}'\n`);
  await chmod(join(dir, "content", "kluctl"), 0o644);
  await create({ gzip: true, file: join(dir, "archive"), cwd: join(dir, "content") }, ["kluctl"]);
  const archive = await readFile(join(dir, "archive"));
  let requests = 0;
  const server = await serve((_, response) => {
    requests++;
    response.end(archive);
  });
  const hash = how.wrongHash ? "0".repeat(64) : createHash("sha256").update(archive).digest("hex");
  const file = { url: `${server.url}/kluctl.tar.gz`, member: how.member ?? "kluctl", sha256: hash };
  const releases: ReleaseTable = {
    kluctl: { version, checksums: "", platforms: { [`${process.platform}-${process.arch}`]: file } },
  };
  return { releases, env: { PATH: join(dir, "nothing") }, said: [] as string[], requests: () => requests };
}

async function downloadTo(dir: string, options: Pick<Download, "url"> & Partial<Download>) {
  const said: string[] = [];
  const say = (line: string) => void said.push(line);
  await download({ title: "tool 1.0", sha256, path: join(dir, "file"), say, env: {}, ...options });
  return { said };
}

const fromOf = (request: IncomingMessage) => Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? "")?.[1] ?? 0);

function sendFrom(request: IncomingMessage, response: ServerResponse): void {
  const from = fromOf(request);
  if (from === 0) return void response.end(content);
  if (from >= content.length) return void response.writeHead(416).end();
  response
    .writeHead(206, { "content-range": `bytes ${from}-${content.length - 1}/${content.length}` })
    .end(content.subarray(from));
}

async function serve(listener: RequestListener) {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  onTestFinished(() => close().then(() => undefined));
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close };
}
