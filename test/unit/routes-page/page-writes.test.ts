/** Which users may write on the page: roles × logins × CSRF tokens. */
import { expect, test } from "vitest";
import type { PageAccessDeps } from "../../../src/web/access.ts";
import { QueueUnavailableError } from "../../../src/errors.ts";
import { createSeal } from "../../../src/login/seal.ts";
import { actions } from "../../../src/requests/actions.ts";
import { pageBearer as bearer, pageToken as token, usePage } from "../../support/page.ts";

type Page = Awaited<ReturnType<typeof usePage>>;
type Headers = Record<string, string>;

const seal = createSeal("the-secret-of-a-client", () => Date.now());
const proxy = { header: "X-User", groupsHeader: "X-Groups", isProxy: () => true };
const roles = { viewerGroups: ["dev"], operatorGroups: ["ops"] } satisfies Partial<PageAccessDeps>;

/** The headers of a user for each way to log in. */
const logins: Record<string, (page: Page, role: string) => Promise<Headers>> = {
  token: () => Promise.resolve(bearer),
  async session(page) {
    return { Cookie: cookieOf(await page.post("/api/login", { token })) };
  },
  proxy: (_page, role) => Promise.resolve({ "X-User": "ann", "X-Groups": `some, ${groupOf(role)}` }),
  async oidc(_page, role) {
    const person = { name: "ann", groups: ["some", groupOf(role)] };
    return { Cookie: `towline-session=${await seal.close("session", person, Date.now() + 60_000)}` };
  },
};

function groupOf(role: string): string {
  return { operator: "ops", viewer: "dev" }[role] ?? "others";
}

function cookieOf(res: Response): string {
  return res.headers
    .getSetCookie()
    .map((cookie) => cookie.split(";", 1)[0])
    .join("; ");
}

/** The headers that the page itself adds: the CSRF token and its cookie. */
async function withProof(page: Page, login: Headers): Promise<Headers> {
  const res = await page.get("/api/access", login);
  const { csrf } = (await res.json()) as { csrf?: string };
  const cookie = [login["Cookie"], cookieOf(res)].filter(Boolean).join("; ");
  return { ...login, ...(cookie && { Cookie: cookie }), ...(csrf && { "x-towline-csrf": csrf }) };
}

const write = (page: Page, headers: Headers, action = "deploy") =>
  page.post("/api/deployments/shop/prod/actions", { action }, headers);

for (const login of Object.keys(logins)) {
  for (const role of ["operator", "viewer", "nobody"]) {
    const byToken = login === "token" || login === "session";
    if (byToken && role === "nobody") continue;
    test(`${role} by ${login}: only an operator can write, only from the page itself, and each attempt is audited`, async () => {
      const page = await usePage({
        ...roles,
        ...(login === "proxy" && { proxy }),
        oidc: { seal, sessionMs: 60_000 },
        tokenRole: role === "operator" ? "operator" : "viewer",
      });
      const known = await logins[login]!(page, role);
      const whole = role === "nobody" ? known : await withProof(page, known);
      const may = role === "operator";
      const statuses = async (headers: Headers) => {
        const found = [];
        for (const action of actions) found.push((await write(page, headers, action)).status);
        found.push((await page.post("/api/deliveries/gitea/a%2Fb/replay", {}, headers)).status);
        found.push((await page.post("/api/queue/reconcile/retry", { subject: "reconcile:shop/prod" }, headers)).status);
        return found;
      };
      const all = (status: number) => [...actions, "replay", "retry"].map(() => status);

      expect(await statuses(whole)).toEqual(may ? [...actions.map(() => 202), 200, 202] : all(403));
      const done = page.done.length;
      expect(done).toBe(may ? 9 : 0);
      expect(await statuses({ ...whole, "Sec-Fetch-Site": "cross-site" })).toEqual(all(403));
      if (login !== "token") {
        for (const proof of ["", "A".repeat(43)])
          expect((await write(page, { ...whole, "x-towline-csrf": proof })).status).toBe(403);
        expect((await write(page, known)).status).toBe(403);
      }
      expect(page.done).toHaveLength(done);

      const { audit } = page;
      expect(audit).toHaveLength(18 + (login === "token" ? 0 : 3));
      expect(audit.every((line) => line.login === login && line.address === "127.0.0.1")).toBe(true);
      expect(new Set(audit.map(({ person }) => person))).toEqual(new Set([byToken ? undefined : "ann"]));
      expect(audit.filter(({ result }) => result === "ok")).toHaveLength(may ? 9 : 0);
      expect(audit.filter(({ result }) => result === "refused")).toHaveLength(audit.length - (may ? 9 : 0));
      expect(JSON.stringify(audit)).not.toContain(token);
    });
  }
}

test("a client without access can write nothing, and leaves a limited number of audit lines", async () => {
  const page = await usePage({}, { mostAnonymous: 2 });
  const statuses = [];
  for (let n = 0; n < 4; n++) statuses.push((await write(page, {})).status);
  expect(statuses).toEqual([401, 401, 429, 429]);
  expect(page.audit).toMatchObject([
    { action: "deploy", result: "refused", login: "none", namespace: "shop", name: "prod", status: 401 },
    { login: "none" },
  ]);
  expect(page.done).toEqual([]);
});

test("a user without a group sees nothing, and gets the reason", async () => {
  const page = await usePage({ ...roles, token: undefined, proxy });
  const res = await page.get("/api/deployments", { "X-User": "eve", "X-Groups": "others" });
  expect(res.status).toBe(403);
  expect(await res.json()).toMatchObject({
    error: "eve has no access to this page.",
    hint: expect.stringContaining("page.viewerGroups") as string,
  });
  expect((await page.get("/api/events", { "X-User": "eve" })).status).toBe(403);
  expect((await page.get("/api/deployments/shop/prod/actions", { "X-User": "eve" })).status).toBe(403);
});

test("a proxy is recognised by its secret, and duplicate headers are rejected", async () => {
  const secret = { header: "X-Proxy-Secret", value: "what-the-proxy-sends-along" };
  const page = await usePage({ ...roles, token: undefined, proxy: { ...proxy, secret } });
  const ann = { "X-User": "ann", "X-Groups": "dev", "X-Proxy-Secret": secret.value };
  const see = async (headers: Record<string, string>) => (await page.get("/api/access", headers)).status;
  expect(await see(ann)).toBe(200);
  expect(await see({ "X-User": "ann", "X-Groups": "dev" })).toBe(401);
  expect(await see({ ...ann, "X-Proxy-Secret": "what-the-proxy-sends-alone" })).toBe(401);
  expect(await see({ ...ann, "X-Proxy-Secret": `${secret.value}, ${secret.value}` })).toBe(401);

  for (const [name, value] of [
    ["x-user", "eve"],
    ["X-USER", "ann"],
    ["x-groups", "ops"],
  ] as const)
    expect(await page.rawStatus("/api/access", [...Object.entries(ann), [name, value]])).toBe(400);
  expect(await page.rawStatus("/api/access", [...Object.entries(ann), ["X-Proxy-Secret", secret.value]])).toBe(401);
  expect(await page.rawStatus("/api/access", Object.entries(ann))).toBe(200);
});

test("a CSRF token is valid for one user in one browser", async () => {
  const page = await usePage({ ...roles, proxy });
  const ann = await withProof(page, { "X-User": "ann", "X-Groups": "ops" });
  expect((await write(page, ann)).status).toBe(202);
  expect((await write(page, { ...ann, "X-User": "bob" })).status).toBe(403);
  const bob = await withProof(page, { "X-User": "bob", "X-Groups": "ops" });
  expect((await write(page, { ...ann, "x-towline-csrf": bob["x-towline-csrf"] ?? "" })).status).toBe(403);
});

test("a session of an identity provider ends with its time and its secret, and is valid for nothing else", async () => {
  const page = await usePage({ ...roles, oidc: { seal, sessionMs: 60_000 } });
  const ann = { name: "ann", groups: ["dev"] };
  const see = async (value: string) => (await page.get("/api/access", { Cookie: `towline-session=${value}` })).status;
  expect(await see(await seal.close("session", ann, Date.now() + 60_000))).toBe(200);
  expect(await see(await seal.close("session", ann, Date.now() - 2_000))).toBe(401);
  expect(await see(await seal.close("login", ann, Date.now() + 60_000))).toBe(401);
  expect(await see(await seal.close("session", { groups: ["dev"] }, Date.now() + 60_000))).toBe(401);
  const other = createSeal("another-secret-of-a-client", () => Date.now());
  expect(await see(await other.close("session", ann, Date.now() + 60_000))).toBe(401);
  const [head, ...rest] = (await seal.close("session", ann, Date.now() + 60_000)).split(".");
  expect(
    await see([head, ...rest.map((part) => part.replace(/^./, (first) => (first === "A" ? "B" : "A")))].join(".")),
  ).toBe(401);
});

test("a session that cannot hold all groups holds those that give a role", async () => {
  const many = Array.from({ length: 500 }, (_, n) => `a-group-with-a-long-name-${n}`);
  const provider = {
    begin: () => Promise.resolve({ url: "https://login.example.com/", flow: {} }),
    finish: () => Promise.resolve({ name: "ann", groups: [...many, "ops"], idToken: "" }),
    leave: () => Promise.resolve(undefined),
  };
  const page = await usePage({ ...roles, oidc: { seal, sessionMs: 60_000 } }, { provider: { seal, oidc: provider } });
  const begun = await page.get("/auth/login?then=%23%2Fqueue", {});
  const back = await page.get("/auth/callback?code=c&state=s", { Cookie: cookieOf(begun) });
  expect([back.status, back.headers.get("location")]).toEqual([303, "/#/queue"]);
  const session = back.headers.getSetCookie().find((cookie) => cookie.startsWith("towline-session=")) ?? "";
  expect(session).toMatch(/HttpOnly; SameSite=Strict/);
  expect(session.length).toBeLessThan(4_000);
  const access = await page.get("/api/access", { Cookie: session.split(";", 1)[0] ?? "" });
  expect(await access.json()).toMatchObject({ by: "oidc", name: "ann", groups: ["ops"], role: "operator" });
});

test("a user whom the provider logs in without access can log in as another user", async () => {
  const asked: boolean[] = [];
  const provider = {
    begin(anew: boolean) {
      asked.push(anew);
      return Promise.resolve({ url: "https://login.example.com/", flow: {} });
    },
    finish: () => Promise.resolve({ name: "eve", groups: ["elsewhere"], idToken: "" }),
    leave: () => Promise.resolve(undefined),
  };
  const page = await usePage({ ...roles, oidc: { seal, sessionMs: 60_000 } }, { provider: { seal, oidc: provider } });
  const begun = await page.get("/auth/login");
  const refused = await page.get("/auth/callback?code=c&state=s", { Cookie: cookieOf(begun) });
  const text = await refused.text();
  expect(refused.status).toBe(403);
  const [, other = ""] = /href="([^"]+)">Log in as another user/.exec(text) ?? [];
  await page.get(other);
  expect(asked).toEqual([false, true]);
  const [, style = ""] = /<link rel="stylesheet" href="([^"]+)"/.exec(text) ?? [];
  expect((await page.get(style)).headers.get("content-type")).toMatch(/^text\/css/);
});

test("logging out ends the session here, and redirects to the logout page of the provider", async () => {
  let idToken = "the-id-token".padEnd(2_700, "n");
  const provider = {
    begin: () => Promise.resolve({ url: "https://login.example.com/", flow: {} }),
    finish: () => Promise.resolve({ name: "ann", groups: ["ops"], idToken }),
    leave: (hint: string | undefined) => Promise.resolve(`https://login.example.com/end?hint=${hint}`),
  };
  const page = await usePage({ ...roles, oidc: { seal, sessionMs: 60_000 } }, { provider: { seal, oidc: provider } });
  const logIn = async () => {
    const begun = await page.get("/auth/login", {});
    return page.get("/auth/callback?code=c&state=s", { Cookie: cookieOf(begun) });
  };
  const logOut = (Cookie: string) => page.post("/api/logout", {}, { Cookie });
  const back = await logIn();
  const kept = back.headers.getSetCookie().find((cookie) => cookie.startsWith("towline-leaving=")) ?? "";
  expect(kept).toMatch(/; Path=\/api\/logout; .*HttpOnly; SameSite=Strict/);
  expect(kept.length).toBeLessThan(4_096);
  expect(kept).not.toContain("the-id-token");
  const left = await logOut(cookieOf(back));
  expect(await left.json()).toEqual({ leave: `https://login.example.com/end?hint=${idToken}` });
  expect(left.headers.getSetCookie().join("\n")).toMatch(
    /towline-session=;.*Expires=Thu, 01 Jan 1970[^]*towline-leaving=;.*1970/,
  );
  // A user who returns from there, or has no session, is sent to the start of the page.
  const arrived = await page.get("/auth/callback?state=s", {});
  expect([arrived.status, arrived.headers.get("location")]).toEqual([303, "/"]);
  expect((await logOut("")).status).toBe(204);
  expect((await logOut(cookieOf(await page.post("/api/login", { token })))).status).toBe(204);

  idToken += "n";
  expect(await (await logOut(cookieOf(await logIn()))).json()).toEqual({
    leave: "https://login.example.com/end?hint=undefined",
  });
});

test("an unknown action and a missing object are answered with an error", async () => {
  const page = await usePage({ tokenRole: "operator" });
  expect((await write(page, bearer, "destroy")).status).toBe(400);
  expect((await page.post("/api/queue/reconcile/retry", {}, bearer)).status).toBe(400);
  expect((await page.post("/api/deployments/shop/..%2Fprod/actions", { action: "deploy" }, bearer)).status).toBe(404);
  const gone = await page.post("/api/deployments/shop/gone/actions", { action: "deploy" }, bearer);
  expect([gone.status, await gone.json()]).toEqual([409, { error: "It is not like this any more." }]);
  expect(page.audit.at(-1)).toMatchObject({ action: "deploy", result: "refused", request: "r1", status: 409 });
  page.actions.retry = () => Promise.reject(new QueueUnavailableError("redis://:secret@redis"));
  expect((await page.post("/api/queue/reconcile/retry", { subject: "s" }, bearer)).status).toBe(503);
  expect(page.audit.at(-1)).toMatchObject({ action: "retry", result: "failed", status: 503 });
  expect(JSON.stringify(page.audit)).not.toContain("secret");
});

test("namespaces that a user cannot see are neither shown nor changed", async () => {
  const sees = (namespace: string) => namespace === "mine";
  const page = await usePage({ ...roles, tokenRole: "operator" }, { sight: () => Promise.resolve(sees) });
  const [mine, theirs] = ["mine/a", "theirs/secret-name"];
  const record = { v: 1, forge: "gitea", at: 1, status: 202, ms: 1, event: "push", queued: 1, ignoredMore: 3 } as const;
  const deliveries = [
    {
      ...{ ...record, matched: 2, deployments: [mine, theirs], ignored: [{ deployment: theirs, reason: "suspended" }] },
      fluxSources: ["flux-system/secret-source"],
    },
    { ...record, matched: 1, repoName: "secret-repo", deployments: [theirs], ignored: [] },
    // About a pull request in a library that visible deployments include.
    { ...record, matched: 0, repoName: "library", deployments: [], including: [mine, theirs], ignored: [] },
  ];
  const previews = [mine, theirs].map((deployment) => ({ deployment, verdict: "1 changed" }));
  const key = { forge: "gitea", repoName: "org/shop", number: 7 };
  const pullRequest = {
    pullRequest: key,
    name: "p",
    url: undefined,
    baseBranch: "main",
    head: "h",
    at: 1,
    verdict: "secret-count",
  };
  page.facts.deployments = () => [{ ...page.shop, namespace: "theirs", name: "secret-name" }];
  page.facts.forges = () => Promise.resolve([{ id: "gitea", kind: "gitea", lastVerifiedAt: 1, deliveries }]);
  page.facts.pullRequests = () =>
    Promise.resolve([
      { ...pullRequest, state: "done", previews },
      { ...pullRequest, name: "secret-request", state: "done", previews: previews.slice(1) },
    ]);
  const job = { lane: "reconcile", state: "failed", at: 1, tries: 1 } as const;
  const subjects = [
    `reconcile:${mine}`,
    `reconcile:${theirs}`,
    "preview:gitea:secret/repo#1",
    "flux-fetch:flux-system/secret",
  ];
  page.facts.queue = () => Promise.resolve({ lanes: [], jobs: subjects.map((subject) => ({ ...job, subject })) });
  page.facts.trace = (commit) =>
    Promise.resolve({
      commit,
      deliveries,
      deployments: [mine, theirs].map((deployment) => ({ deployment, state: "applied", steps: [] })),
      ignored: [{ deployment: theirs, reason: "suspended" }],
      pullRequests: [{ ...pullRequest, isHead: true, state: "done", words: "is its head", previews }],
    });

  for (const path of ["deployments", "deliveries", "pull-requests", "queue", "trace/0123456"]) {
    const text = await (await page.get(`/api/${path}`, bearer)).text();
    expect(text).not.toContain("secret");
    expect(text.includes(mine), path).toBe(path !== "deployments");
    if (path === "deliveries") expect(text).toContain(`"including":["${mine}"]`);
  }
  for (const path of ["", "/results/1", "/log", "/actions"])
    expect((await page.get(`/api/deployments/theirs/secret-name${path}`, bearer)).status, path).toBe(404);
  expect((await write(page, bearer)).status).toBe(404);
  expect(page.done).toEqual([]);

  const heard = await page.listen();
  page.events.changed({ namespace: "shop", name: "prod" });
  page.events.changed({ namespace: "theirs", name: "secret-name" });
  page.events.changed({ namespace: "mine", name: "gone" });
  await expect.poll(() => heard.deltas()).toEqual([{ changed: [], removed: [{ namespace: "mine", name: "gone" }] }]);
  await heard.cancel();
});
