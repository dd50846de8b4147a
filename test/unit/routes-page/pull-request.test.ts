import { expect, test } from "vitest";
import { createNetworks } from "../../../src/config/network.ts";
import type { PullRequestKey } from "../../../src/model.ts";
import { latestResult } from "../../../src/preview/previous.ts";
import { createPageLinks } from "../../../src/reporting/page-link.ts";
import { showReport } from "../../../src/views/show-report.ts";
import { seesAll } from "../../../src/web/sight.ts";
import { aPreview, aReport } from "../../support/fake-reports.ts";
import { pageBearer as bearer, usePage } from "../../support/page.ts";

const key = { forge: "gitea", repoName: "org/shop", number: 7 };
const other = { ...key, number: 8 };
const path = "/api/pull-requests/gitea/org/shop/7";
const signer = createPageLinks("the login of the forge");
const hourMs = 3_600_000;
const hidden = aPreview({ deployment: { namespace: "theirs", name: "secret-name" } });
const report = aReport({
  previews: [aPreview(), hidden],
  earlierPreviews: [{ head: "5".repeat(40), verdict: "secret-count", at: 1 }],
});

const linkTo = (pullRequest: PullRequestKey, until = Date.now() + hourMs) => ({
  "X-Towline-Link": signer.sign(pullRequest, until),
});

/** `needsLogin`: as `page.pullRequestLinks: login`. */
async function usePullRequestPage({ needsLogin = false, sees = seesAll } = {}) {
  const links = {
    check: (pullRequest: PullRequestKey, text: string) => signer.check(pullRequest, text, Date.now()),
    needsLogin: () => needsLogin,
  };
  const proxy = { header: "X-User", groupsHeader: "X-Groups", isProxy: createNetworks(["127.0.0.1"]) };
  const access = { proxy, viewerGroups: ["dev"] };
  const page = await usePage(access, { links, sight: () => Promise.resolve(sees) });
  page.facts.pullRequest = ({ repoName, number }) =>
    Promise.resolve(repoName === "org/shop" && number === 7 ? showReport(report) : undefined);
  return page;
}

test("a link shows its pull request without a login, and nothing else", async () => {
  const { get, post } = await usePullRequestPage();
  const res = await get(path, linkTo(key));
  expect(res.status).toBe(200);
  expect(res.headers.get("content-type")).toContain("application/json");
  expect(res.headers.get("cache-control")).toBe("no-store");
  expect(res.headers.get("referrer-policy")).toBe("no-referrer");
  expect(res.headers.get("x-robots-tag")).toBe("noindex, nofollow");
  expect(await res.json()).toMatchObject({
    name: "gitea:org/shop#7",
    previews: [{ deployment: "shop/prod" }, { deployment: "theirs/secret-name" }],
    link: { until: expect.any(Number) as number },
  });

  expect((await get(path, linkTo(other))).status).toBe(401);
  const others = ["pull-requests/gitea/org/shop/8", "pull-requests", "deployments", "queue", "access", "events"];
  for (const one of [...others, "deployments/shop/prod", "trace/0123456"])
    expect([one, (await get(`/api/${one}`, linkTo(key))).status]).toEqual([one, 401]);
  const body = { action: "deploy" };
  expect((await post("/api/deployments/shop/prod/actions", body, linkTo(key))).status).toBe(401);
  expect((await post(path, {}, linkTo(key))).status).toBe(401);
});

test("links that expired, were changed or are made up are refused, with the ways to log in", async () => {
  const { get } = await usePullRequestPage();
  const expired = await get(path, linkTo(key, Date.now() - 48 * hourMs));
  expect(expired.status).toBe(401);
  expect(await expired.json()).toEqual({
    error: "This link has expired. The pull request's comment gets a new one with its next preview.",
    hint: "Users with access to this page can log in.",
    byToken: true,
    logins: { token: true, oidc: false },
  });
  for (const text of ["", "x", `99999.${"A".repeat(43)}`]) {
    const res = await get(path, { "X-Towline-Link": text });
    expect(res.status).toBe(401);
    expect(await res.text()).toMatch(/not valid|requires a login/);
  }
});

test("a link can need a login; it then shows users the whole pull request, whatever else they may see", async () => {
  const sees = (namespace: string) => namespace === "shop";
  const { get } = await usePullRequestPage({ needsLogin: true, sees });
  const refused = await get(path, linkTo(key));
  expect(refused.status).toBe(401);
  expect(await refused.text()).toContain("This link requires a login.");
  const ann = { "X-User": "ann", "X-Groups": "dev" };
  expect(await (await get(path, { ...linkTo(key), ...ann })).text()).toContain("theirs/secret-name");
  const stranger = await get(path, { ...linkTo(key), "X-User": "eve" });
  expect(stranger.status).toBe(403);
  // Expired: what they see anyway.
  const limited = await get(path, { ...linkTo(key, Date.now() - 48 * hourMs), ...ann });
  expect(limited.status).toBe(200);
  expect(await limited.text()).not.toContain("secret");
});

test("without a link, users see the deployments of their namespaces", async () => {
  const { get, facts } = await usePullRequestPage({ sees: (namespace) => namespace === "shop" });
  const res = await get(path, bearer);
  const text = await res.text();
  expect(JSON.parse(text)).toMatchObject({ verdict: "", previews: [{ deployment: "shop/prod" }] });
  expect(text).not.toContain("secret");
  facts.pullRequest = () => Promise.resolve(showReport(aReport({ previews: [hidden] })));
  expect((await get(path, bearer)).status).toBe(404);
});

test("users who see only some of its deployments see as well that a pull request is outdated, and why", async () => {
  const { get, facts } = await usePullRequestPage({ sees: (namespace) => namespace === "shop" });
  const latest = latestResult(report, "cluster");
  facts.pullRequest = () => Promise.resolve(showReport({ ...report, state: "working", previews: [], latest }));
  const text = await (await get(path, bearer)).text();
  const staleness =
    "⏳ Comparing again, because the cluster has changed. Until that is done, this is the result for `1111111`.";
  expect(JSON.parse(text)).toMatchObject({ staleness, notes: [], previews: [{ deployment: "shop/prod" }] });
  expect(text).not.toContain("secret");
});

test("an unchanged pull request is not sent again, also through a proxy that weakens tags", async () => {
  const { get, facts } = await usePullRequestPage();
  const tag = (await get(path, bearer)).headers.get("etag") ?? "";
  for (const known of [tag, `W/${tag}`, `"x", ${tag}`]) {
    const res = await get(path, { ...bearer, "If-None-Match": known });
    expect([res.status, await res.text()]).toEqual([304, ""]);
  }
  facts.pullRequest = () => Promise.resolve(showReport({ ...report, state: "merged" }));
  expect((await get(path, { ...bearer, "If-None-Match": tag })).status).toBe(200);
});

test.each(["gitea/org/shop/8", "gitea/shop/7", "gitea/org/shop/0", "gitea/org/shop/x", "GITEA/org/shop/7", "gitea/7"])(
  "there is no page of %s",
  async (place) => {
    const { get } = await usePullRequestPage();
    expect((await get(`/api/pull-requests/${place}`, bearer)).status).toBe(404);
  },
);

const manifestsPath = "/api/manifests/gitea/org/shop/7?deployment=";

async function useManifests(options?: Parameters<typeof usePullRequestPage>[0]) {
  const page = await usePullRequestPage(options);
  page.facts.manifests = ({ number }, deployment) =>
    Promise.resolve(
      number === 7 && deployment.endsWith("/prod")
        ? { objects: [{ object: "ConfigMap shop/a", text: `of ${deployment}`, linesLeftOut: 0 }], leftOut: 0 }
        : undefined,
    );
  return page;
}

test("a link shows the manifests of its pull request, and none of another one", async () => {
  const { get } = await useManifests();
  const res = await get(`${manifestsPath}theirs%2Fprod`, linkTo(key));
  expect(res.status).toBe(200);
  expect(await res.json()).toMatchObject({ objects: [{ text: "of theirs/prod" }] });
  expect((await get(`${manifestsPath}theirs%2Fprod`, linkTo(other))).status).toBe(401);
  expect((await get(`${manifestsPath}theirs%2Fprod`)).status).toBe(401);
  expect((await get(`${manifestsPath}shop%2Fother`, linkTo(key))).status).toBe(404);
});

test("without a link, users see the manifests of their namespaces", async () => {
  const { get } = await useManifests({ sees: (namespace) => namespace === "shop" });
  expect(await (await get(`${manifestsPath}shop%2Fprod`, bearer)).text()).toContain("of shop/prod");
  for (const name of ["theirs%2Fprod", "prod", "&deployment=shop%2Fprod", "shop%2Fprod&deployment=theirs%2Fprod"])
    expect([name, (await get(`${manifestsPath}${name}`, bearer)).status]).toEqual([name, 404]);
});
