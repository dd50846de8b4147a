/** A run's requests, in front of an API server that answers as the test defines. */
import { type IncomingMessage, request, type ServerResponse } from "node:http";
import { pino } from "pino";
import { expect, onTestFinished, test } from "vitest";
import { createApiProxy } from "../../../src/api-proxy/api-proxy.ts";
import type { SessionLimits } from "../../../src/api-proxy/session.ts";
import { answerJson, useFakeApi } from "../../support/fake-api-access.ts";
import { patience } from "../../support/patience.ts";

async function useSession(
  handle: (req: IncomingMessage, res: ServerResponse) => void,
  limits: Partial<SessionLimits> = {},
) {
  const api = await useFakeApi(handle);
  const state = { now: 0, account: "shop/preview" };
  const proxy = createApiProxy({
    login: async () => api.as(state.account),
    limits,
    now: () => state.now,
    log: pino({ level: "silent" }),
  });
  onTestFinished(() => proxy.close());
  const open = async (change?: string) => {
    const run = await proxy.open({ change });
    const { clusters } = JSON.parse(run.kubeconfig) as { clusters: { cluster: { server: string } }[] };
    const server = clusters[0]!.cluster.server;
    const call = (method: string, path: string, body?: string, headers: Record<string, string> = {}) =>
      new Promise<{ status: number; text: string; headers: IncomingMessage["headers"] }>((resolve, reject) => {
        const sent = request(`${server}${path}`, { method, headers, agent: false }, (answer) => {
          let text = "";
          answer.on("data", (chunk: Buffer) => (text += chunk.toString()));
          answer.on("end", () => resolve({ status: answer.statusCode ?? 0, text, headers: answer.headers }));
          answer.on("error", reject);
        });
        sent.on("error", reject);
        sent.end(body);
      });
    return { run, call };
  };
  return { api, state, open, proxy };
}

test("all attempts to preview the same change have three guesses at a value together, and later ones have new guesses", async () => {
  const bodies: string[] = [];
  const { open, state } = await useSession((req, res) => {
    const chunks: Buffer[] = [];
    req.on("data", (chunk: Buffer) => chunks.push(chunk));
    req.on("end", () => {
      bodies.push(Buffer.concat(chunks).toString());
      answerJson(res, 200, { kind: "Secret", apiVersion: "v1", metadata: { name: "login" } });
    });
  });
  const isSent = async (change: string | undefined, guess: string) => {
    const { run, call } = await open(change);
    const body = JSON.stringify({ stringData: { password: guess } });
    const merge = { "Content-Type": "application/merge-patch+json" };
    expect((await call("PATCH", "/api/v1/namespaces/shop/secrets/login", body, merge)).status).toBe(200);
    await run.close();
    return bodies.at(-1) === body;
  };
  for (const guess of ["a", "b", "c"]) expect(await isSent("shop/prod 1", guess)).toBe(true);
  expect(await isSent("shop/prod 1", "d")).toBe(false);
  // The same project gives the same value in each attempt.
  expect(await isSent("shop/prod 1", "a")).toBe(true);
  expect(await isSent("shop/prod 2", "d")).toBe(true);
  expect(await isSent(undefined, "d")).toBe(true);
  state.now += 60 * 60_000;
  expect(await isSent("shop/prod 1", "d")).toBe(true);
});

const forbidden = {
  kind: "Status",
  apiVersion: "v1",
  status: "Failure",
  reason: "Forbidden",
  code: 403,
  message: "no",
};
const list = { kind: "ConfigMapList", apiVersion: "v1", metadata: {}, items: [] };

test("a refused list is not requested again for a while by the same account", async () => {
  const { api, state, open } = await useSession((_, res) => answerJson(res, 403, forbidden));
  const first = await open();
  const one = await first.call("GET", "/api/v1/configmaps?labelSelector=a%3Db");
  const other = await (await open()).call("GET", "/api/v1/configmaps?labelSelector=a%3Db");
  expect([one.status, other.status]).toEqual([403, 403]);
  expect(other.text).toBe(one.text);
  expect(api.requests).toHaveLength(1);

  await first.call("GET", "/api/v1/configmaps");
  await first.call("GET", "/api/v1/namespaces/shop/configmaps/settings");
  await first.call("GET", "/api/v1/namespaces/shop/configmaps/settings");
  expect(api.requests).toHaveLength(4);
  state.account = "shop/other";
  await (await open()).call("GET", "/api/v1/configmaps");
  expect(api.requests).toHaveLength(5);
  state.now += 60_000;
  await first.call("GET", "/api/v1/configmaps");
  expect(api.requests).toHaveLength(6);
});

test("a list that was refused for three label selectors in a row is refused for all, until one is granted or some time has passed", async () => {
  const granted = new Set<string>();
  const { api, state, open } = await useSession((req, res) =>
    [...granted].some((selector) => req.url?.includes(selector))
      ? answerJson(res, 200, list)
      : answerJson(res, 403, forbidden),
  );
  const { call } = await open();
  const ask = async (selector: string, kind = "configmaps") =>
    (await call("GET", `/api/v1/${kind}?labelSelector=${selector}`)).status;
  for (const selector of ["a", "b", "c", "d", "e"]) expect(await ask(selector)).toBe(403);
  expect(api.requests).toHaveLength(3);
  // The refusal covers other selectors, but neither another kind nor another query, such as a page of the list.
  expect(await ask("d", "services")).toBe(403);
  expect(await ask("d&limit=1")).toBe(403);
  expect(await ask("d%3Be")).toBe(403);
  expect(api.requests).toHaveLength(5);

  // Once that has expired, it has to be shown again.
  state.now += 31_000;
  for (const selector of ["f", "g", "h", "i", "j"]) expect(await ask(selector)).toBe(403);
  expect(api.requests).toHaveLength(8);

  // An authorizer that evaluates selectors: once it grants one, the refusals applied only to the other selectors.
  granted.add("mine");
  state.now += 31_000;
  expect(await ask("mine")).toBe(200);
  expect(await ask("theirs")).toBe(403);
  expect(await ask("mine")).toBe(200);
  expect(await ask("x")).toBe(403);
  expect(await ask("mine")).toBe(200);
  expect(api.requests).toHaveLength(13);
});

test("rejections with different words show nothing about other label selectors", async () => {
  const { api, open } = await useSession((req, res) => answerJson(res, 403, { ...forbidden, message: req.url }));
  const { call } = await open();
  for (const selector of ["a", "b", "c", "d", "e"]) {
    expect((await call("GET", `/api/v1/configmaps?labelSelector=${selector}`)).status).toBe(403);
  }
  expect(api.requests).toHaveLength(5);
});

test("a login that was refused is renewed once, and a request whose connection was cut is repeated", async () => {
  let count = 0;
  const { api, open } = await useSession((_, res) => {
    count++;
    if (count === 1) answerJson(res, 401, { kind: "Status" });
    else if (count === 3) res.socket?.destroy();
    else answerJson(res, 200, list);
  });
  const { call } = await open();
  expect((await call("GET", "/api/v1/configmaps")).status).toBe(200);
  expect(api.renewed()).toBe(1);
  expect((await call("GET", "/api/v1/configmaps")).status).toBe(200);
  expect(api.requests).toHaveLength(4);
});

test("a run is limited in its number of requests and bytes", async () => {
  const { open, api } = await useSession((_, res) => answerJson(res, 200, list), { requests: 3, bodyBytes: 1_000 });
  const { call } = await open();
  const apply = { "Content-Type": "application/apply-patch+yaml" };
  const path = "/api/v1/namespaces/shop/configmaps/settings";
  expect((await call("PATCH", path, "x".repeat(2_000), apply)).status).toBe(413);
  const chunked = await call("PATCH", path, "x".repeat(2_000), { ...apply, "Transfer-Encoding": "chunked" });
  expect(chunked.status).toBe(413);
  expect((await call("GET", "/api/v1/configmaps")).status).toBe(200);
  const over = await call("GET", "/api/v1/configmaps");
  expect(over.status).toBe(403);
  expect(over.text).toContain("more than 3 requests");
  expect(api.requests).toHaveLength(1);
});

test("requests over the limit are answered with 429, and requests of a closed run are ended", async () => {
  const held: ServerResponse[] = [];
  const { open, api } = await useSession((_, res) => void held.push(res), { atOnce: 2 });
  const { call, run } = await open();
  const waiting = [call("GET", "/api/v1/configmaps"), call("GET", "/api/v1/services")].map((each) =>
    each.then(
      ({ status }) => status,
      () => "cut",
    ),
  );
  await expect.poll(() => api.requests.length, patience).toBe(2);
  const third = await call("GET", "/api/v1/pods");
  expect([third.status, third.headers["retry-after"]]).toEqual([429, "1"]);
  await run.close();
  for (const end of await Promise.all(waiting)) expect([502, 504, "cut"]).toContain(end);
});

test("an answer that breaks off in the middle is not passed on as complete", async () => {
  const { open } = await useSession((_, res) => {
    res.writeHead(200, { "Content-Type": "application/json" });
    res.write('{"kind":"ConfigMapList","items":[', () => res.socket?.destroy());
  });
  const { call } = await open();
  await expect(call("GET", "/api/v1/configmaps")).rejects.toThrow();
  expect((await call("GET", "/api/v1/secrets")).status).toBe(502);
});

test("an answer that is not JSON, is compressed or is a redirect does not pass", async () => {
  const answers: [number, Record<string, string>][] = [
    [200, { "Content-Type": "application/vnd.kubernetes.protobuf" }],
    [200, { "Content-Type": "text/html" }],
    [200, {}],
    [302, { "Content-Type": "application/json", Location: "http://169.254.169.254/" }],
    [200, { "Content-Type": "application/json", "Content-Encoding": "gzip" }],
  ];
  for (const [status, headers] of answers) {
    const { open } = await useSession((_, res) => void res.writeHead(status, headers).end("hunter22"));
    const { call } = await open();
    for (const path of ["/api/v1/configmaps", "/api/v1/secrets"]) {
      const answer = await call("GET", path);
      expect(answer.status).toBe(502);
      expect(answer.text).not.toContain("hunter22");
      expect(answer.headers["location"]).toBeUndefined();
    }
  }
});

test("only known headers are passed on, in both directions", async () => {
  const seen: IncomingMessage["headers"][] = [];
  const { open } = await useSession((req, res) => {
    seen.push(req.headers);
    answerJson(res, 200, list, { "Set-Cookie": "a=b", "X-Any": "c", Warning: '299 - "old"' });
  });
  const { call } = await open();
  const hostile = {
    Authorization: "Bearer x",
    "Impersonate-User": "admin",
    "Impersonate-Extra-scopes": "all",
    "X-Forwarded-For": "10.0.0.1",
    "X-Remote-Group": "system:masters",
    "Proxy-Authorization": "x",
    Cookie: "a",
    "Accept-Encoding": "gzip",
    TE: "trailers",
    "User-Agent": "curl",
  };
  const answer = await call("GET", "/api/v1/configmaps", undefined, hostile);
  expect(Object.keys(seen[0] ?? {}).toSorted()).toEqual(["accept", "connection", "host"]);
  expect(answer.headers).toMatchObject({ warning: '299 - "old"' });
  expect(answer.headers).not.toHaveProperty("set-cookie");
  expect(answer.headers).not.toHaveProperty("x-any");
});
