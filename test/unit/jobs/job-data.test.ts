import { expect, test } from "vitest";
import { parseJobData, toJobData } from "../../../jobs/job-data.ts";
import type { Request, RepoId } from "../../../src/model.ts";
import { laneOf } from "../../../jobs/lanes.ts";
import { aPreviewRequest, aPullRequestKey, aRequest } from "../../support/jobs.ts";

const repo = "git.example.com/org/shop" as RepoId;
const commit = { forge: "gitea", repoName: "org/shop", commit: "c".repeat(40) };

test("a request read from Redis equals the one that was written", () => {
  const request = aRequest("shop", "push", { delivery: "d1", receivedAt: 1 });
  expect(parseJobData("reconcile", JSON.parse(JSON.stringify(toJobData(request))))).toEqual(request);
  expect(parseJobData("reconcile", JSON.parse(JSON.stringify(toJobData(aRequest("shop", "interval")))))).toEqual(
    aRequest("shop", "interval"),
  );
});

test("data written by another version or another program is not a request", () => {
  const good = toJobData(aRequest());
  for (const bad of [
    undefined,
    null,
    [],
    "reconcile",
    {},
    { ...good, v: 2 },
    { ...good, v: undefined },
    { ...good, kind: "exec" },
    { ...good, cause: "whim" },
    { ...good, namespace: "a/b" },
    { ...good, name: "../../etc" },
    { ...good, name: "a".repeat(254) },
    { ...good, name: "--help\n" },
    { ...good, receivedAt: "yesterday" },
  ]) {
    expect(parseJobData("reconcile", bad), JSON.stringify(bad)).toBeUndefined();
  }
});

test("requests about pull requests and commits are read as they were written, and in their own lane only", () => {
  const requests: Request[] = [
    aPreviewRequest(7, "base"),
    { ...aPreviewRequest(), delivery: "d1", receivedAt: 1 },
    { kind: "report", pullRequest: aPullRequestKey(1, "Group/sub.group/-a_b/shop") },
    { kind: "commit-status", commit, repo },
    { kind: "commit-status", commit, repo, pushedTo: "refs/heads/main" },
    { kind: "flux-fetch", source: { namespace: "flux-system", name: "shop" }, cause: "push", delivery: "d1" },
    { kind: "flux-fetch", source: { namespace: "flux-system", name: "shop" }, cause: "push", commit: "1".repeat(40) },
  ];
  for (const request of requests) {
    const data: unknown = JSON.parse(JSON.stringify(toJobData(request)));
    expect(parseJobData(laneOf(request), data)).toEqual(request);
    expect(parseJobData("reconcile", data)).toBeUndefined();
    expect(parseJobData(laneOf(request) === "report" ? "preview" : "report", data)).toBeUndefined();
  }
});

test("a job contains names only", () => {
  const key = aPullRequestKey();
  const extra = { ...key, title: "canary-5f0e" };
  for (const request of [
    { ...aPreviewRequest(), pullRequest: extra, token: "canary-5f0e" },
    { kind: "report", pullRequest: extra, body: "canary-5f0e" } as const,
    { kind: "commit-status", commit: { ...commit, title: "canary-5f0e" }, repo, body: "canary-5f0e" } as const,
  ]) {
    expect(JSON.stringify(toJobData(request))).not.toContain("canary-5f0e");
  }

  const preview = toJobData(aPreviewRequest());
  for (const bad of [
    { forge: "" },
    { forge: "../gitea" },
    { forge: "a".repeat(41) },
    { repoName: "shop" },
    { repoName: "org/../shop" },
    { repoName: "./shop" },
    { repoName: "org/shop?token=x" },
    { repoName: "org/shop\n" },
    { repoName: `org/${"a".repeat(500)}` },
    { number: 0 },
    { number: 1.5 },
    { number: "7" },
    { number: 2 ** 53 },
  ]) {
    expect(
      parseJobData("preview", { ...preview, pullRequest: { ...key, ...bad } }),
      JSON.stringify(bad),
    ).toBeUndefined();
  }
  for (const bad of ["c".repeat(39), "C".repeat(40), "main", `${"c".repeat(40)}\n`, "c".repeat(64) + "c"]) {
    const data = { ...toJobData({ kind: "commit-status", commit, repo }), commit: { ...commit, commit: bad } };
    expect(parseJobData("report", data), bad).toBeUndefined();
  }
});

test("a request about a merge queue's group is read as it was written, and its branch has to be a merge queue branch", () => {
  const base = "b".repeat(40);
  const group = { ...commit, forge: "github", branch: `gh-readonly-queue/release/1.2/pr-7-${base}`, base };
  const request = { kind: "merge-group", group, ended: false, delivery: "d1", receivedAt: 1 } as const;
  expect(laneOf(request)).toBe("preview");
  expect(parseJobData("preview", JSON.parse(JSON.stringify(toJobData(request))))).toEqual(request);
  const noisy = { ...request, group: { ...group, title: "canary-5f0e" }, body: "canary-5f0e" };
  expect(JSON.stringify(toJobData(noisy))).not.toContain("canary-5f0e");
  for (const bad of [{ branch: "main" }, { branch: `${group.branch}\n` }, { base: "main" }, { commit: "main" }]) {
    const data = { ...toJobData(request), group: { ...group, ...bad } };
    expect(parseJobData("preview", data), JSON.stringify(bad)).toBeUndefined();
  }
});
