/** The page in a real Chromium, with a real server that has work to do. */
import { expect, test, vi } from "vitest";
import type { PageDeployment } from "../../src/web/facts.ts";
import { examine, useBrowserPage } from "../support/chromium.ts";
import { usePageServer } from "../support/page-build.ts";
import { pageBearer, pageToken } from "../support/page.ts";
import { patience } from "../support/patience.ts";
import { aProject, aSpec } from "../support/project.ts";
import { sendPush } from "../support/towline.ts";
import { useWorld } from "../support/world.ts";

const evil = `"><img/src=x/onerror=hit()><script>hit()</script>`;

test("the page shows changes as they happen, executes no displayed text, and is accessible", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const repo = await world.repo("shop");
  const server = await usePageServer(world);
  await repo.push(aProject({ namespace, data: { color: "red" } }), { message: evil });
  const deployment = world.cluster.deployment("shop");
  const broken = world.cluster.deployment("broken");
  await Promise.all([
    deployment.create(aSpec(repo.url)),
    broken.create(aSpec(repo.url, { source: { git: { url: repo.url, ref: { branch: evil } } } })),
  ]);
  const url = server.pageUrl;
  await Promise.all([deployment.reaches("Ready"), broken.settles(), lookAtMany(url)]);

  const { page, trouble } = await useBrowserPage();
  const see = (text: string) => page.getByText(text).first().waitFor();
  await page.goto(url);
  await page.getByText("The server's administrator sets it").waitFor();
  await page.keyboard.type("wrong"); // the field has the focus
  await page.keyboard.press("Enter");
  await see("Invalid token.");
  await page.getByLabel("Page token").fill(pageToken);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Deployments" }).waitFor();
  const row = page.getByRole("link", { name: `${namespace}/shop` });
  await row.getByText("Ready").waitFor();
  await page
    .getByRole("link", { name: `${namespace}/broken` })
    .getByText("Failed")
    .waitFor();
  await examine(page, "deployments");

  // Changes are shown without a reload.
  const second = await repo.push(aProject({ namespace, data: { color: evil } }), { message: evil });
  const along = "c0ffee".padEnd(40, "0");
  const pushed = { repo: repo.url, after: second, others: [along] };
  expect((await sendPush(server.webhooksUrl, pushed)).status).toBe(202);
  await row.getByText(second.slice(0, 7)).waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("no such thing");
  await see("No deployments match.");
  await page.getByRole("searchbox").fill("shop");
  await deployment.reaches("Ready");

  await row.focus();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: `${namespace}/shop` }).waitFor();
  await see("data.color");
  await see(`+${evil}`);
  await see("-red");
  await page.locator("dd").getByText(evil).first().waitFor(); // the commit's message
  await examine(page, "deployment");
  await page.goBack();
  expect(await page.getByRole("searchbox").inputValue()).toBe("shop");
  await page.goForward();
  await deployment.patch({ spec: { suspend: true } });
  await page.locator("h1").getByText("Suspended").waitFor();
  await page.goto(`${url}/#/deployments/${namespace}/broken`);
  await see("Failed");
  await examine(page);

  const post = (ref: string) =>
    sendPush(server.webhooksUrl, { repo: repo.url, ref: `refs/heads/${ref}`, after: second });
  expect((await post(evil)).status).toBe(202);
  expect((await post("nobody")).status).toBe(202);
  expect((await fetch(server.webhooksUrl, { method: "POST", body: "{}" })).status).toBe(401);
  await page.goto(`${url}/#/commit`);
  await page.getByRole("heading", { name: "Where is my commit?" }).waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type(second.slice(0, 10));
  await page.keyboard.press("Enter");
  await see("healthy");
  await examine(page, "commit");
  await page.goto(`${url}/#/commit/${along}`); // another commit of the same push, but not its last one
  await see("Pushed together with");
  await see("healthy");
  await examine(page);
  await page.getByRole("link", { name: "Deliveries" }).click();
  await see(evil);
  await see("X-Gitea-Signature is missing");
  // The reason why nothing was queued is visible without a click.
  await see("follows branch main, the push is to branch nobody");
  await page.getByText("1 not affected").first().click();
  await examine(page, "deliveries");
  await page.getByRole("link", { name: "Pull requests" }).click();
  await see("No open pull request has been previewed.");
  await examine(page);
  await page.getByRole("link", { name: "Queue" }).click();
  await page.getByRole("rowheader", { name: "reconcile" }).waitFor();
  await examine(page);

  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByLabel("Page token").waitFor();
  await examine(page);
  await vi.waitFor(async () => {
    const cookies = await page.context().cookies();
    expect(cookies).toEqual([]);
  }, patience);
  expect(trouble).toEqual([]);
  expect(JSON.stringify(server.lines)).not.toContain(pageToken);
});

/** Of a thousand rows, only the visible ones are in the document, at any width, light or dark. */
async function lookAtMany(url: string): Promise<void> {
  const { page, trouble } = await useBrowserPage({ colorScheme: "dark" });
  await page.route("**/api/deployments", (route) =>
    route.fulfill({ json: Array.from({ length: 1_000 }, aDeployment) }),
  );
  const silent = { id: "gitea", kind: "gitea", lastVerifiedAt: Date.now() - 50 * 3_600_000, deliveries: [{}] };
  await page.route("**/api/deliveries?newest", (route) => route.fulfill({ json: [silent] }));
  await page.route("**/api/pull-requests", (route) => route.fulfill({ json: [pullRequest, evilPullRequest] }));
  await page.context().setExtraHTTPHeaders(pageBearer);
  await page.goto(url);
  const rows = page.getByRole("listitem");
  await rows.first().waitFor();
  expect(await rows.count()).toBeLessThan(60);
  await page.getByRole("link", { name: "Deliveries ! No webhooks received from gitea" }).waitFor();
  // One of them may be the real one, which an event updates.
  await vi.waitFor(async () => expect(await page.title()).toMatch(/^\(9[23]\) Deployments – Towline$/), patience);
  await examine(page, "deployments-dark");
  await page.getByRole("searchbox").fill("service-999");
  await vi.waitFor(async () => expect(await rows.count()).toBe(1), patience);
  await page.getByRole("searchbox").fill("");
  await vi.waitFor(async () => expect(await rows.count()).toBeGreaterThan(1), patience);
  await page.evaluate("scrollTo(0, document.body.scrollHeight)");
  await page.getByRole("link", { name: "team-9/service-999" }).waitFor();
  expect(await rows.count()).toBeLessThan(60);

  await page.setViewportSize({ width: 380, height: 760 });
  await page.evaluate("scrollTo(0, 0)");
  await page.getByRole("link", { name: "team-0/service-0" }).first().waitFor();
  expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(380);
  // A name stays readable whatever is next to it.
  const name = await page.getByRole("link", { name: "team-0/service-0" }).first().locator(".name").boundingBox();
  expect(name?.width).toBeGreaterThan(140);
  await examine(page, "deployments-phone");
  await page.goto(`${url}/#/queue`);
  await page.getByRole("rowheader", { name: "reconcile" }).waitFor();
  expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(380);
  await page.goto(`${url}/#/pull-requests`);
  await page.getByText(evil).first().waitFor();
  const links = await page.locator("main a").evaluateAll((all) => all.map((link) => link.getAttribute("href")));
  expect(links).toEqual([
    "#/pull-requests/gitea/example/shop/7",
    pullRequest.url,
    "#/deployments/shop/prod",
    "#/deployments/shop/staging",
    "#/pull-requests/gitea/example/shop/8",
  ]);
  await page.getByText("shop/staging: no change").waitFor();
  await page.getByText("Raise api to 2.4.0").waitFor();
  await page.getByText("by ada · opened 3").waitFor();
  await examine(page, "pull-requests");
  expect(trouble).toEqual([]);
}

function aDeployment(_: unknown, index: number): PageDeployment {
  const ready = index % 10 === 0 ? "False" : "True";
  return {
    namespace: `team-${Math.floor(index / 100)}`,
    name: `service-${index}`,
    ready,
    commit: index.toString(16).padStart(40, "3f2c1ab"),
    deployedCommit: undefined,
    deployedAt: Date.now() - index * 60_000,
    drift: index % 7 === 0 ? "2 chg, 1 new, 1 orp, 4 del" : "none",
    nextCheckAt: Date.now() + 200_000,
    why: ready === "False" ? "services/frontend/deploy.yml:14: 'replicas' is undefined" : undefined,
    suspended: index % 13 === 1,
    target: "prod",
    source: "https://git.example.com/shop",
    ref: "main",
    path: undefined,
  };
}

const pullRequest = {
  pullRequest: { forge: "gitea", repoName: "example/shop", number: 7 },
  name: "gitea:example/shop#7",
  title: "Raise api to 2.4.0",
  author: "ada",
  openedAt: Date.now() - 3 * 3_600_000,
  attention: "changing",
  url: "https://git.example.com/example/shop/pulls/7",
  baseBranch: "main",
  head: "3f2c1ab",
  state: "done",
  at: Date.now() - 60_000,
  verdict: "changes 1 of 2 deployments: 2 objects changed, 1 new",
  previews: [
    { deployment: "shop/prod", verdict: "2 changed, 1 new" },
    { deployment: "shop/staging", verdict: "no change" },
  ],
};

const evilPullRequest = {
  pullRequest: { forge: "gitea", repoName: "example/shop", number: 8 },
  name: evil,
  title: evil,
  author: evil,
  url: "javascript:hit()",
  baseBranch: evil,
  head: "3f2c1ab",
  state: "done",
  at: 0,
  verdict: evil,
  previews: [],
};
