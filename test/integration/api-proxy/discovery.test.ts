/** Which answers about a cluster's API are cached, and which are not. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { createDiscovery } from "../../../src/api-proxy/discovery.ts";
import { permit } from "../../../src/api-proxy/permit.ts";
import { answerJson, useFakeApi } from "../../support/fake-api-access.ts";

const core = { kind: "APIResourceList", groupVersion: "v1", resources: [{ name: "namespaces", kind: "Namespace" }] };
const asks = (url: string) => permit({ method: "GET", url, headers: {} });
const [coreKinds, groups] = [asks("/api/v1"), asks("/apis")];

/** An API server whose list of groups has an ETag that the test changes. */
async function useDiscovery(handle: (req: IncomingMessage, res: ServerResponse, count: number) => void) {
  const state = { tag: '"1"', now: 1_000 };
  let count = 0;
  const api = await useFakeApi((req, res) => {
    if (req.url !== "/apis") return handle(req, res, ++count);
    if (req.headers["if-none-match"] === state.tag) return void res.writeHead(304).end();
    answerJson(res, 200, { kind: "APIGroupDiscoveryList", items: [] }, { ETag: state.tag });
  });
  const discovery = createDiscovery(() => state.now);
  const kinds = async (since = state.now) => {
    const { status, body } = await discovery.answer(api.access, coreKinds, since);
    return { status, text: body.toString() };
  };
  return { api, state, discovery, kinds };
}

test("discovery answers are shared between runs until the cluster's API changes", async () => {
  const { api, state, kinds } = await useDiscovery((_, res) => answerJson(res, 200, core));
  const all = await Promise.all([kinds(), kinds(), kinds()]);
  for (const { text } of all) expect(JSON.parse(text)).toEqual(core);
  state.now += 10_000;
  await kinds();
  expect(api.requests.filter((each) => each === "GET /api/v1")).toHaveLength(1);

  state.tag = '"2"';
  state.now += 1;
  await kinds();
  expect(api.requests.filter((each) => each === "GET /api/v1")).toHaveLength(2);
});

test("an answer that is cut off is neither passed on nor cached", async () => {
  const { kinds, api } = await useDiscovery((_, res, count) => {
    if (count > 2) return answerJson(res, 200, core);
    const body = JSON.stringify(core);
    res.writeHead(200, { "Content-Type": "application/json", ...(count === 1 && { "Content-Length": body.length }) });
    res.write(body.slice(0, 20), () => res.socket?.destroy());
  });
  expect(JSON.parse((await kinds()).text)).toEqual(core);
  expect(JSON.parse((await kinds()).text)).toEqual(core);
  expect(api.requests.filter((each) => each === "GET /api/v1")).toHaveLength(3);
});

test("errors, empty answers and answers that are not JSON are passed on but not cached", async () => {
  const answers: [number, string][] = [
    [503, '{"kind":"Status","code":503}'],
    [404, '{"kind":"Status","code":404}'],
    [403, '{"kind":"Status","code":403}'],
    [200, ""],
    [200, "<html>"],
    [200, '{"kind":"APIGroupDiscoveryList","items":[{"versions":[{"freshness":"Stale"}]}]}'],
  ];
  const { kinds } = await useDiscovery((_, res, count) => {
    const [status, body] = answers[count - 1] ?? [200, JSON.stringify(core)];
    res.writeHead(status, { "Content-Type": "application/json" }).end(body);
  });
  for (const [status, text] of answers) expect(await kinds()).toEqual({ status, text });
  expect(JSON.parse((await kinds()).text)).toEqual(core);
});

test("a request to an API server that is briefly overloaded is repeated", async () => {
  const { kinds } = await useDiscovery((_, res, count) =>
    answerJson(res, count === 1 ? 429 : count === 2 ? 500 : 200, core),
  );
  expect((await kinds()).status).toBe(200);
});

test("an answer that was under way while the API changed is not cached", async () => {
  const came = Promise.withResolvers<ServerResponse>();
  const { kinds, state, api } = await useDiscovery((_, res, count) => {
    if (count === 1) came.resolve(res);
    else answerJson(res, 200, core);
  });
  const old = kinds();
  const held = await came.promise;
  state.tag = '"2"';
  state.now += 1;
  const fresh = kinds();
  answerJson(held, 200, { kind: "APIResourceList", resources: [] });
  await Promise.all([old, fresh]);
  expect(JSON.parse((await kinds()).text)).toEqual(core);
  expect(api.requests.filter((each) => each === "GET /api/v1").length).toBeLessThanOrEqual(3);
});

test("a schema that takes all of the room does not keep other answers from being cached", async () => {
  const schema = { swagger: "2.0", filling: "x".repeat(16 * 2 ** 20 - 64) };
  const { discovery, api, state, kinds } = await useDiscovery((req, res) =>
    answerJson(res, 200, req.url === "/api/v1" ? core : schema),
  );
  await discovery.answer(api.access, asks("/openapi/v2"), state.now);
  await kinds();
  await kinds();
  expect(api.requests.filter((each) => each === "GET /api/v1")).toHaveLength(1);
});

test("without ETags, discovery answers are cached for seconds only", async () => {
  const state = { now: 0 };
  const api = await useFakeApi((_, res) => answerJson(res, 200, core));
  const discovery = createDiscovery(() => state.now);
  const count = () => api.requests.filter((each) => each === "GET /api/v1").length;
  await discovery.answer(api.access, coreKinds, 0);
  await discovery.answer(api.access, coreKinds, 0);
  expect(count()).toBe(1);
  state.now += 10_000;
  await discovery.answer(api.access, coreKinds, 0);
  expect(count()).toBe(2);
});

test("an unreachable cluster is an error, and later requests succeed", async () => {
  const { discovery, api } = await useDiscovery((_, res) => void res.socket?.destroy());
  await expect(discovery.answer(api.access, coreKinds, 0)).rejects.toThrow();
  expect((await discovery.answer(api.access, groups, 0)).status).toBe(200);
});
