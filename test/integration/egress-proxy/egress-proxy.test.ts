/** With real sockets: which hosts a confined run reaches, and the errors for all others. */
import { once } from "node:events";
import http from "node:http";
import net, { type AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test, vi } from "vitest";
import { createEgressProxy, type EgressAccess, type EgressProxyDeps } from "../../../src/egress-proxy/egress-proxy.ts";
import { silentLog } from "../../support/fakes.ts";
import { useUpstream } from "../../support/upstream-proxy.ts";
import { patience } from "../../support/patience.ts";

/** Answers with the requested method, path and host, and counts connections. */
async function useServer(answer?: http.RequestListener) {
  const asked: string[] = [];
  const echo: http.RequestListener = (req, res) => {
    asked.push(`${req.method} ${req.url} ${req.headers.host}`);
    res.end("hello");
  };
  const server = http.createServer(answer ?? echo);
  let connections = 0;
  server.on("connection", () => connections++);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => server.close().closeAllConnections());
  return { port: (server.address() as AddressInfo).port, asked, connections: () => connections };
}

/**
 * `names` maps host names to addresses; of this machine, only the addresses that `own` returns count as the server's
 * own.
 */
function useProxy(names: Record<string, readonly string[]>, deps: Partial<EgressProxyDeps> = {}) {
  const looked: string[] = [];
  const proxy = createEgressProxy({
    hosts: () => [],
    apiServers: () => [],
    env: {},
    log: silentLog,
    lookup: (host) => {
      looked.push(host);
      return Promise.resolve((names[host] ?? []).map((address) => ({ address })));
    },
    ...deps,
  });
  onTestFinished(() => proxy.stop());
  return { ...proxy, looked };
}

/** The first line of the proxy's answer to a CONNECT, and the connection behind it. */
async function connect({ env, port }: Pick<EgressAccess, "env" | "port">, target: string, login = loginOf(env)) {
  const socket = net.connect(port, "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  socket.on("error", () => undefined);
  socket.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n${login}\r\n`);
  const [head] = (await once(socket, "data")) as [Buffer];
  return { line: head.toString().split("\r\n")[0], socket };
}

function loginOf(env: EgressAccess["env"]): string {
  const { username, password } = new URL(env["HTTPS_PROXY"] ?? "");
  return `Proxy-Authorization: Basic ${Buffer.from(`${username}:${password}`).toString("base64")}\r\n`;
}

async function askThrough(socket: net.Socket, path: string): Promise<string> {
  socket.write(`GET ${path} HTTP/1.1\r\nHost: behind\r\nConnection: close\r\n\r\n`);
  const chunks: Buffer[] = [];
  for await (const chunk of socket) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

const login = `Basic ${Buffer.from("user:pass").toString("base64")}`;

test("a run reaches its own hosts and no others, and the refusal says which host and what to do", async () => {
  const server = await useServer();
  const upstream = await useUpstream(server.port);
  const { open } = useProxy({}, upstream);
  const access = await open(["git.example.com", "*.charts.example.com:8443"]);

  const { line, socket } = await connect(access, "git.example.com:443");
  expect(line).toBe("HTTP/1.1 200 Connection established");
  expect(await askThrough(socket, "/x")).toMatch(/hello$/);
  expect((await connect(access, "a.charts.example.com:8443")).line).toContain("200");
  expect(upstream.asked).toEqual([
    `CONNECT git.example.com:443 ${login}`,
    `CONNECT a.charts.example.com:8443 ${login}`,
  ]);

  const refused = "previews cannot reach evil.example.com; an operator can add it to preview.hosts";
  expect((await connect(access, "evil.example.com:443")).line).toBe(`HTTP/1.1 403 ${refused}`);
  expect((await connect(access, "git.example.com:22")).line).toContain("cannot reach git.example.com:22;");
  expect((await connect(access, "/etc/passwd")).line).toContain("403");
  expect(access.refusals()).toEqual([refused, expect.stringContaining(":22"), expect.stringContaining("a host and")]);
});

test("every preview may reach the hosts that the operator allows", async () => {
  const server = await useServer();
  const hosts = ["charts.example.com", `127.0.0.1:${server.port}`];
  const { open } = useProxy({}, { ...(await useUpstream(server.port)), hosts: () => hosts });
  const access = await open([]);

  expect((await connect(access, "charts.example.com:443")).line).toContain("200");
  expect((await connect(access, `127.0.0.1:${server.port}`)).line).toContain("200");
});

test.each([
  ["127.0.0.1", "is the server itself"],
  ["localhost", "is the server itself"],
  ["0.0.0.0", "is the server itself"],
  ["[::1]", "is the server itself"],
  ["[::ffff:127.0.0.1]", "is the server itself"],
  ["[64:ff9b::7f00:1]", "is the server itself"],
  ["2130706433", "is the server itself"],
  ["own.example.com", "is the server itself"],
  ["mapped.example.com", "is the server itself"],
  ["169.254.169.254", "a link-local or metadata address"],
  ["[::ffff:a9fe:a9fe]", "a link-local or metadata address"],
  ["[fe80::1]", "a link-local or metadata address"],
  ["metadata.example.com", "a link-local or metadata address"],
  ["some.example.com", "a link-local or metadata address"],
  ["api.example.com", "is an API server"],
])("%s is refused even if a deployment lists it", async (host, why) => {
  const server = await useServer();
  const { open } = useProxy(
    {
      localhost: ["127.0.0.1"],
      "own.example.com": ["10.9.8.7"],
      "mapped.example.com": ["::ffff:10.9.8.7"],
      "metadata.example.com": ["169.254.169.254"],
      "some.example.com": ["192.0.2.7", "fe80::1"],
      "api.example.com": ["192.0.2.1"],
      "kubernetes.default.svc": ["192.0.2.1"],
    },
    {
      ownAddresses: () => ["10.9.8.7"],
      apiServers: () => [{ host: "kubernetes.default.svc", port: server.port }],
    },
  );
  const access = await open([`${host}:${server.port}`]);

  expect((await connect(access, `${host}:${server.port}`)).line).toMatch(/^HTTP\/1.1 403 /);
  expect(access.refusals()).toEqual([expect.stringContaining(why)]);
  expect(server.connections()).toBe(0);
});

test("the proxy also checks addresses if the server itself connects through a proxy", async () => {
  const upstream = await useUpstream(1);
  const { open } = useProxy({}, upstream);
  const access = await open(["169.254.169.254", "169.254.169.254:80"]);

  expect((await connect(access, "169.254.169.254:443")).line).toContain("403");
  expect((await get(access, "http://169.254.169.254/latest")).status).toBe(403);
  expect(upstream.asked).toEqual([]);
});

test("the proxy connects to the addresses that it checked", async () => {
  const server = await useServer();
  let looked = 0;
  const { open } = useProxy(
    {},
    {
      // A second lookup would resolve to the running server.
      lookup: () => Promise.resolve([{ address: ++looked === 1 ? "192.0.2.9" : "127.0.0.1" }]),
      limits: { connectMs: 200 },
    },
  );
  const access = await open([`rebinding.example.com:${server.port}`]);

  expect((await connect(access, `rebinding.example.com:${server.port}`)).line).toMatch(/^HTTP\/1.1 502 cannot connect/);
  expect(looked).toBe(1);
  expect(server.connections()).toBe(0);
});

test("a port scan finds nothing, and host names outside the list are not even resolved", async () => {
  const server = await useServer();
  const { open, looked } = useProxy({ "git.example.com": ["127.0.0.1"] }, { ownAddresses: () => [] });
  const access = await open(["git.example.com"]);
  const ports = [1, 22, 80, 6379, 8080, server.port];
  const lines = await Promise.all(ports.map(async (port) => (await connect(access, `git.example.com:${port}`)).line));

  expect(lines.every((line) => line?.includes("403"))).toBe(true);
  await connect(access, "secret-value.evil.example.com:443");
  expect(looked).toEqual([]);
  expect(server.connections()).toBe(0);
});

async function get(
  { env, port }: EgressAccess,
  url: string,
  options: http.RequestOptions = {},
): Promise<{ status: number | undefined; words: string; body: string; location?: string | undefined }> {
  const headers = { ...options.headers, "proxy-authorization": loginOf(env).trim().slice(21), host: new URL(url).host };
  const sent = http.request({ ...options, host: "127.0.0.1", port, path: url, headers, agent: false });
  sent.end();
  const [answer] = (await once(sent, "response")) as [http.IncomingMessage];
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(chunk as Buffer);
  const { statusCode: status, statusMessage: words = "", headers: from } = answer;
  return { status, words, body: Buffer.concat(chunks).toString(), location: from.location };
}

test("without TLS, the same hosts can be read, and nothing else is possible", async () => {
  const server = await useServer();
  const upstream = await useUpstream(server.port);
  const { open } = useProxy({}, upstream);
  const access = await open(["charts.example.com"]);

  expect(await get(access, "http://charts.example.com/index.yaml")).toMatchObject({ status: 200, body: "hello" });
  expect(server.asked).toEqual(["GET /index.yaml charts.example.com"]);
  expect(upstream.asked).toEqual([`GET http://charts.example.com/index.yaml ${login}`]);
  expect((await get(access, "http://charts.example.com/x/git-upload-pack", { method: "POST" })).status).toBe(200);
  expect((await get(access, "http://charts.example.com/hook", { method: "POST" })).words).toContain("only read");
  expect((await get(access, "http://charts.example.com:8080/")).words).toContain("cannot reach");
  expect((await get(access, "http://evil.example.com/")).words).toContain("cannot reach evil.example.com;");
  expect(server.asked).toHaveLength(2);
});

test("without TLS, the proxy also connects to the address that it checked, and drops the body of a read", async () => {
  const server = await useServer();
  const { open } = useProxy({}, { hosts: () => [`127.0.0.1:${server.port}`] });
  const access = await open([]);
  const url = `http://127.0.0.1:${server.port}/index.yaml`;

  expect(await get(access, url)).toMatchObject({ status: 200, body: "hello" });

  const socket = net.connect(access.port, "127.0.0.1");
  const more = "DELETE /everything HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
  const body = `${more.length.toString(16)}\r\n${more}\r\n0\r\n\r\n`;
  socket.write(
    `GET ${url} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${loginOf(access.env)}Transfer-Encoding: chunked\r\n\r\n${body}`,
  );
  expect((await text(socket)).split("\r\n")[0]).toBe("HTTP/1.1 200 OK");
  const asked = `GET /index.yaml 127.0.0.1:${server.port}`;
  expect(server.asked).toEqual([asked, asked]);
});

test("the target of a redirect is checked like every other", async () => {
  const server = await useServer((_req, res) => void res.writeHead(302, { location: "http://10.0.0.1/" }).end());
  const { open } = useProxy({}, await useUpstream(server.port));
  const access = await open(["charts.example.com"]);

  const { location = "" } = await get(access, "http://charts.example.com/");
  expect(location).toBe("http://10.0.0.1/");
  expect((await get(access, location)).status).toBe(403);
});

test("when a run ends, its login is revoked and its connections are closed", async () => {
  const server = await useServer();
  const { open } = useProxy({}, await useUpstream(server.port));
  const [one, other] = await Promise.all([open(["one.example.com"]), open(["other.example.com"])]);
  expect(other.port).toBe(one.port);

  const { socket } = await connect(one, "one.example.com:443");
  expect((await connect(one, "other.example.com:443")).line).toContain("403");
  const closed = once(socket, "close");
  await one.close();
  await closed;
  expect((await connect(one, "one.example.com:443")).line).toBe("HTTP/1.1 407 this run is over");
  expect((await connect(one, "one.example.com:443", "")).line).toContain("407");
  expect((await connect(other, "other.example.com:443")).line).toContain("200");
});

test("the number of connections, idle time and bytes are limited", async () => {
  const server = await useServer((_req, res) => void res.end("x".repeat(100_000)));
  const upstream = await useUpstream(server.port);
  const few = await useProxy({}, { ...upstream, limits: { connections: 2 } }).open(["git.example.com"]);
  for (let i = 0; i < 2; i++) expect((await connect(few, "git.example.com:443")).line).toContain("200");
  expect((await connect(few, "git.example.com:443")).line).toContain("at most 2 connections");

  const silent = await useProxy({}, { ...upstream, limits: { idleMs: 50 } }).open(["git.example.com"]);
  await once((await connect(silent, "git.example.com:443")).socket, "close");

  const large = await useProxy({}, { ...upstream, limits: { bytes: 50_000 } }).open(["git.example.com"]);
  const { socket } = await connect(large, "git.example.com:443");
  await askThrough(socket, "/").catch(() => undefined);
  await vi.waitFor(
    () => expect(large.refusals()).toEqual([expect.stringContaining("cannot transfer more than")]),
    patience,
  );
});
