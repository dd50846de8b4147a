/** The page of a pull request in a real Chromium, opened by the link in its comment. */
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { buildPage } from "../../../dev/page-build.ts";
import type { PullRequestKey } from "../../../src/model.ts";
import type { PreviewObject, Report } from "../../../src/model/report.ts";
import { createPageLinks, pullRequestAddress } from "../../../src/reporting/page-link.ts";
import { showReport } from "../../../src/views/show-report.ts";
import { examine, useBrowserPage } from "../../support/chromium.ts";
import { aPreview, aReport } from "../../support/fake-reports.ts";
import { pageToken, usePage } from "../../support/page.ts";
import { patience } from "../../support/patience.ts";

const evil = `"><img/src=x/onerror=hit()><script>hit()</script>`;
const signer = createPageLinks("the login of the forge");
const key = { forge: "gitea", repoName: "example/shop", number: 7 };
const dayMs = 24 * 3_600_000;

function object(name: string, fields: Partial<PreviewObject> = {}): PreviewObject {
  return { ref: { kind: "ConfigMap", name, namespace: "shop" }, action: "changed", risks: [], ...fields };
}

const drifted = { objects: [object("by-hand", { diff: " data.x:\n-  5\n+  2" })], objectsLeftOut: 0 };
const noise = {
  objects: [object("labels", { diff: ' metadata.labels["helm.sh/chart"]:\n-  a-1\n+  a-2' })],
  objectsLeftOut: 4,
};

/** 200 deployments of 20 objects each, all of which change, in the second half in the same way. */
function manyPreviews(): Report["previews"] {
  return Array.from({ length: 200 }, (_, index) => {
    const objects = Array.from({ length: 20 }, (_each, at) =>
      object(`settings-${at}`, { diff: ` data.color:\n-  red\n+  blue ${Math.min(index, 100)}` }),
    );
    const counts = { new: 0, changed: 20, deleted: 0, orphan: 0, errors: 0, warnings: 0 };
    return aPreview({ deployment: { namespace: "shop", name: `region-${index}` }, objects, counts });
  });
}

const base = aReport({
  ...{ pullRequest: key, url: "javascript:hit()", title: evil, author: evil, baseBranch: evil },
  startedAt: Date.now() - 3_000,
  finishedAt: Date.now() - 1_000,
  earlierPreviews: [{ head: "5".repeat(40), verdict: "changes 1 deployment", at: 1 }],
  previews: [
    aPreview({
      target: evil,
      counts: { new: 1, changed: 2, deleted: 1, orphan: 0, errors: 0, warnings: 1 },
      objects: [
        object("data", { action: "deleted", risks: [{ kind: "deletion", text: evil }] }),
        object(evil, { diff: ` data.${evil}:\n-  old\n+  ${evil}` }),
        object("login", { secretKeys: [{ key: "password", change: "changed" }] }),
        object("added", { action: "new", diff: "+  kind: ConfigMap" }),
      ],
      warnings: [{ message: evil }],
      drifted,
      noise,
    }),
  ],
});

/** As most of them are; for the pictures of docs/page.md. */
const plain = aReport({
  ...{ pullRequest: key, url: "https://gitea.example.com/example/shop/pulls/7" },
  ...{ title: "Give the frontend three replicas", author: "ada", baseBranch: "main" },
  openedAt: Date.now() - 2 * 3_600_000,
  startedAt: Date.now() - 3_000,
  finishedAt: Date.now() - 1_000,
  earlierPreviews: [{ head: "5".repeat(40), verdict: "changes 1 deployment", at: Date.now() - 3_600_000 }],
  previews: [
    aPreview({
      ...{ target: "prod", cluster: "eu-1" },
      counts: { new: 1, changed: 2, deleted: 1, orphan: 0, errors: 0, warnings: 0 },
      objects: [
        object("carts", {
          ref: { kind: "PersistentVolumeClaim", name: "carts", namespace: "shop" },
          action: "deleted",
          risks: [{ kind: "deletion", text: "deletes the data of the volume" }],
        }),
        object("frontend", {
          ref: { kind: "Deployment", name: "frontend", namespace: "shop" },
          diff: " spec.replicas:\n-  1\n+  3\n spec.template.spec.containers[0].image:\n-  shop/frontend:1.4.2\n+  shop/frontend:1.5.0",
        }),
        object("login", {
          ref: { kind: "Secret", name: "login", namespace: "shop" },
          secretKeys: [{ key: "password", change: "changed" }],
        }),
        object("limits", { action: "new", diff: '+  apiVersion: v1\n+  kind: ConfigMap\n+  data:\n+    carts: "200"' }),
      ],
      drifted,
      noise: { ...noise, objectsLeftOut: 0 },
    }),
    aPreview({
      ...{ deployment: { namespace: "shop", name: "staging" }, target: "staging", cluster: "eu-1" },
      counts: { new: 0, changed: 1, deleted: 0, orphan: 0, errors: 0, warnings: 0 },
      objects: [
        object("frontend", {
          ref: { kind: "Deployment", name: "frontend", namespace: "shop-staging" },
          diff: " spec.template.spec.containers[0].image:\n-  shop/frontend:1.4.2\n+  shop/frontend:1.5.0",
        }),
      ],
    }),
  ],
});

async function usePullRequestPage() {
  await buildPage();
  const check = (pullRequest: PullRequestKey, text: string) => signer.check(pullRequest, text, Date.now());
  const assets = join(import.meta.dirname, "../../../dist/ui");
  const page = await usePage({}, { assets, links: { check, needsLogin: () => false } });
  const linkFor = (until: number) => pullRequestAddress(page.url, key, signer.sign(key, until));
  const show = (report: Report) => void (page.facts.pullRequest = () => Promise.resolve(showReport(report)));
  const objects = [{ object: "ConfigMap shop/added", text: `kind: ConfigMap\ndata: ${evil}`, linesLeftOut: 3 }];
  page.facts.manifests = () => Promise.resolve({ objects, leftOut: 1 });
  show(base);
  return { ...page, show, linkFor, link: linkFor(Date.now() + dayMs) };
}

test("a link shows the changes, what is apart from them, and earlier previews, and executes no displayed text", async () => {
  const { link, linkFor } = await usePullRequestPage();
  const { page, trouble } = await useBrowserPage();
  const asked: string[] = [];
  page.on("request", (request) => void asked.push(request.url()));
  await page.goto(link);
  await page.getByRole("heading", { level: 1, name: evil }).waitFor();
  await page.getByText("Merging deletes 1 object in 1 deployment").waitFor();
  await page.getByText(`+  ${evil}`).waitFor();
  await page.getByText("password").waitFor();
  // A manifest is read when it is opened.
  const added = page.locator("details.object").filter({ hasText: "ConfigMap shop/added" });
  expect(asked.filter((one) => one.includes("/api/manifests/"))).toEqual([]);
  await added.getByText("Manifest").click();
  await added.locator(".manifest pre").getByText(evil).waitFor();
  await added.getByText("and 3 more lines, which were not stored").waitFor();
  await page
    .locator("details.object")
    .filter({ hasText: `ConfigMap shop/${evil}` })
    .getByText("Manifest")
    .click();
  await page.getByText("is not stored: all of the deployment are too large, so 1 of them were omitted").waitFor();
  // No address contains the signature: it is in no log on the way.
  const [, signature = "-"] = link.split("?link=");
  expect(asked.filter((one) => one.includes(signature))).toEqual([]);
  expect(await page.locator("main a").count()).toBe(0);
  await examine(page);

  // By keyboard: the tabs, and the search.
  await page.getByRole("tab", { name: "Changes" }).focus();
  await page.keyboard.press("ArrowRight");
  await page.getByText("Folded as noise: 5 objects in 1 deployment").waitFor();
  await page.getByText("and 4 more objects").waitFor();
  await page.keyboard.press("ArrowRight");
  await page.getByText("ConfigMap shop/by-hand").waitFor();
  await examine(page);
  await page.keyboard.press("End");
  await page.getByText("changes 1 deployment").waitFor();
  await page.keyboard.press("Home");
  // The key works as soon as the tab is complete.
  await vi.waitFor(async () => {
    await page.keyboard.press("/");
    expect(await page.getByRole("searchbox").evaluate((field) => field.matches(":focus"))).toBe(true);
  }, patience);
  await page.keyboard.type("password");
  await vi.waitFor(async () => expect(await page.locator(".object").count()).toBe(1), patience);
  await page.reload();
  await page.getByText("1 of 1 deployments match.").waitFor();
  await page.getByRole("searchbox").fill("");
  await page.getByRole("button", { name: "Side by side" }).click();
  await page.getByRole("table", { name: `Changes in data.${evil}` }).waitFor();

  await page.setViewportSize({ width: 380, height: 760 });
  await page.getByRole("group", { name: `Changes in data.${evil}` }).waitFor();
  expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(380);
  await examine(page);

  // An expired link says so, and users who log in see the pull request anyway.
  await page.goto("about:blank");
  await page.goto(linkFor(Date.now() - 2 * dayMs));
  await page.getByText("This link has expired.").waitFor();
  await examine(page);
  await page.getByLabel("Page token").fill(pageToken);
  await page.keyboard.press("Enter");
  await page.getByText("Merging deletes 1 object in 1 deployment").waitFor();
  expect(trouble).toEqual([]);
});

test("the page is as wide as its window, and a link at the git host leads back", async () => {
  const { link, show } = await usePullRequestPage();
  show(plain);
  const { page, trouble } = await useBrowserPage();
  await page.goto(link);
  await page.getByRole("heading", { level: 1, name: "Give the frontend three replicas" }).waitFor();
  expect(await page.locator(`main a[href="${plain.url}"]`).count()).toBe(1);
  await page.getByText("+  3", { exact: true }).waitFor();
  await examine(page, "pull-request");
  await page.setViewportSize({ width: 380, height: 760 });
  expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(380);
  await examine(page, "pull-request-phone");
  expect(trouble).toEqual([]);
});

test("a large pull request is short until a reader opens a deployment, and follows new previews", async () => {
  const { link, show } = await usePullRequestPage();
  const working = { ...base, state: "working" as const, finishedAt: undefined };
  show({ ...working, previews: [aPreview({ state: "working" })] });
  const { page, trouble } = await useBrowserPage();
  await page.goto(link);
  await page.getByText("Comparing 1 deployment with the live cluster").waitFor();
  show({ ...plain, previews: manyPreviews() });
  await page.getByText("Merging changes 200 deployments").waitFor();

  expect(await page.locator(".preview").count()).toBe(101);
  expect(await page.locator(".object").count()).toBe(0);
  await page.locator("summary", { hasText: "shop/region-7" }).first().press("Enter");
  await page.getByText("+  blue 7", { exact: true }).first().waitFor();
  expect(await page.locator(".object").count()).toBe(20);
  await examine(page, "pull-request-many");
  await page.locator("summary", { hasText: "and 99 more, the same" }).press("Enter");
  await page.getByText("The same in 99 more deployments").click();
  await page.getByRole("listitem").filter({ hasText: "shop/region-150" }).waitFor();
  await page.getByRole("searchbox").fill("region-199 settings-19");
  await page.locator("summary", { hasText: "the same as shop/region-100" }).waitFor();
  await page.getByText("+  blue 100", { exact: true }).waitFor();
  expect(await page.locator(".object").count()).toBe(1);
  expect(trouble).toEqual([]);
});
