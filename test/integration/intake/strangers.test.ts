/** Which resources senders without the secret can take away from those who have it. */
import http from "node:http";
import net from "node:net";
import { once } from "node:events";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { gzipSync } from "node:zlib";
import { expect, onTestFinished, test, vi } from "vitest";
import { createWebhookApp, type WebhookRoutesDeps } from "../../../routes/webhooks.ts";
import { createWebhookSource } from "../../../src/forge/create-webhook-source.ts";
import { type ListenerLimits, startListener } from "../../../src/app/listener.ts";
import { githubPush, githubSecret } from "../../support/deliveries.ts";
import { silentLog } from "../../support/fakes.ts";
import { patience } from "../../support/patience.ts";

const megabyte = 1024 * 1024;
const limits: ListenerLimits = { headersMs: 60_000, requestMs: 60_000, lookEveryMs: 1_000, keepAliveMs: 60_000 };

async function useServer(overrides: Partial<WebhookRoutesDeps> = {}, connections?: ListenerLimits["connections"]) {
  const github = { id: "github", kind: "github", secrets: [githubSecret], allowUnsigned: false } as const;
  const app = createWebhookApp({
    sources: new Map([["github", createWebhookSource(github)]]),
    accept: ({ delivery }) => Promise.resolve({ delivery, matched: 0, queued: 0, ignored: [] }),
    maxBodyBytes: 10 * megabyte,
    log: silentLog,
    ...overrides,
  });
  const address = { host: "127.0.0.1", port: 0, purpose: "tests", variable: "TEST" };
  const { port, stop } = await startListener(app, address, { ...limits, connections });
  onTestFinished(() => stop(0));

  function deliver(agent: http.Agent | false = false, more: http.OutgoingHttpHeaders = {}): Promise<number> {
    const { rawHeaders, body: plain } = githubPush();
    const body = more["Content-Encoding"] === "gzip" ? gzipSync(plain) : plain;
    return new Promise((resolve, reject) => {
      const req = http.request({ host: "127.0.0.1", port, path: "/webhooks/github", method: "POST", agent });
      for (let i = 0; i < rawHeaders.length; i += 2) {
        const name = rawHeaders[i] ?? "";
        if (!/^(?:host|content-length|connection)$/i.test(name)) req.setHeader(name, rawHeaders[i + 1] ?? "");
      }
      for (const [name, value] of Object.entries(more)) req.setHeader(name, value ?? "");
      req.on("error", reject);
      req.on("response", (res) => res.resume().on("end", () => resolve(res.statusCode ?? 0)));
      req.end(body);
    });
  }

  /** Sends the request; `answer` is everything received so far. */
  function open(headers: string, body: string | Buffer) {
    const socket = net.connect(port, "127.0.0.1");
    onTestFinished(() => void socket.destroy());
    const stranger = { socket, answer: "" };
    socket.on("error", () => undefined);
    socket.on("data", (data) => (stranger.answer += data.toString()));
    socket.write(`POST /webhooks/github HTTP/1.1\r\nHost: x\r\n${headers}\r\n\r\n`);
    socket.write(body);
    return stranger;
  }

  /** Sends bodies that cannot be decompressed, one after each answer. Returns a function that counts the answers. */
  function keepUnpacking(connections: number): () => number {
    const request = `POST /webhooks/github HTTP/1.1\r\nHost: x\r\n${packed}\r\n\r\nabc`;
    let [answers, isOver] = [0, false];
    onTestFinished(() => void (isOver = true));
    const start = () => {
      if (isOver) return;
      const { socket } = open(packed, "abc");
      socket.on("data", () => (answers++, socket.write(request)));
      socket.once("close", () => setTimeout(start, 100)); // connects again after it was cut off
    };
    for (let i = 0; i < connections; i++) start();
    return () => answers;
  }
  return { port, deliver, open, keepUnpacking };
}

const packed = "Content-Encoding: gzip\r\nContent-Length: 3";
const unpacksNever = (answer: string) => answer.startsWith("HTTP/1.1 400");

test("unfinished bodies of ten megabytes do not keep large or small deliveries out", async () => {
  const { deliver, open } = await useServer();
  const body = Buffer.alloc(10 * megabyte - 1, "x");
  const strangers = Array.from({ length: 12 }, () => open(`Content-Length: ${10 * megabyte}`, body));
  await vi.waitFor(
    () => expect(strangers.some(({ answer }) => answer.startsWith("HTTP/1.1 429"))).toBe(true),
    patience,
  );
  for (let i = 0; i < 20; i++) expect(await deliver()).toBe(202);
  const large = open(`Content-Length: ${9 * megabyte}`, Buffer.alloc(9 * megabyte, "x"));
  await vi.waitFor(() => expect(large.answer).toMatch(/^HTTP\/1.1 401 /), patience);
});

test("many unfinished bodies of ordinary size do not keep the next delivery out", async () => {
  const { deliver, open } = await useServer({ maxBytesInFlight: 8 * megabyte });
  const open20 = (bytes: number) =>
    Array.from({ length: 20 }, () => open(`Content-Length: ${bytes}`, "x".repeat(bytes - 1)));
  // The smaller bodies take the room that is left.
  const [first] = [900_000, 100_000, 10_000, 1_000].map(open20);
  await vi.waitFor(() => {
    const refused = first?.filter(({ answer }) => answer.startsWith("HTTP/1.1 429"));
    expect(refused?.length).toBeGreaterThanOrEqual(10);
  }, patience);
  for (let i = 0; i < 20; i++) expect(await deliver()).toBe(202);
});

test("a sender behind a trusted proxy takes no room from other senders", async () => {
  const isProxy = (address: string) => address === "127.0.0.1";
  const { open } = await useServer({ maxBytesInFlight: 8 * megabyte, isProxy });
  const from = (address: string) => `X-Forwarded-For: 203.0.113.9, ${address}\r\nContent-Length: ${2 * megabyte}`;
  const body = Buffer.alloc(2 * megabyte - 1, "x");
  const patient = open(from("198.51.100.1"), body);
  await new Promise((resolve) => patient.socket.write("", resolve));
  const greedy: ReturnType<typeof open>[] = [];
  await vi.waitFor(() => {
    greedy.push(open(from("198.51.100.2"), body));
    expect(greedy.filter(({ answer }) => answer.startsWith("HTTP/1.1 429")).length).toBeGreaterThan(3);
  }, patience);
  expect(patient.answer).toBe("");
  patient.socket.write("x");
  await vi.waitFor(() => expect(patient.answer).toMatch(/^HTTP\/1.1 401 /), patience);
});

test("a body in chunks of one byte takes no more memory than its bytes", async () => {
  const { open } = await useServer();
  const pieces = 300_000;
  const used = () => process.memoryUsage().heapUsed + process.memoryUsage().external;
  const before = used();
  let most = 0;
  const sampling = setInterval(() => (most = Math.max(most, used() - before)), 5);
  onTestFinished(() => clearInterval(sampling));
  const strangers = [1, 2, 3].map(() => open("Transfer-Encoding: chunked", "1\r\nx\r\n".repeat(pieces)));
  for (const { socket } of strangers) socket.write("0\r\n\r\n");
  await vi.waitFor(() => {
    for (const { answer } of strangers) expect(answer).toMatch(/^HTTP\/1.1 401 /);
  }, patience);
  expect(most / megabyte).toBeLessThan(60);
});

test("pipelined requests are answered one after the other", async () => {
  const { port } = await useServer();
  const { rawHeaders, body } = githubPush();
  const lines = rawHeaders.flatMap((name, i) =>
    i % 2 === 0 && !/^(?:host|content-length|connection)$/i.test(name) ? [`${name}: ${rawHeaders[i + 1]}`] : [],
  );
  const one = ["POST /webhooks/github HTTP/1.1", "Host: x", ...lines, `Content-Length: ${Buffer.byteLength(body)}`];
  const socket = net.connect(port, "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  let answer = "";
  socket.on("data", (data) => (answer += data.toString()));
  for (let i = 0; i < 50; i++) socket.write(`${one.join("\r\n")}\r\n\r\n${body}`);
  await vi.waitFor(() => expect(answer.match(/HTTP\/1.1 202 /g)).toHaveLength(50), patience);
});

test("above the connection limit, the oldest idle connections are closed, and none that deliver", async () => {
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => (release = resolve));
  const accept: WebhookRoutesDeps["accept"] = async ({ delivery }) => {
    if (delivery === "held") await held;
    return { delivery, matched: 0, queued: 0, ignored: [] };
  };
  let reported = 0;
  const onFull = (closed: number) => (reported += closed);
  const { deliver, port } = await useServer({ accept }, { most: 1_000, mostOfOne: 10, isProxy: () => false, onFull });
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  onTestFinished(() => agent.destroy());
  let opened = 0;
  const create = agent.createConnection.bind(agent);
  agent.createConnection = (...args) => (opened++, create(...args));
  expect(await deliver(agent)).toBe(202);
  const waits = deliver(false, { "X-GitHub-Delivery": "held" });

  const idle = Array.from({ length: 40 }, () => net.connect(port, "127.0.0.1").on("error", () => undefined));
  onTestFinished(() => idle.forEach((socket) => socket.destroy()));
  await vi.waitFor(() => expect(idle.filter(({ closed }) => closed).length).toBeGreaterThanOrEqual(30), patience);
  for (let i = 0; i < 20; i++) expect(await deliver()).toBe(202);
  expect(await deliver(agent), "the connection that delivered is still there").toBe(202);
  expect(opened).toBe(1);
  release();
  expect(await waits, "what waits for its answer is not cut off").toBe(202);
  expect(reported).toBeGreaterThan(0);
});

test("a compressed body whose sender hangs up before decompression takes no memory", async () => {
  setFlagsFromString("--expose-gc");
  const collectGarbage = runInNewContext("gc") as () => void;
  const { keepUnpacking, port } = await useServer({ maxBytesInFlight: 32 * megabyte });
  keepUnpacking(200);
  collectGarbage();
  const before = process.memoryUsage().arrayBuffers;
  const body = Buffer.alloc(4 * megabyte, "x");
  for (let i = 0; i < 40; i++) {
    const socket = net.connect(port, "127.0.0.1").resume();
    socket.on("error", () => undefined);
    socket.write(`POST /webhooks/github HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\n`);
    socket.end(Buffer.concat([Buffer.from(`Content-Length: ${body.length}\r\n\r\n`), body]));
    await once(socket, "close");
  }
  // Memory is returned shortly after garbage collection; decompressing the bodies in front of these would take a
  // minute.
  await vi.waitFor(
    () => {
      collectGarbage();
      expect((process.memoryUsage().arrayBuffers - before) / megabyte).toBeLessThan(48);
    },
    { timeout: 15_000, interval: 50 },
  );
});

test("when many compressed bodies wait, the sender with most of them is refused", async () => {
  const isProxy = (address: string) => address === "127.0.0.1";
  const { deliver, open } = await useServer({ isProxy });
  const from = (address: string) => `X-Forwarded-For: ${address}\r\n${packed}`;
  const greedy = Array.from({ length: 30 }, () => open(from("198.51.100.1"), "abc"));
  await vi.waitFor(() => expect(greedy.some(({ answer }) => unpacksNever(answer))).toBe(true), patience);
  const waits = deliver(false, { "X-Forwarded-For": "198.51.100.2", "Content-Encoding": "gzip" });
  const more = Array.from({ length: 30 }, () => open(from("198.51.100.1"), "abc"));
  expect(await waits).toBe(202);
  const refused = [...greedy, ...more].filter(({ answer }) => answer.startsWith("HTTP/1.1 429"));
  expect(refused).not.toEqual([]);
  await vi.waitFor(() => {
    for (const { answer } of [...greedy, ...more]) expect(answer).toMatch(/^HTTP\/1.1 4(?:00|29) /);
  }, patience);
  expect(await deliver(false, { "Content-Encoding": "gzip" })).toBe(202);
});

test("connections that wait for decompression do not keep deliveries out", async () => {
  const connections = { most: 1_000, mostOfOne: 50, isProxy: () => false, onFull: () => undefined };
  const { deliver, keepUnpacking } = await useServer({}, connections);
  const answers = keepUnpacking(50);
  await vi.waitFor(() => expect(answers()).toBeGreaterThan(10), patience);
  for (let i = 0; i < 20; i++) expect(await deliver()).toBe(202);
});

test("a new connection is accepted even if all others carried genuine deliveries", async () => {
  const connections = { most: 3, mostOfOne: 1_000, isProxy: () => false, onFull: () => undefined };
  const { deliver } = await useServer({}, connections);
  const agents = Array.from({ length: 3 }, () => new http.Agent({ keepAlive: true, maxSockets: 1 }));
  onTestFinished(() => agents.forEach((agent) => agent.destroy()));
  for (const agent of agents) expect(await deliver(agent)).toBe(202);
  expect(await deliver()).toBe(202);
});
