/** Actions of users on the page: in a real Chromium, with a real server, checked in the cluster. */
import type { Page, Route } from "playwright-core";
import { expect, test, vi } from "vitest";
import { examine, useBrowserPage } from "../support/chromium.ts";
import { openPage, type PageServer, usePageServer } from "../support/page-build.ts";
import { pageBearer } from "../support/page.ts";
import { patience } from "../support/patience.ts";
import { aProject, aSpec } from "../support/project.ts";
import { sendPush } from "../support/towline.ts";
import { type TestWorld, useWorld } from "../support/world.ts";

const evil = `"><img/src=x/onerror=hit()><script>hit()</script>`;

test("operators can use all actions of the page, viewers see why they cannot, and no displayed text is executed", async () => {
  const world = await useWorld();
  const server = await usePageServer(world, {
    TOWLINE_PAGE_TOKEN_ROLE: "operator",
    TOWLINE_PAGE_PROXY_HEADER: "X-User",
    TOWLINE_PAGE_PROXY_ADDRESSES: "127.0.0.1",
    TOWLINE_PAGE_ACT_AS: "server",
  });
  await Promise.all([useEachButton(world, server), runNothing(server.pageUrl)]);
});

/** Checks the effect of each button in the cluster. */
async function useEachButton(world: TestWorld, server: PageServer): Promise<void> {
  const { cluster } = world;
  const { namespace } = cluster;
  const repo = await world.repo("shop");
  const extra = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "extra", namespace }, data: { a: "b" } };
  await repo.push(aProject({ namespace, data: { color: "red" }, objects: { "extra.yml": extra } }));
  const deployment = cluster.deployment("shop");
  const late = await world.repo("late");
  await late.push(aProject({ namespace, name: "late", data: { color: "{{ nobody.knows.it }}" } }));
  const failing = cluster.deployment("late");
  await Promise.all([deployment.create(aSpec(repo.url, { manual: true })), failing.create(aSpec(late.url))]);
  await Promise.all([deployment.settles(), failing.settles()]);

  const { page, trouble } = await openPage(server, `/#/deployments/${namespace}/shop`);
  const button = (name: string) => page.getByRole("button", { name, exact: true });
  const see = async (text: string) => {
    const main = page.getByRole("main");
    await vi.waitFor(async () => expect(`${await main.innerText()}\n${trouble.join("\n")}`).toContain(text), patience);
  };
  // With the keyboard only: to the button, cancel, and confirm.
  await button("Approve …").waitFor();
  await tabTo(page, "Approve …");
  await page.keyboard.press("Enter");
  const hash = (await deployment.get())?.status?.["lastObjectsHash"] as string;
  await page.getByRole("dialog").getByText(hash).waitFor();
  await examine(page, "approve");
  expect(await focused(page)).toBe("Cancel");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  expect(await focused(page)).toBe("Approve …");
  expect(await cluster.data("settings")).toBeUndefined();
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").getByText(hash).waitFor();
  await tabTo(page, "Approve");
  await page.keyboard.press("Enter");
  await see("The approved change was deployed: 2 new.");
  expect(await cluster.data("settings")).toEqual({ color: "red" });
  await vi.waitFor(async () => expect(await button("Approve …").getAttribute("aria-disabled")).toBe("true"), patience);
  await button("Approve …").press("Enter");
  await see("No change is waiting for approval.");
  await examine(page, "actions");

  // No webhook reports this push.
  const without = { ...aProject({ namespace, data: { color: "blue" } }), "app/extra.yml": undefined };
  const second = await repo.push(without);
  await button("Reconcile").click();
  await see("Reconcile: done.");
  await page.locator(".facts").getByText(second.slice(0, 7)).first().waitFor();
  await button("Deploy").click();
  await see("Deploy: done.");
  expect(await cluster.data("settings")).toEqual({ color: "blue" });
  await button("Validate").click();
  await see("Validate: done.");
  // The reconciliation that follows clears the validation result itself, because this deployment does not enable
  // validation.
  const validated = (await deployment.get())?.status?.["validateRequestResult"];
  expect(validated).toMatchObject({ endTime: expect.any(String) as string });
  await button("Prune …").click();
  await page.getByRole("dialog").getByText(`ConfigMap ${namespace}/extra`).waitFor();
  await examine(page, "prune");
  expect(await cluster.data("extra")).toEqual({ a: "b" });
  await button("Prune").click();
  await see("Prune: done.");
  expect(await cluster.find("v1", "ConfigMap", "extra")).toBeUndefined();
  await button("Prune …").click();
  await page.getByRole("dialog").getByText("The last comparison found no such objects.").waitFor();
  await page.keyboard.press("Escape");
  await button("Suspend").click();
  await see("The deployment is no longer reconciled.");
  expect((await deployment.get())?.spec["suspend"]).toBe(true);
  await button("Resume").click();
  await see("The deployment is reconciled again.");
  expect((await deployment.get())?.spec["suspend"]).not.toBe(true);

  expect((await sendPush(server.webhooksUrl, { repo: repo.url, after: second })).status).toBe(202);
  await page.getByRole("link", { name: "Deliveries" }).click();
  await page.getByRole("button", { name: /^Replay / }).click();
  await see("1 deployment matched (");
  await examine(page, "replay");

  // A permanently failed job is retried; no webhook reports that its cause was fixed.
  await late.push(aProject({ namespace, name: "late", data: { color: "green" } }));
  await page.getByRole("link", { name: "Queue" }).click();
  const retry = page.getByRole("button", { name: `Retry reconcile:${namespace}/late` });
  await retry.waitFor();
  await page.getByRole("listitem").filter({ has: retry }).getByText("Failed").waitFor();
  await examine(page, "queue");
  const [answer] = await Promise.all([page.waitForResponse(/\/api\/queue\/reconcile\/retry$/), retry.click()]);
  expect(answer.status()).toBe(202);
  await failing.reaches("Ready");
  expect(await cluster.data("late")).toEqual({ color: "green" });
  await retry.waitFor({ state: "detached" });
  expect(trouble).toEqual([]);

  const viewer = await useBrowserPage({ extraHTTPHeaders: { "X-User": "vera@example.com" } });
  await viewer.page.goto(`${server.pageUrl}/#/deployments/${namespace}/shop`);
  await viewer.page.locator("header").getByText("vera@example.com").waitFor();
  const prune = viewer.page.getByRole("button", { name: "Prune …" });
  await prune.waitFor();
  expect(await prune.getAttribute("aria-disabled")).toBe("true");
  const why = (await prune.getAttribute("title")) ?? "";
  expect(why).not.toBe("");
  await prune.press("Enter");
  await viewer.page.getByRole("status").getByText(why).waitFor();
  await examine(viewer.page, "viewer");
  expect(viewer.trouble).toEqual([]);
}

/** All texts that the server sends are displayed as text, including errors of actions and log lines. */
async function runNothing(url: string): Promise<void> {
  const { page, trouble } = await useBrowserPage({ extraHTTPHeaders: pageBearer });
  const posts: (readonly [path: string, proof: string | undefined, body: unknown])[] = [];
  const answer = (path: string, get: object, post: object = {}, status = 200) =>
    page.route(path, (route: Route) => {
      const request = route.request();
      if (request.method() === "GET") return route.fulfill({ json: get });
      posts.push([new URL(request.url()).pathname, request.headers()["x-towline-csrf"], request.postDataJSON()]);
      return route.fulfill({ json: post, status });
    });
  const may = { may: true };
  const why = { may: false, why: evil };
  const line = { at: Date.now(), job: evil, command: evil, text: evil };
  await answer("**/api/access", { by: "oidc", name: evil, role: "operator", csrf: "the-proof", logins: {} });
  await answer("**/api/deployments/shop/prod", details);
  await answer(
    "**/actions",
    {
      reconcile: may,
      deploy: why,
      validate: may,
      prune: may,
      suspend: why,
      resume: why,
      approve: { may: true, hash: evil },
    },
    { error: evil, hint: evil },
    409,
  );
  await answer("**/api/queue", {
    lanes: [],
    jobs: [{ lane: "report", subject: evil, state: "failed", at: 0, tries: 3 }],
  });
  await answer("**/api/queue/report/retry", {}, { error: evil }, 404);
  await page.route("**/log", (route) =>
    route.fulfill({
      contentType: "text/event-stream",
      body: `event: open\ndata: {}\n\nevent: lines\ndata: ${JSON.stringify([line])}\n\n`,
    }),
  );
  await page.goto(`${url}/#/deployments/shop/prod`);
  await page.getByRole("log").getByText(evil).first().waitFor();
  await page.locator("header").getByText(evil).waitFor();
  await page.getByRole("button", { name: "Deploy" }).press("Enter");
  await page.getByRole("status").getByText(evil).waitFor();
  await page.getByRole("button", { name: "Approve …" }).click();
  await page.getByRole("dialog").getByText(evil).first().waitFor();
  await page.getByRole("button", { name: "Approve", exact: true }).click();
  await page.getByText("Approve was rejected.").waitFor();
  await page.getByRole("status").getByText(evil).first().waitFor();
  await examine(page);
  await page.goto(`${url}/#/queue`);
  await page.getByRole("button", { name: `Retry ${evil}` }).click();
  await page.getByRole("status").getByText(evil).waitFor();
  await examine(page, "retry");
  expect(posts).toEqual([
    ["/api/deployments/shop/prod/actions", "the-proof", { action: "approve", hash: evil }],
    ["/api/queue/report/retry", "the-proof", { subject: evil }],
  ]);

  const ways = { error: evil, logins: { token: true, oidc: true } };
  const login = page.getByRole("link", { name: "Log in with your organization's account" });
  // A session may end while the page is open.
  await page.route("**/api/queue/report/retry", (route) => route.fulfill({ json: { error: evil }, status: 401 }));
  await page.route("**/api/access", (route) => route.fulfill({ json: ways, status: 401 }));
  await page.getByRole("button", { name: `Retry ${evil}` }).click();
  await login.waitFor();

  // The login link leads to the identity provider, and back to the page that the user wanted to see.
  await page.route("**/api/deployments", (route) => route.fulfill({ json: ways, status: 401 }));
  await page.reload();
  await login.waitFor();
  expect(await login.getAttribute("href")).toBe(`/auth/login?then=${encodeURIComponent("#/queue")}`);
  await page.getByLabel("Page token").waitFor();
  await examine(page, "login");
  // The browser itself logs the rejected requests.
  expect(trouble.filter((words) => !/status of (?:409|404|401)/.test(words))).toEqual([]);
}

const shown = {
  objects: [
    {
      object: evil,
      action: "orphan",
      changes: [{ path: evil, diff: `-${evil}\n+${evil}` }],
      changesLeftOut: 0,
    },
  ],
  objectsLeftOut: 0,
};
const commit = "c".repeat(40);
const details = {
  deployment: {
    ...{ namespace: "shop", name: "prod", ready: "False", why: evil, drift: evil, suspended: false, ref: evil },
    commit,
  },
  commits: [{ commit, subject: evil, author: evil }],
  newer: { commit: evil, why: evil },
  conditions: [],
  drift: shown,
  deployErrors: [{ object: evil, message: evil }],
  validateErrors: [],
  requests: [{ kind: "deploy", job: evil, startedAt: 0, endedAt: 0, error: evil }],
  results: [],
};

/** Presses Tab until the element has the focus, like a user without a mouse. */
async function tabTo(page: Page, words: string): Promise<void> {
  for (let presses = 0; presses < 50; presses++) {
    await page.keyboard.press("Tab");
    if ((await focused(page)) === words) return;
  }
  throw new Error(`The key Tab does not lead to "${words}".`);
}

function focused(page: Page): Promise<string> {
  return page.evaluate("document.activeElement.textContent.trim()");
}
