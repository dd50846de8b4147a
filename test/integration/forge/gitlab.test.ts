import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { findWriteAccess } from "../../../src/forge/write-access.ts";
import type { CommitStatus } from "../../../src/model.ts";
import { repoId } from "../../../src/model/repo-url.ts";
import { silentLog } from "../../support/fakes.ts";
import { describeForge } from "../../support/forge-conformance.ts";
import { type GitlabHost, useGitlabHost } from "../../support/gitlab-host.ts";

describeForge("a GitLab", useGitlabHost);

const pending: CommitStatus = { context: "towline", state: "pending", description: "comparing" };
const done: CommitStatus = { context: "towline", state: "success", description: "2 changed" };

async function useCommit(options: Parameters<GitlabHost["openPullRequest"]>[0] = {}) {
  const host = await useGitlabHost();
  const forge = await host.connect();
  const { number, head } = await host.openPullRequest(options);
  return { host, forge, number, head, commit: { forge: forge.id, repoName: host.repoName, commit: head } };
}

const external = ({ project }: GitlabHost) => project.pipelines.filter(({ source }) => source === "external");

test("statuses join the commit's own newest pipeline, whatever its ref, and create no other pipeline", async () => {
  const { host, forge, head, commit } = await useCommit();
  host.startPipeline(head);
  const newest = host.startPipeline(head, "merge_request_event");
  for (const status of [pending, done, { ...done, context: "towline/shop/staging" }]) {
    await forge.setStatus(commit, status);
  }
  expect(external(host)).toEqual([]);
  expect(newest.jobs.map(({ name, status }) => `${name} ${status}`)).toEqual([
    "towline success",
    "towline/shop/staging success",
  ]);
});

test("without a pipeline, all statuses of a commit share one external pipeline on the merge request's branch", async () => {
  const { host, forge, commit } = await useCommit();
  await forge.setStatus(commit, pending);
  await forge.setStatus(commit, { ...pending, context: "towline/shop/staging" });
  await (await host.connect()).setStatus(commit, done);
  expect(external(host)).toMatchObject([{ ref: "feature-1" }]);
  expect(await host.statuses(commit.commit)).toMatchObject([{ state: "success" }, { state: "pending" }]);
});

test("a status that was pending before the commit's own pipeline existed is completed in both pipelines", async () => {
  const { host, forge, head, commit } = await useCommit();
  await forge.setStatus(commit, pending);
  const own = host.startPipeline(head);
  await forge.setStatus(commit, done);
  expect(external(host)).toHaveLength(1);
  for (const pipeline of [own, ...external(host)]) {
    expect(pipeline.jobs).toMatchObject([{ name: "towline", status: "success" }]);
  }
});

test("a commit of a fork, which is on no branch of the project, gets a status as well", async () => {
  const { host, forge, commit } = await useCommit({ fork: true });
  await forge.setStatus(commit, done);
  expect(external(host)).toMatchObject([{ ref: "refs/merge-requests/1/head" }]);
});

test("pending overrides another client's running status, and running is never reported", async () => {
  const { host, forge, head, commit } = await useCommit();
  const { jobs } = host.startPipeline(head);
  await forge.setStatus(commit, pending);
  const [job] = jobs;
  if (job) job.status = "running";
  await forge.setStatus(commit, pending);
  expect(jobs).toMatchObject([{ status: "running" }]);
  await forge.setStatus(commit, done);
  expect(jobs).toMatchObject([{ status: "success" }]);
});

test("if another client changes a commit's statuses at the same time, the attempt fails and the next one succeeds", async () => {
  const { host, forge, commit } = await useCommit();
  host.state.statusConflicts = 1;
  await expect(forge.setStatus(commit, done)).rejects.toMatchObject({ problem: "unreachable" });
  await forge.setStatus(commit, done);
  expect(await host.statuses(commit.commit)).toMatchObject([{ state: "success" }]);
});

test("a name that GitLab would reject is shortened and stays unique, and an address that is too long is omitted", async () => {
  const { host, forge, commit } = await useCommit();
  const context = `towline/${"n".repeat(63)}/${"d".repeat(250)}`;
  const url = `https://towline.example.com/${"u".repeat(300)}`;
  await forge.setStatus(commit, { ...done, context: `${context}-a`, url });
  await forge.setStatus(commit, { ...done, context: `${context}-b`, url });
  const shown = await host.statuses(commit.commit);
  expect(new Set(shown.map((status) => status.context)).size).toBe(2);
  for (const status of shown) expect(status).toMatchObject({ state: "success", url: undefined });
});

test("many statuses of one commit take one request each, and one request for its pipelines", async () => {
  const { host, forge, head, commit } = await useCommit();
  host.startPipeline(head);
  host.state.requests.length = 0;
  for (let i = 0; i < 20; i++) await forge.setStatus(commit, { ...done, context: `towline/shop/${i}` });
  expect(host.state.requests).toHaveLength(21);
});

test("what a token may not see is reported as missing, with the role and scope that it needs", async () => {
  const { host, forge, number, commit } = await useCommit();
  host.bot.developerOf.clear();
  const key = { forge: forge.id, repoName: host.repoName, number };
  expect(await forge.pullRequest(key)).toBeUndefined();
  const needs = { problem: "not-found", message: expect.stringMatching(/Developer.*scope api/) as string };
  await expect(forge.openPullRequests(host.repoName)).rejects.toMatchObject(needs);
  await expect(forge.createComment(key, "hello")).rejects.toMatchObject(needs);
  await expect(forge.setStatus(commit, done)).rejects.toMatchObject(needs);
});

test("GitLab's system notes under the login's name do not count as own comments", async () => {
  const { host, forge, number } = await useCommit();
  const key = { forge: forge.id, repoName: host.repoName, number };
  host.noteBySystem(number, "added 1 commit");
  const own = await forge.createComment(key, "ours");
  host.noteBySystem(number, "changed the description");
  expect(await forge.ownComments(key)).toEqual([own]);
});

test("a comment over the limit is rejected with GitLab's message", async () => {
  const { host, forge, number } = await useCommit();
  const key = { forge: forge.id, repoName: host.repoName, number };
  await expect(forge.createComment(key, "x".repeat(forge.maxCommentLength + 1))).rejects.toMatchObject({
    problem: "refused",
    message: expect.stringContaining("too long") as string,
  });
});

test("the project's SSH address is known even if it has another host name", async () => {
  const { host, forge, number } = await useCommit();
  const read = await forge.pullRequest({ forge: forge.id, repoName: host.repoName, number });
  expect(read?.repoUrls.map(repoId)).toContain(`ssh.127.0.0.1/${host.repoName.toLowerCase()}`);
});

test("a merge request that is being merged is still open, and one without a commit is treated as missing", async () => {
  const { host, forge, number } = await useCommit();
  const key = { forge: forge.id, repoName: host.repoName, number };
  const [request] = host.project.requests;
  if (request) request.state = "locked";
  expect(await forge.pullRequest(key)).toMatchObject({ state: "open" });
  if (request) Object.assign(request, { sha: null });
  expect(await forge.pullRequest(key)).toBeUndefined();
});

describe("the rights of a login are determined without writing anything", () => {
  const asks = async (prepare: (host: GitlabHost) => void) => {
    const host = await useGitlabHost();
    await host.openPullRequest();
    prepare(host);
    const login = { token: host.bot.token };
    const access = findWriteAccess({ kind: "gitlab", apiUrl: host.apiUrl, login, log: silentLog }, host.repoName);
    return { lacking: access.then(({ lacks }) => lacks), host };
  };
  const reports = ({ bot, project }: GitlabHost) => {
    bot.developerOf.delete(project.id);
    bot.reporterOf.add(project.id);
  };

  test.each<[string, (host: GitlabHost) => void, string[]]>([
    ["a developer", () => undefined, []],
    ["a reporter, who may only comment", reports, ["commit statuses"]],
    ["a token that may only read", ({ bot }) => void (bot.onlyReads = true), ["comments", "commit statuses"]],
  ])("%s", async (_, prepare, expected) => {
    const { lacking, host } = await asks(prepare);
    expect(await lacking).toEqual(expected);
    expect(host.project.pipelines).toEqual([]);
    expect(host.project.requests.flatMap(({ notes }) => notes)).toEqual([]);
  });

  test("a login that may not see the project", async () => {
    const { lacking, host } = await asks(({ bot, project }) => void bot.developerOf.delete(project.id));
    await expect(lacking).rejects.toThrow(/give the login access to it/);
    await expect(lacking).rejects.not.toThrow(host.bot.token);
  });
});

describe("the documented CI job makes a merge train wait for Towline", () => {
  const page = readFileSync(new URL("../../../docs/pull-requests.md", import.meta.url), "utf8");
  const [, yaml = ""] = /```yaml\n(towline:\n[^]*?)```/.exec(page) ?? [];
  const { towline: job } = parse(yaml) as { towline: { script: string[] } };

  /** Runs the job like GitLab's runner, with the predefined variables; every pause ends at once and calls `onPause`. */
  async function runJob(host: GitlabHost, sha: string, onPause: () => Promise<unknown> = async () => undefined) {
    const script = ["set -e", 'sleep() { echo "pause"; read -r _; }', ...job.script].join("\n");
    const env = {
      PATH: process.env["PATH"],
      CI_API_V4_URL: host.apiUrl,
      CI_PROJECT_ID: String(host.project.id),
      CI_MERGE_REQUEST_SOURCE_BRANCH_SHA: sha,
      TOWLINE_STATUS_TOKEN: host.bot.token,
    };
    const child = spawn("sh", ["-c", script], { env, stdio: ["pipe", "pipe", "inherit"] });
    const lines: string[] = [];
    const ended = once(child, "close");
    for await (const line of createInterface(child.stdout)) {
      lines.push(line);
      if (line !== "pause") continue;
      await onPause();
      child.stdin.write("\n");
    }
    const [code] = (await ended) as [number];
    return { code, lines };
  }

  test("until the status is known, then passes", async () => {
    const { host, forge, commit, head } = await useCommit();
    host.bot.onlyReads = true; // the job's token is read-only
    const writing = (status: CommitStatus) => async () => {
      host.bot.onlyReads = false;
      await forge.setStatus(commit, status);
      host.bot.onlyReads = true;
    };
    const steps = [writing({ ...done, context: "towline/shop/staging" }), writing(pending), writing(done)];
    const { code, lines } = await runJob(host, head, async () => steps.shift()?.());
    expect(lines).toEqual(["pause", "pause", "pause"]);
    expect(code).toBe(0);
  });

  test.each(["failure", "canceled"] as const)("and fails if the status is %s", async (state) => {
    const { host, forge, commit, head } = await useCommit();
    await forge.setStatus(commit, pending);
    await forge.setStatus(commit, { ...done, state });
    const { code, lines } = await runJob(host, head);
    expect(code).toBe(1);
    expect(lines).toEqual([`Towline: ${state === "failure" ? "failed" : "canceled"}`]);
  });
});
