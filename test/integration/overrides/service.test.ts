/** The source-override service over real gRPC and TLS, with a client that replaces kluctl's command line. */
import { existsSync, readdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { connect } from "node:net";
import { once } from "node:events";
import http2 from "node:http2";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { createKeyMaterial } from "../../../src/overrides/key-material.ts";
import type { OverrideLimits } from "../../../src/overrides/limits.ts";
import { askReplica } from "../../../src/overrides/proxy-client.ts";
import { defaultLimits } from "../../../src/overrides/limits.ts";
import { loadGrpc } from "../../../src/overrides/service.ts";
import { startSourceOverrides } from "../../../src/overrides/source-overrides.ts";
import { parseRepoKey } from "../../../src/model/repo-key.ts";
import type { RepoKey } from "../../../src/model.ts";
import { silentLog } from "../../support/fakes.ts";
import { anArchive, newKeys, useOverrideClient } from "../../support/override-client.ts";
import { patience } from "../../support/patience.ts";
import { useTempDir } from "../../support/world.ts";

const never = new AbortController().signal;
const key = (text: string) => parseRepoKey(text) as RepoKey;
const shop = key("git://git.example.com/org/shop");

async function useService(
  options: { limits?: Partial<OverrideLimits>; material?: ReturnType<typeof createKeyMaterial> } = {},
) {
  const material = options.material ?? createKeyMaterial(new Date());
  const workDir = join(await useTempDir(), "overrides");
  const service = await startSourceOverrides({
    host: "127.0.0.1",
    port: 0,
    loadMaterial: () => Promise.resolve(material),
    workDir,
    limits: options.limits,
    log: silentLog,
  });
  let stopped: Promise<void> | undefined;
  const stop = () => (stopped ??= service.stop());
  onTestFinished(stop);
  await service.ready;
  return { ...service, stop, material, workDir, left: () => readdirSync(workDir) };
}

test("a client's directory is available for the duration of a run, and requested once", async () => {
  const { overrides, port, material, left } = await useService();
  const client = await useOverrideClient({
    port,
    ca: material.ca,
    answer: (repoKey) => (repoKey.endsWith("/shop") ? { artifact: anArchive({ "sub/deployment.yaml": "x: 1" }) } : {}),
  });
  await client.accepted;
  const offered = await overrides.open([
    { repoKey: shop, isGroup: false, url: client.url },
    { repoKey: key("oci://registry.example.com:5000/org"), isGroup: true, url: client.url },
  ]);
  const [one, two] = await Promise.all([offered.find(shop, 9_000, never), offered.find(shop, 9_000, never)]);
  expect(two).toBe(one);
  expect(await readFile(join(one ?? "", "sub/deployment.yaml"), "utf8")).toBe("x: 1");
  expect(await offered.find(key("oci://registry.example.com:5000/org/a"), 9_000, never)).toBeUndefined();
  expect(await offered.find(key("git://git.example.com/org/other"), 9_000, never)).toBeUndefined();
  expect(client.asked).toEqual(["git://git.example.com/org/shop", "oci://registry.example.com:5000/org/a"]);

  const checkout = await offered.checkout(shop, "sub", 9_000, never);
  expect(checkout).toMatchObject({ root: one, projectDir: join(one ?? "", "sub") });
  expect(checkout?.commit).toBe("");
  expect(existsSync(join(one ?? "", ".git/HEAD"))).toBe(true);
  await expect(offered.checkout(shop, "elsewhere", 9_000, never)).rejects.toThrow(/no directory "elsewhere"/);
  await expect(offered.checkout(shop, "../..", 9_000, never)).rejects.toThrow(/no directory/);
  await offered.release();
  expect(left()).toEqual([]);
});

test("a replica requests directories from the one with the client's connection, and all other callers are refused", async () => {
  const here = await useService();
  const there = await useService({ material: here.material });
  const stranger = await useService();
  const artifact = anArchive({ a: "a".repeat(2_000_000) });
  const client = await useOverrideClient({ port: here.port, ca: here.material.ca, answer: () => ({ artifact }) });
  await client.accepted;
  const override = { repoKey: shop, isGroup: false, url: client.url };

  const offered = await there.overrides.open([override]);
  expect(await readFile(join((await offered.find(shop, 9_000, never)) ?? "", "a"), "utf8")).toHaveLength(2_000_000);
  await offered.release();

  const foreign = await stranger.overrides.open([override]);
  await expect(foreign.find(shop, 9_000, never)).rejects.toThrow(/could not get git:\/\/git.example.com\/org\/shop/);
  await foreign.release();

  const grpc = await loadGrpc();
  const question = { address: `localhost:${here.port}`, client: client.id, repoKey: "git://a/b" };
  const liar = { ...here.material, controllerSecret: Buffer.alloc(32) };
  await expect(askReplica(grpc, liar, question, defaultLimits, never)).rejects.toThrow(/PERMISSION_DENIED/);
  expect(client.asked).toHaveLength(1);
});

test("a client that fails its proof of possession, stalls or sends unrequested messages is refused or disconnected", async () => {
  const { port, material } = await useService({ limits: { handshakeMs: 300 } });
  const keys = newKeys();
  const first = await useOverrideClient({ port, ca: material.ca, keys });
  await first.accepted;

  const thief = await useOverrideClient({ port, ca: material.ca, keys, signer: newKeys() });
  await expect(thief.accepted).rejects.toThrow(/proof of possession failed/);
  const twin = await useOverrideClient({ port, ca: material.ca, keys });
  await expect(twin.accepted).rejects.toThrow(/duplicate server id/);
  first.send({ response: { artifact: Buffer.from("unasked") } });
  expect(await first.ended).toMatch(/not requested/);
  await expect
    .poll(async () =>
      (await useOverrideClient({ port, ca: material.ca, keys })).accepted.then(
        () => true,
        () => false,
      ),
    )
    .toBe(true);

  const grpc = await loadGrpc();
  const silent = new grpc.Client(`localhost:${port}`, grpc.credentials.createSsl(Buffer.from(material.ca)));
  onTestFinished(() => silent.close());
  const stream = silent.makeBidiStreamRequest(
    "/sourceoverride.Proxy/ProxyStream",
    () => Buffer.alloc(0),
    () => undefined,
  );
  stream.on("data", () => undefined);
  await expect(once(stream, "end")).rejects.toThrow(/did not identify itself/);
});

test("every failure to get a directory is reported in time", async () => {
  const { overrides, port, material, left, stop } = await useService({
    limits: { archiveBytes: 100_000, answerMs: 400 },
  });
  const answers: Record<string, () => Promise<object> | object> = {
    refused: () => ({ error: "tgz is too large: 99" }),
    broken: () => ({ artifact: Buffer.from("no archive") }),
    escaping: () => ({ artifact: anArchive({ "../../out": "x" }) }),
    large: () => ({ artifact: Buffer.alloc(200_000) }),
    slow: () => new Promise(() => undefined),
  };
  const clientFor = async (name: string) => {
    const client = await useOverrideClient({ port, ca: material.ca, answer: () => answers[name]?.() ?? {} });
    await client.accepted;
    return client;
  };
  const failing = async (url: string) => {
    const offered = await overrides.open([{ repoKey: shop, isGroup: false, url }]);
    onTestFinished(() => offered.release());
    return offered.find(shop, 60_000, never).then(String, (error: Error) => error.message);
  };
  expect(await failing((await clientFor("refused")).url)).toMatch(/the client reports: tgz is too large: 99/);
  expect(await failing((await clientFor("broken")).url)).toMatch(/cannot be unpacked/);
  expect(await failing((await clientFor("escaping")).url)).toMatch(/lead out of it/);
  expect(await failing((await clientFor("large")).url)).toMatch(/200000 bytes|the client disconnected/);
  expect(await failing((await clientFor("slow")).url)).toMatch(/no response in time/);

  const gone = await clientFor("refused");
  gone.leave();
  await expect.poll(() => failing(gone.url)).toMatch(/no longer connected/);
  expect(await failing(gone.url.replace(String(port), "1"))).toMatch(
    /could not get .* from grpc\+source-override:\/\/localhost:1: /,
  );
  expect(await failing(gone.url.replace("localhost", "169.254.169.254"))).toMatch(/link-local or metadata address/);
  expect(await failing(gone.url.replace("localhost", "[64:ff9b::a9fe:a9fe]"))).toMatch(
    /link-local or metadata address/,
  );
  for (const url of ["https://localhost/x", "grpc+source-override://localhost:1/short", "nonsense"]) {
    expect(await failing(url)).toMatch(/not an address created by kluctl gitops/);
  }
  const leaving = await clientFor("slow");
  const waiting = failing(leaving.url);
  await expect.poll(() => leaving.asked).toHaveLength(1);
  await stop();
  expect(await waiting).toMatch(/the client disconnected|no response in time/);
  expect(left().length).toBeGreaterThan(0); // until the directories are released
});

test("a connection that sends too much before it has identified itself is closed", async () => {
  const { port, material } = await useService({ limits: { handshakeMs: 60_000 } });
  const session = http2.connect(`https://localhost:${port}`, { ca: material.ca, checkServerIdentity: () => undefined });
  session.on("error", () => undefined);
  onTestFinished(() => session.destroy());
  const stream = session.request({
    ":method": "POST",
    ":path": "/sourceoverride.Proxy/ProxyStream",
    "content-type": "application/grpc",
  });
  stream.on("error", () => undefined);
  const head = Buffer.alloc(5);
  head.writeUInt32BE(30_000_000, 1);
  stream.write(head);
  stream.write(Buffer.alloc(29_000_000));
  await expect.poll(() => session.destroyed, patience).toBe(true);
  await (
    await useOverrideClient({ port, ca: material.ca })
  ).accepted;
});

test("silent connections do not keep clients out", async () => {
  const { port, material } = await useService({ limits: { connections: 5 } });
  const client = await useOverrideClient({ port, ca: material.ca });
  await client.accepted;
  const silent = Array.from({ length: 20 }, () => connect(port, "127.0.0.1").on("error", () => undefined));
  onTestFinished(() => silent.forEach((socket) => socket.destroy()));
  for (const socket of silent) if (socket.connecting) await once(socket, "connect").catch(() => undefined);
  await (
    await useOverrideClient({ port, ca: material.ca })
  ).accepted;
  const left = await Promise.race([client.ended, Promise.resolve("still there")]);
  expect(left).toBe("still there");
});

test("directories that exceed the memory limit are requested one after the other", async () => {
  const { overrides, port, material } = await useService({ limits: { archiveBytes: 100_000, bytesInFlight: 200_000 } });
  const answers: (() => void)[] = [];
  const answer = () =>
    new Promise<object>((resolve) => answers.push(() => resolve({ artifact: anArchive({ a: "a" }) })));
  const found: Promise<string | undefined>[] = [];
  for (let i = 0; i < 3; i++) {
    const client = await useOverrideClient({ port, ca: material.ca, answer });
    await client.accepted;
    const offered = await overrides.open([{ repoKey: shop, isGroup: false, url: client.url }]);
    onTestFinished(() => offered.release());
    found.push(offered.find(shop, 60_000, never));
  }
  for (const [i, directory] of found.entries()) {
    await expect.poll(() => answers.length, patience).toBe(i + 1);
    answers[i]?.();
    expect(await directory).toBeDefined();
  }
});

test("connections that do not use TLS, or stay silent, block nothing", async () => {
  const { port, material } = await useService();
  const plain = connect(port, "127.0.0.1");
  plain.write("GET / HTTP/1.1\r\n\r\n");
  plain.on("error", () => undefined);
  const silent = connect(port, "127.0.0.1");
  onTestFinished(() => void silent.destroy());
  await (
    await useOverrideClient({ port, ca: material.ca })
  ).accepted;
});
