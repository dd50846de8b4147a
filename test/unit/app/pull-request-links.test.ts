import { expect, test } from "vitest";
import { createPullRequestLinks } from "../../../src/app/pull-request-links.ts";
import { parseConfig } from "../../../src/config.ts";
import { aReport } from "../../support/fake-reports.ts";

const env = {
  TOWLINE_PAGE_TOKEN: "the-token-of-this-page-123",
  TOWLINE_PAGE_PUBLIC_URL: "https://towline.example.com/",
  TOWLINE_GITEA_TOKEN: "token-of-gitea",
  TOWLINE_GITEA_API_URL: "https://git.example.com/api/v1",
  TOWLINE_GITEA_WEBHOOK_SECRET: "secret-of-gitea-1",
};
const report = aReport({ startedAt: Date.now(), finishedAt: Date.now() });
const clock = { now: () => Date.now() } as Parameters<typeof createPullRequestLinks>[0]["clock"];

function linksWith(changes: Record<string, string | undefined> = {}) {
  return createPullRequestLinks({ live: { now: parseConfig({ env: { ...env, ...changes } }) }, clock });
}

test("what one replica writes, another one accepts, and only for this pull request", () => {
  const url = linksWith().urlOf(report) ?? "";
  const [, place, text = ""] = /^https:\/\/towline\.example\.com\/#\/pull-requests\/(.+)\?link=(.+)$/.exec(url) ?? [];
  expect(place).toBe("gitea/org/shop/7");
  const { pullRequest } = report;
  expect(linksWith().check(pullRequest, text).state).toBe("valid");
  expect(linksWith().check({ ...pullRequest, number: 8 }, text).state).toBe("invalid");
  expect(linksWith().check({ ...pullRequest, forge: "github" }, text).state).toBe("invalid");
  expect(linksWith({ TOWLINE_GITEA_TOKEN: "rotated" }).check(pullRequest, text).state).toBe("invalid");
  expect(linksWith({ TOWLINE_PAGE_PULL_REQUEST_LINKS: "off" }).check(pullRequest, text).state).toBe("invalid");
  expect(url).not.toContain("token-of-gitea");
});

test("there is no link without a public address, if links are disabled, or if there is nothing to show", () => {
  expect(linksWith({ TOWLINE_PAGE_PUBLIC_URL: undefined }).urlOf(report)).toBeUndefined();
  expect(linksWith({ TOWLINE_PAGE_TOKEN: undefined }).urlOf(report)).toBeUndefined();
  expect(linksWith({ TOWLINE_PAGE_PULL_REQUEST_LINKS: "off" }).urlOf(report)).toBeUndefined();
  expect(linksWith({ TOWLINE_GITEA_TOKEN: undefined }).urlOf(report)).toBeUndefined();
  expect(linksWith().urlOf({ ...report, previews: [] })).toBeUndefined();
});

test("a link needs a login unless the configuration says that it suffices", () => {
  expect(linksWith().needsLogin()).toBe(false);
  expect(linksWith({ TOWLINE_PAGE_PULL_REQUEST_LINKS: "login" }).needsLogin()).toBe(true);
});

test("a commit has an address if the page has a public one and links are not disabled", () => {
  const commit = "c".repeat(40);
  expect(linksWith().urlOfCommit(commit)).toBe(`https://towline.example.com/#/commit/${commit}`);
  expect(linksWith({ TOWLINE_PAGE_PUBLIC_URL: undefined }).urlOfCommit(commit)).toBeUndefined();
  expect(linksWith({ TOWLINE_PAGE_TOKEN: undefined }).urlOfCommit(commit)).toBeUndefined();
  expect(linksWith({ TOWLINE_PAGE_PULL_REQUEST_LINKS: "off" }).urlOfCommit(commit)).toBeUndefined();
});
