/** Users who log in at a real identity provider, and what they may then do in a real cluster. */
import type { Page as BrowserPage } from "playwright-core";
import { expect, test, vi } from "vitest";
import { buildPage } from "../../dev/page-build.ts";
import type { PageForge } from "../../src/web/facts.ts";
import type { PossibleActions } from "../../src/web/writes.ts";
import { useBrowserPage } from "../support/chromium.ts";
import { useFront } from "../support/front.ts";
import { createCookieJar, type IdentityProvider, useIdentityProvider } from "../support/identity-provider.ts";
import { patience } from "../support/patience.ts";
import { aProject, aSpec } from "../support/project.ts";
import { sendPush, type Towline, useTowline } from "../support/towline.ts";
import type { TestCluster } from "../support/world-cluster.ts";
import { useWorld } from "../support/world.ts";

const olga = { email: "olga@example.com", groups: ["ops", "system:masters"] };
const eve = { email: "eve@example.com", groups: ["ops-elsewhere"] };
const vic = { email: "vic@example.com", groups: ["dev"] };

test("users can do what their role and the cluster permit, and all actions are in the audit log", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const front = await useFront();
  const idp = await useIdentityProvider(`${front.url}/auth/callback`);
  const [server, repo] = await Promise.all([
    useTowline(world, {
      TOWLINE_PAGE_HOST: "127.0.0.1",
      TOWLINE_PAGE_PORT: "0",
      TOWLINE_PAGE_OIDC_ISSUER: idp.issuer,
      TOWLINE_PAGE_OIDC_CLIENT_ID: idp.clientId,
      TOWLINE_PAGE_OIDC_CLIENT_SECRET: idp.clientSecret,
      TOWLINE_PAGE_OIDC_REDIRECT_URL: `${front.url}/auth/callback`,
      TOWLINE_PAGE_OIDC_SCOPES: "openid,email,groups",
      TOWLINE_PAGE_VIEWER_GROUPS: "dev",
      TOWLINE_PAGE_OPERATOR_GROUPS: "ops,ops-elsewhere",
      TOWLINE_PAGE_GROUP_PREFIX: "team:",
    }),
    world.repo("shop"),
    letPatch(world.cluster, { kind: "Group", name: "team:ops" }),
    letRead(world.cluster, [vic.email, eve.email]),
  ]);
  front.to = server.pageUrl ?? "";
  await repo.push(aProject({ namespace, data: { color: "red" } }));
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(repo.url, { manual: true }));

  // If the provider is down, only logins are affected.
  const down = await createCookieJar().follow(`${front.url}/auth/login`);
  expect([down.res.status, await down.res.text()]).toEqual([
    503,
    expect.stringContaining("cannot be reached") as string,
  ]);
  idp.up = true;
  const [operator, stranger, viewer] = [
    await logIn(front.url, idp, olga),
    await logIn(front.url, idp, eve),
    await logIn(front.url, idp, vic),
  ];
  expect(operator.access).toMatchObject({
    by: "oidc",
    name: olga.email,
    role: "operator",
    logins: { token: false, oidc: true },
  });
  expect(viewer.access).toMatchObject({ name: vic.email, role: "viewer" });
  await nobodyElseGetsIn(front.url, idp);
  await deployment.settles();
  const path = `/api/deployments/${namespace}/shop/actions`;

  expect(await (await viewer.get(path)).json()).toMatchObject({
    deploy: { may: false, why: "vic@example.com has read-only access." },
  });
  expect((await viewer.post(path, { action: "deploy" })).status).toBe(403);
  const elsewhere = (await (await stranger.get(path)).json()) as PossibleActions;
  expect(elsewhere.deploy).toEqual({
    may: false,
    why: `eve@example.com is not allowed to patch KluctlDeployments in ${namespace}.`,
  });
  // A user without read access in the cluster sees no deployments.
  const nobody = await logIn(front.url, idp, { email: "ned@example.com", groups: ["dev"] });
  expect(await (await nobody.get("/api/deployments")).json()).toEqual([]);
  expect((await nobody.get(`/api/deployments/${namespace}/shop`)).status).toBe(404);
  expect(await (await viewer.get("/api/deployments")).json()).toMatchObject([{ namespace, name: "shop" }]);

  const refused = await stranger.post(path, { action: "suspend" });
  expect([refused.status, await refused.json()]).toMatchObject([
    403,
    { error: "The cluster does not allow eve@example.com to do this." },
  ]);

  // Approval applies to the version that was seen, not to a later one.
  const seen = (await (await operator.get(path)).json()) as PossibleActions;
  const { hash = "" } = seen.approve;
  expect(seen).toMatchObject({
    approve: { may: true },
    suspend: { may: true },
    resume: { may: false, why: "The deployment is not suspended." },
  });
  const second = await repo.push(aProject({ namespace, data: { color: "blue" } }));
  const push = { repo: repo.url, after: second };
  expect((await sendPush(server.webhooksUrl, push)).status).toBe(202);
  await deployment.until("another hash", ({ status }) => status?.["lastObjectsHash"] !== hash);
  const late = await operator.post(path, { action: "approve", hash });
  expect([late.status, await late.json()]).toMatchObject([
    409,
    { error: expect.stringContaining("no longer the one that was reviewed") as string },
  ]);
  await deployment.settles(second);
  const now = (await (await operator.get(path)).json()) as PossibleActions;
  expect((await operator.post(path, { action: "approve", hash: now.approve.hash })).status).toBe(202);
  await vi.waitFor(async () => expect(await world.cluster.data("settings")).toEqual({ color: "blue" }), patience);
  expect((await operator.post(path, { action: "approve", hash: now.approve.hash })).status).toBe(409);

  // The request is found in the status and in the audit log.
  expect((await operator.post(path, { action: "validate" })).status).toBe(202);
  const { request } = await findLine(server, { action: "validate", result: "ok" });
  await deployment.until("its answer", ({ status }) => {
    const answer = status?.["validateRequestResult"] as
      { request?: { requestValue?: string }; endTime?: string } | undefined;
    return answer?.request?.requestValue === request && answer?.endTime !== undefined;
  });
  await replays(operator, stranger, server);

  const common = {
    audit: true,
    namespace,
    name: "shop",
    login: "oidc",
    address: "127.0.0.1",
    forwardedFor: "192.0.2.7",
  };
  await findLine(server, {
    ...common,
    action: "deploy",
    result: "refused",
    person: vic.email,
    role: "viewer",
    status: 403,
  });
  await findLine(server, { ...common, action: "suspend", result: "refused", person: eve.email, actedAs: eve.email });
  await findLine(server, { ...common, action: "approve", result: "refused", approved: hash, status: 409 });
  await findLine(server, { ...common, action: "approve", result: "ok", person: olga.email, actedAs: olga.email });
  await findLine(server, { audit: true, action: "deploy", approved: now.approve.hash, result: "ok" });
  await findLine(server, { audit: true, action: "login", result: "ok", person: vic.email });
  expect(JSON.stringify(server.lines)).not.toContain(idp.clientSecret);

  await inBrowser(front.url, idp, path);
  await operator.post("/api/logout", {});
  expect((await operator.get("/api/access")).status).toBe(401);
});

interface Person {
  readonly access: Readonly<Record<string, unknown>>;
  get(path: string): Promise<Response>;
  post(path: string, body: object): Promise<Response>;
}

async function logIn(
  url: string,
  idp: IdentityProvider,
  person: Parameters<IdentityProvider["comes"]>[0],
): Promise<Person> {
  idp.comes(person);
  const jar = createCookieJar();
  expect((await jar.follow(`${url}/auth/login?then=%23%2Fqueue`)).url).toBe(`${url}/#/queue`);
  const get = (path: string) => jar.go(url + path);
  const access = (await (await get("/api/access")).json()) as { csrf: string };
  return {
    access: { ...access },
    get,
    post: (path, body) =>
      jar.go(
        url + path,
        { "Content-Type": "application/json", "x-towline-csrf": access.csrf },
        { method: "POST", body: JSON.stringify(body) },
      ),
  };
}

/** Each of them gets a reason, and no session. */
async function nobodyElseGetsIn(url: string, idp: IdentityProvider): Promise<void> {
  const tries = [
    {
      person: { email: "mia@example.com", groups: ["hr"] },
      status: 403,
      words: "none of your groups has access to this page",
    },
    { person: { ...olga, verified: false }, status: 403, words: "not verified" },
  ];
  for (const { person, status, words } of tries) {
    idp.comes(person);
    const jar = createCookieJar();
    const { res } = await jar.follow(`${url}/auth/login`);
    expect([res.status, await res.text()]).toEqual([status, expect.stringContaining(words) as string]);
    expect((await jar.go(`${url}/api/access`)).status).toBe(401);
  }
  // Callbacks without a login, with another state, and with an error from the provider.
  const jar = createCookieJar();
  expect((await jar.go(`${url}/auth/callback?code=c&state=s`)).status).toBe(400);
  await jar.go(`${url}/auth/login`);
  expect((await jar.go(`${url}/auth/callback?code=c&state=s`)).status).toBe(400);
  const begun = await jar.go(`${url}/auth/login`);
  const { searchParams } = new URL(begun.headers.get("location") ?? "");
  expect(searchParams.get("code_challenge_method")).toBe("S256");
  const { status, text } = await jar
    .go(
      `${url}/auth/callback?error=access_denied&state=${searchParams.get("state")}&iss=${encodeURIComponent(idp.issuer)}`,
    )
    .then(async (res) => ({ status: res.status, text: await res.text() }));
  expect([status, text]).toEqual([403, expect.stringContaining("refused the login: access_denied") as string]);
}

async function replays(operator: Person, stranger: Person, server: Towline): Promise<void> {
  const delivery = await vi.waitFor(async () => {
    const [forge] = (await (await operator.get("/api/deliveries")).json()) as PageForge[];
    const found = forge?.deliveries.find(({ replayable }) => replayable);
    expect(found).toBeDefined();
    return String(found?.delivery);
  }, patience);
  const refused = await stranger.post(`/api/deliveries/gitea/${encodeURIComponent(delivery)}/replay`, {});
  expect([refused.status, await refused.json()]).toMatchObject([
    403,
    { error: expect.stringContaining("eve@example.com is not allowed to patch KluctlDeployments") as string },
  ]);
  await findLine(server, { audit: true, action: "replay", result: "refused", person: eve.email, actedAs: eve.email });
  const again = await operator.post(`/api/deliveries/gitea/${encodeURIComponent(delivery)}/replay`, {});
  expect([again.status, await again.json()]).toMatchObject([200, { delivery, matched: 1 }]);
  expect((await operator.post("/api/deliveries/gitea/no-such/replay", {})).status).toBe(404);
  await findLine(server, {
    audit: true,
    action: "replay",
    result: "ok",
    forge: "gitea",
    delivery,
    person: olga.email,
  });
}

/** After a logout, the next user has to log in at the provider. */
async function leave(page: BrowserPage, url: string, idp: IdentityProvider): Promise<void> {
  idp.comes(vic);
  await page.goto(url);
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByRole("button", { name: "Yes, sign me out" }).click();
  const login = page.getByRole("link", { name: "Log in with your organization's account" });
  await login.waitFor();
  expect(page.url()).toBe(`${url}/`);
  await login.click();
  await page.locator("header").getByText(vic.email).waitFor();
}

/** The browser sends the session's cookies where it should, and nowhere else. */
async function inBrowser(url: string, idp: IdentityProvider, path: string): Promise<void> {
  await buildPage();
  idp.comes(olga);
  const { page } = await useBrowserPage();
  await page.goto(`${url}/auth/login?then=%23%2Fqueue`);
  expect(page.url()).toBe(`${url}/#/queue`);
  const ask = (script: string) => page.evaluate(script) as Promise<unknown>;
  const post = (from: string) =>
    `fetch("${url}${path}", {method: "POST", credentials: "include", headers: {"Content-Type": "application/json", "x-towline-csrf": ${from}}, body: '{"action":"reconcile"}'})`;
  const csrf = await ask(`fetch("/api/access").then((res) => res.json()).then(({ csrf }) => csrf)`);
  expect(await ask(`${post('""')}.then((res) => res.status)`)).toBe(403);
  expect(await ask(`${post(JSON.stringify(csrf))}.then((res) => res.status)`)).toBe(202);
  expect(await ask("document.cookie")).toBe("");
  // From another site, the browser does not even send the request.
  await page.goto(`${idp.issuer}/.well-known/openid-configuration`);
  expect(await ask(`${post(JSON.stringify(csrf))}.then((res) => res.status, () => "kept from it")`)).toBe(
    "kept from it",
  );
  await leave(page, url, idp);
}

async function findLine(server: Towline, like: Readonly<Record<string, unknown>>) {
  return vi.waitFor(() => {
    const found = server.lines.find((line) => Object.entries(like).every(([name, value]) => line[name] === value));
    if (found === undefined) {
      const audit = server.lines.filter((line) => line["audit"] === true);
      throw new Error(`no line ${JSON.stringify(like)} in ${audit.map((line) => JSON.stringify(line)).join("\n")}`);
    }
    return found;
  }, patience);
}

/** Grants the right to read deployments. */
async function letRead(cluster: TestCluster, people: readonly string[]): Promise<void> {
  const rules = [{ apiGroups: ["gitops.kluctl.io"], resources: ["kluctldeployments"], verbs: ["get"] }];
  await bind(
    cluster,
    "look",
    rules,
    people.map((name) => ({ kind: "User", name })),
  );
}

/** Grants the right to make requests, as users have it in the cluster. */
async function letPatch(
  cluster: TestCluster,
  subject: { readonly kind: string; readonly name: string },
): Promise<void> {
  const rules = [{ apiGroups: ["gitops.kluctl.io"], resources: ["kluctldeployments"], verbs: ["get", "patch"] }];
  await bind(cluster, "ask", rules, [subject]);
}

async function bind(
  cluster: TestCluster,
  name: string,
  rules: readonly object[],
  people: readonly object[],
): Promise<void> {
  const rbac = "rbac.authorization.k8s.io";
  const metadata = { name };
  const roleRef = { apiGroup: rbac, kind: "Role", name };
  await cluster.create({ apiVersion: `${rbac}/v1`, kind: "Role", metadata, rules } as object);
  const subjects = people.map((one) => ({ apiGroup: rbac, ...one }));
  await cluster.create({ apiVersion: `${rbac}/v1`, kind: "RoleBinding", metadata, roleRef, subjects } as object);
}
