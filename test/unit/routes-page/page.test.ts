import { expect, test, vi } from "vitest";
import type { PageForge } from "../../../src/web/facts.ts";
import { createNetworks } from "../../../src/config/network.ts";
import { QueueUnavailableError } from "../../../src/errors.ts";
import { pageBearer as bearer, pageToken as token, usePage } from "../../support/page.ts";
import { patience } from "../../support/patience.ts";

const paths = [
  "deployments",
  "deployments/shop/prod",
  "deployments/shop/prod/results/one",
  "deployments/shop/prod/log",
  "deliveries",
  "pull-requests",
  "pull-requests/gitea/org/shop/7",
  "queue",
  "trace/3f2c1ab",
  "access",
  "events",
  "whatever",
];

test("nothing is shown without access, and every answer forbids content from other origins", async () => {
  const { get } = await usePage();
  for (const path of paths) {
    const res = await get(`/api/${path}`);
    expect([path, res.status]).toEqual([path, 401]);
    expect(await res.text()).not.toContain("prod");
    expect(res.headers.get("access-control-allow-origin")).toBeNull();
    expect(res.headers.get("cache-control")).toBe("no-store");
    expect(res.headers.get("x-robots-tag")).toBe("noindex, nofollow");
  }
  const page = await get("/");
  expect(page.status).toBe(200);
  expect(page.headers.get("content-security-policy")).toBe(
    "default-src 'none';script-src 'self';style-src 'self';connect-src 'self';img-src 'self' data:;form-action 'self';frame-ancestors 'none';base-uri 'none'",
  );
  expect(page.headers.get("x-content-type-options")).toBe("nosniff");
  expect(page.headers.get("x-frame-options")).toBe("DENY");
  expect((await get("/assets/page.js")).headers.get("content-type")).toContain("javascript");
  expect((await get("/assets/../index.html%00")).status).not.toBe(200);
});

test("the token gives access, in a header or as a session that scripts cannot read and other sites cannot send", async () => {
  const { get, post } = await usePage();
  expect(await (await get("/api/deployments", bearer)).json()).toMatchObject([{ namespace: "shop", name: "prod" }]);
  expect(await (await get("/api/access", bearer)).json()).toEqual({
    by: "token",
    role: "viewer",
    logins: { token: true, oidc: false },
  });
  const login = await post("/api/login", { token });
  expect(login.status).toBe(204);
  const cookie = login.headers.get("set-cookie") ?? "";
  expect(cookie).toMatch(/^towline-session=\d+\.[\w-]{43}; Max-Age=43200; Path=\/; .*HttpOnly; SameSite=Strict$/);
  expect(cookie).not.toContain(token);
  const session = { Cookie: cookie.split(";", 1)[0] ?? "" };
  expect((await get("/api/deployments", session)).status).toBe(200);
  const secure = await post("/api/login", { token }, { "X-Forwarded-Proto": "https" });
  expect(secure.headers.get("set-cookie")).toContain("Secure");
  expect((await post("/api/logout", {})).headers.get("set-cookie")).toContain("Expires=Thu, 01 Jan 1970");
});

test("a session ends with its time and with the token, and cannot be forged", async () => {
  let now = Date.now();
  const { get, post } = await usePage({ now: () => now });
  const [cookie = ""] = ((await post("/api/login", { token })).headers.get("set-cookie") ?? "").split(";");
  const other = await usePage({ token: "another-token-of-24-letters", now: () => now });
  expect((await other.get("/api/queue", { Cookie: cookie })).status).toBe(401);
  const later = cookie.replace(/=\d/, (digits) => `=${Number(digits.slice(1)) + 1}`);
  for (const made of [later, `${cookie}x`, "towline-session=", `towline-session=9999999999999.${"A".repeat(43)}`]) {
    expect((await get("/api/queue", { Cookie: made })).status).toBe(401);
  }
  expect((await get("/api/queue", { Cookie: `a=b; ${cookie}` })).status).toBe(200);
  now += 12 * 3_600_000;
  expect((await get("/api/queue", { Cookie: cookie })).status).toBe(401);
});

test("wrong tokens are refused, and after a few of them further attempts are rate-limited", async () => {
  const { post, get } = await usePage({}, { mostWrong: 4 });
  expect((await post("/api/login", { token }, { "Sec-Fetch-Site": "cross-site" })).status).toBe(403);
  expect((await post("/api/login", { token })).status).toBe(204);
  for (const wrong of ["", `${token}x`, token.slice(1)])
    expect((await post("/api/login", { token: wrong })).status).toBe(401);
  const wrong = await get("/api/queue", { Authorization: `Bearer ${token}x` });
  expect([wrong.status, await wrong.json()]).toMatchObject([401, { error: "Invalid page token." }]);
  expect((await post("/api/login", { token })).status).toBe(429);
  expect((await get("/api/queue", bearer)).status).toBe(429);
});

test("a proxy's header is trusted from the proxy's address only", async () => {
  const proxied = (addresses: readonly string[]) =>
    usePage({ token: undefined, proxy: { header: "X-User", isProxy: createNetworks(addresses) } });
  const near = await proxied(["127.0.0.0/8"]);
  expect((await near.get("/api/queue", { "X-User": "ann" })).status).toBe(200);
  expect((await near.get("/api/queue", { "X-User": " " })).status).toBe(401);
  expect((await near.get("/api/queue")).status).toBe(401);
  expect((await near.post("/api/login", { token: "" })).status).toBe(403);
  expect((await near.get("/api/queue", { Authorization: "Bearer undefined" })).status).toBe(401);
  const far = await proxied(["10.0.0.7"]);
  expect((await far.get("/api/queue", { "X-User": "ann" })).status).toBe(401);
});

test("networks are addresses and blocks, both IPv4 and IPv6", () => {
  const isIn = createNetworks(["10.0.0.7", "192.168.0.0/16", "fd00::/8"]);
  for (const one of ["10.0.0.7", "::ffff:10.0.0.7", "192.168.9.9", "fd12::1"])
    expect([one, isIn(one)]).toEqual([one, true]);
  for (const one of ["10.0.0.8", "::ffff:10.0.0.8", "fe80::1", ""]) expect([one, isIn(one)]).toEqual([one, false]);
});

test("a missing object, an invalid name and an unavailable dependency give different answers", async () => {
  const { get, facts } = await usePage();
  expect((await get("/api/deployments/shop/gone", bearer)).status).toBe(404);
  expect((await get("/api/deployments/shop/..%2Fprod", bearer)).status).toBe(404);
  expect((await get("/api/trace/HEAD", bearer)).status).toBe(400);
  expect((await get("/api/trace/3F2C1AB", bearer)).status).toBe(200);
  const deliveries = [2, 1].map((at) => ({ at }) as PageForge["deliveries"][number]);
  facts.forges = () => Promise.resolve([{ id: "gitea", kind: "gitea", lastVerifiedAt: 2, deliveries }]);
  expect(await (await get("/api/deliveries?newest", bearer)).json()).toMatchObject([{ deliveries: [{ at: 2 }] }]);
  facts.queue = () => Promise.reject(new QueueUnavailableError("redis://:secret@redis"));
  const res = await get("/api/queue", bearer);
  expect(res.status).toBe(503);
  expect(await res.json()).toMatchObject({ error: "Redis does not respond." });
});

test("a server whose page is not built says so", async () => {
  const { get } = await usePage({}, { assets: "/nowhere" });
  const res = await get("/");
  expect(res.status).toBe(503);
  expect(await res.json()).toMatchObject({ hint: expect.stringContaining("npm run build") as string });
});

test("many changes reach a listener as one, and deleted deployments as deleted", async () => {
  const { listen, events } = await usePage();
  const heard = await listen();
  await vi.waitFor(() => expect(heard.text).toContain("event: open"), patience);
  for (let i = 0; i < 100; i++) events.changed({ namespace: "shop", name: "prod" });
  events.changed({ namespace: "shop", name: "gone" });
  await vi.waitFor(() => expect(heard.deltas()).toHaveLength(1), patience);
  expect(heard.deltas()).toMatchObject([
    { changed: [{ name: "prod" }], removed: [{ namespace: "shop", name: "gone" }] },
  ]);
  await vi.waitFor(() => expect(heard.text).toContain(": alive"), patience);
  events.stop();
  await vi.waitFor(() => expect(heard.ended).toBe(true), patience);
});

test("listeners have a limit, and end with their access", async () => {
  const { listen, get } = await usePage({}, {}, { mostClients: 1 });
  const first = await listen();
  expect((await get("/api/events", bearer)).status).toBe(503);
  await first.cancel();
  await vi.waitFor(async () => {
    const res = await get("/api/events", bearer);
    await res.body?.cancel();
    expect(res.status).toBe(200);
  }, patience);

  let now = Date.now();
  const short = await usePage({ now: () => now - 3_600_000 - 1 });
  const heard = await short.listen();
  now = Date.now();
  await vi.waitFor(() => expect(heard.ended).toBe(true), patience);
});

test("newer commits that wait are listed for the namespaces that the user sees", async () => {
  const { get, facts } = await usePage({}, { sight: () => Promise.resolve((namespace) => namespace === "shop") });
  const newer = { commit: "b".repeat(40), why: "queued" };
  const ofShop = { namespace: "shop", name: "prod", ...newer };
  facts.newerCommits = () => Promise.resolve([ofShop, { namespace: "bank", name: "prod", ...newer }]);
  expect((await get("/api/newer-commits")).status).toBe(401);
  expect(await (await get("/api/newer-commits", bearer)).json()).toEqual([ofShop]);
  facts.newerCommits = () => Promise.reject(new QueueUnavailableError("redis is down"));
  expect((await get("/api/newer-commits", bearer)).status).toBe(503);
});
