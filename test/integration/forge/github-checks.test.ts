import { pino } from "pino";
import { describe, expect, test } from "vitest";
import type { CommitStatus } from "../../../src/model.ts";
import { type GithubHost, useGithubHost } from "../../support/github-host.ts";

type Opened = Awaited<ReturnType<typeof useOpened>>;

async function useOpened(options: Parameters<GithubHost["connect"]>[0] & { grants?: "checks" | "statuses" } = {}) {
  const { grants = "checks", ...connection } = options;
  const host = await useGithubHost({ as: "app", grants });
  const lines: Record<string, unknown>[] = [];
  const log = pino({ base: null }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const forge = host.connect({ log, ...connection });
  const { head } = await host.openPullRequest();
  const { checkRuns, statuses } = host.repository;
  const commit = { forge: forge.id, repoName: host.repoName, commit: head };
  const switched = (reportAs: "checks" | "statuses") => host.connect({ log, reportAs });
  return { host, forge, commit, lines, checkRuns, statuses, switched };
}

const pending: CommitStatus = { context: "towline", state: "pending", description: "comparing 1 deployment" };
const success: CommitStatus = { context: "towline", state: "success", description: "no changes" };
const failure: CommitStatus = { context: "towline", state: "failure", description: "would fail" };

const resultsOf = ({ checkRuns }: Pick<Opened, "checkRuns">) =>
  checkRuns.map(({ name, status, conclusion }) => [name, conclusion ?? status]);

/** The writes that the host answered, in order. */
const writesTo = ({ answered }: GithubHost) =>
  answered
    .filter((line) => /^(?:POST|PATCH)/.test(line) && !line.includes("access_tokens"))
    .map((line) => line.replace(/^(\w+) .*\/(check-runs|statuses)\b.*$/, "$1 $2"));

describe("an App with the permission", () => {
  test("writes one check run for each name, completes it, and writes no status", async () => {
    const opened = await useOpened();
    const { forge, commit, checkRuns, statuses } = opened;
    const url = "https://github.example.com/org/shop/pull/7#issuecomment-1";
    expect(await forge.setStatus(commit, { ...pending, url })).toBe("check");
    await forge.setStatus(commit, { ...pending, context: "towline/shop/prod" });
    expect(resultsOf(opened)).toEqual([
      ["towline", "in_progress"],
      ["towline/shop/prod", "in_progress"],
    ]);

    await forge.setStatus(commit, { ...success, url });
    expect(checkRuns[0]).toMatchObject({ conclusion: "success", title: "no changes", details_url: url });
    expect(checkRuns).toHaveLength(2);
    expect(statuses).toEqual([]);
  });

  test.each<[string, CommitStatus]>([
    ["success", success],
    ["neutral", { ...success, neutral: true }],
    ["failure", failure],
    // Nothing but success, neutral and skipped passes a required check.
    ["cancelled", { ...success, state: "canceled", neutral: true }],
  ])("reports as %s what is", async (conclusion, status) => {
    const { forge, commit, checkRuns } = await useOpened();
    await forge.setStatus(commit, status);
    expect(checkRuns).toMatchObject([{ status: "completed", conclusion }]);
  });

  test("replaces a completed run by a new one, also among hundreds", async () => {
    const opened = await useOpened();
    const { forge, commit, checkRuns } = opened;
    await forge.setStatus(commit, failure);
    for (let id = 2; id <= 230; id++) checkRuns.push({ ...checkRuns[0]!, id, annotations: [] });
    await forge.setStatus(commit, pending);
    await forge.setStatus(commit, success);
    expect(resultsOf(opened).slice(-2)).toEqual([
      ["towline", "failure"],
      ["towline", "success"],
    ]);
    expect(checkRuns).toHaveLength(231);
  });

  test("changes no run of another App", async () => {
    const opened = await useOpened();
    const { forge, commit, checkRuns, host } = opened;
    await forge.setStatus(commit, pending);
    checkRuns.splice(0, 1, { ...checkRuns[0]!, app: { ...host.logins.appObject, id: 5 } });
    await forge.setStatus(commit, success);
    expect(resultsOf(opened)).toEqual([
      ["towline", "in_progress"],
      ["towline", "success"],
    ]);
  });
});

describe("the text of a run", () => {
  const notes = Array.from({ length: 60 }, (_, at) => ({
    ...{ path: `app/${at}.yaml`, line: at + 1, title: "shop/prod cannot be rendered", message: "'a' is undefined" },
  }));

  test("is that of the comment, with notes on the first fifty lines, once it is complete", async () => {
    const { forge, commit, checkRuns } = await useOpened();
    const details = { text: "### Towline: **it fails**", notes };
    await forge.setStatus(commit, { ...pending, details });
    expect(checkRuns[0]).toMatchObject({ summary: details.text, annotations: [] });
    await forge.setStatus(commit, { ...failure, details });
    expect(checkRuns[0]?.annotations).toHaveLength(50);
    expect(checkRuns[0]?.annotations[1]).toMatchObject({
      path: "app/1.yaml",
      start_line: 2,
      message: "'a' is undefined",
    });
  });

  test("is measured in bytes, like GitHub's limit; a longer one is left out", async () => {
    const { forge, commit, checkRuns } = await useOpened();
    const longest = "🚀".repeat(16_383);
    expect(forge.maxDetailsBytes).toBe(65_535);
    await forge.setStatus(commit, { ...success, details: { text: longest, notes: [] } });
    await forge.setStatus(commit, { ...success, details: { text: `${longest}🚀`, notes: [] } });
    expect(checkRuns.map(({ summary }) => summary)).toEqual([longest, "    no changes"]);
  });

  test("shows a description as it is, whatever it contains", async () => {
    const { forge, commit, checkRuns } = await useOpened();
    await forge.setStatus(commit, { ...failure, description: "a.yaml: <img src=x>\n\n@everyone **bold**" });
    expect(checkRuns[0]?.summary).toBe("    a.yaml: <img src=x> @everyone **bold**");
  });
});

describe("several at once", () => {
  const names = ["towline/shop/api", "towline/shop/db", "towline/shop/web", "towline"];
  const all = (state: CommitStatus["state"]) => names.map((context) => ({ context, state, description: "1 changed" }));
  const setAll = async ({ forge, commit }: Opened, statuses: readonly CommitStatus[]) => {
    const shown: string[] = [];
    await forge.setStatuses?.(commit, statuses, ({ context }, form) => void shown.push(`${form} ${context}`));
    return shown;
  };
  /** Those that are not about tokens. */
  const requestsTo = ({ answered }: GithubHost) => answered.filter((line) => !/\/app\b|installation/.test(line));

  test("take two reads and a write each, whatever is there", async () => {
    const opened = await useOpened();
    const { host } = opened;
    expect(await setAll(opened, all("pending"))).toEqual(names.map((name) => `check ${name}`));
    expect(requestsTo(host)).toHaveLength(2 + names.length);
    host.answered.length = 0;
    await setAll(opened, all("success"));
    expect(requestsTo(host)).toHaveLength(2 + names.length);
    expect(resultsOf(opened)).toEqual(names.map((name) => [name, "success"]));
    host.answered.length = 0;
    await setAll(opened, all("failure").slice(0, 2));
    expect(writesTo(host)).toEqual(["POST check-runs", "POST check-runs"]);
  });

  test("complete the right runs also if there are hundreds", async () => {
    const opened = await useOpened();
    const { checkRuns } = opened;
    await setAll(opened, all("pending"));
    for (let id = 10; id <= 250; id++) checkRuns.push({ ...checkRuns[0]!, id, name: "other", annotations: [] });
    await setAll(opened, all("success"));
    expect(resultsOf(opened).slice(0, 4)).toEqual(names.map((name) => [name, "success"]));
    expect(checkRuns).toHaveLength(245);
  });

  test("end what was written in the other form, and nothing else", async () => {
    const opened = await useOpened();
    const { host, commit, statuses, switched } = opened;
    const before = [
      { ...pending, context: names[1]! },
      { ...success, context: names[2]! },
      { ...failure, context: "other" },
    ];
    for (const status of before) await switched("statuses").setStatus(commit, status);
    host.answered.length = 0;
    await setAll(opened, all("success"));
    expect(writesTo(host)).toEqual([...names.map(() => "POST check-runs"), "POST statuses"]);
    expect(statuses.at(-1)).toMatchObject({ context: names[1], state: "success" });
    await switched("statuses").setStatuses?.(commit, all("failure"), () => undefined);
    expect(statuses.slice(4).map(({ context, state }) => [context, state])).toEqual(
      names.map((name) => [name, "failure"]),
    );
    // These runs would not block a merge.
    expect(resultsOf(opened)).toEqual(names.map((name) => [name, "success"]));
  });

  test("show those before a refusal, and end their other form", async () => {
    const opened = await useOpened();
    const { host, commit, statuses, switched } = opened;
    await switched("statuses").setStatus(commit, { ...pending, context: names[0]! });
    const shown: string[] = [];
    const broken = all("success").map((status, at) => (at === 1 ? { ...status, context: "" } : status));
    const setting = opened.forge.setStatuses?.(commit, broken, ({ context }) => void shown.push(context));
    await expect(setting).rejects.toMatchObject({ problem: "refused" });
    expect(shown).toEqual([names[0]]);
    expect(statuses.at(-1)).toMatchObject({ context: names[0], state: "success" });
    expect(host.repository.checkRuns).toHaveLength(1);
  });

  test("continue as statuses when the permission is withdrawn", async () => {
    const opened = await useOpened();
    const { host, statuses } = opened;
    await setAll(opened, all("pending").slice(0, 1));
    const { installation, installationTokens } = host.logins;
    installation!.permissions = { statuses: "write", metadata: "read" };
    for (const token of installationTokens) token.expiresAt = 0;
    expect(await setAll(opened, all("success"))).toEqual(names.map((name) => `status ${name}`));
    expect(statuses.map(({ context }) => context)).toEqual(names);
  });
});

describe("the same name is never answered twice", () => {
  test.each([pending, failure])("a status that is $state ends after the run that replaces it", async (before) => {
    const opened = await useOpened();
    const { host, commit, statuses, switched } = opened;
    await switched("statuses").setStatus(commit, before);
    host.answered.length = 0;

    expect(await switched("checks").setStatus(commit, failure)).toBe("check");
    expect(writesTo(host)).toEqual(["POST check-runs", "POST statuses"]);
    expect(resultsOf(opened)).toEqual([["towline", "failure"]]);
    expect(statuses.at(-1)).toMatchObject({ context: "towline", state: "success" });
    expect(statuses.at(-1)?.description).toContain("replaced by the check run");
  });

  test("a status that passes, and those of other names, stay as they are", async () => {
    const { commit, statuses, switched } = await useOpened();
    await switched("statuses").setStatus(commit, success);
    await switched("statuses").setStatus(commit, { ...failure, context: "towline/shop/prod" });
    await switched("checks").setStatus(commit, success);
    expect(statuses.map(({ context, state }) => [context, state])).toEqual([
      ["towline", "success"],
      ["towline/shop/prod", "failure"],
    ]);
  });

  test("a run in progress is completed after the status that replaces it", async () => {
    const opened = await useOpened();
    const { host, commit, checkRuns, switched } = opened;
    await switched("checks").setStatus(commit, pending);
    host.answered.length = 0;

    expect(await switched("statuses").setStatus(commit, failure)).toBe("status");
    expect(writesTo(host)).toEqual(["POST statuses", "PATCH check-runs"]);
    expect(resultsOf(opened)).toEqual([["towline", "neutral"]]);
    expect(checkRuns[0]?.title).toContain("replaced by the commit status");
  });

  test("a run that failed gets a neutral successor, once", async () => {
    const opened = await useOpened();
    const { commit, switched } = opened;
    await switched("checks").setStatus(commit, failure);
    for (const status of [pending, success]) await switched("statuses").setStatus(commit, status);
    expect(resultsOf(opened)).toEqual([
      ["towline", "failure"],
      ["towline", "neutral"],
    ]);
  });

  test("an App that may write no statuses has none to end", async () => {
    const opened = await useOpened();
    const { host, forge, commit } = opened;
    host.logins.installation!.permissions = { checks: "write", metadata: "read" };
    await forge.setStatus(commit, success);
    expect(resultsOf(opened)).toEqual([["towline", "success"]]);
    expect(host.answered.filter((line) => / 4\d\d$/.test(line))).toEqual([]);
  });
});

describe("an App without the permission", () => {
  test("writes statuses, and the log says once what to grant", async () => {
    const { forge, commit, lines, checkRuns, statuses } = await useOpened({ grants: "statuses" });
    expect(await forge.setStatus(commit, pending)).toBe("status");
    await forge.setStatus(commit, success);
    expect(statuses.map(({ state }) => state)).toEqual(["pending", "success"]);
    expect(checkRuns).toEqual([]);
    expect(lines.map(({ msg }) => msg)).toEqual([expect.stringContaining("Checks: read and write")]);
  });

  test("writes a check run where another server, which knows of a new permission, wrote one", async () => {
    const opened = await useOpened({ grants: "statuses" });
    const { host, forge, commit, switched } = opened;
    await forge.setStatus(commit, { ...success, context: "towline/shop/prod" });
    const { installation } = host.logins;
    installation!.permissions = { ...installation!.permissions, checks: "write" };
    await switched("checks").setStatus(commit, pending);

    expect(await forge.setStatus(commit, { ...success, shown: "a1" })).toBe("check");
    expect(resultsOf(opened)).toEqual([["towline", "success"]]);
  });

  test("continues with statuses when the permission is withdrawn", async () => {
    const opened = await useOpened();
    const { host, forge, commit, statuses } = opened;
    await forge.setStatus(commit, { ...success, context: "towline/shop/prod" });
    const { installation, installationTokens } = host.logins;
    installation!.permissions = { statuses: "write", metadata: "read" };
    for (const token of installationTokens) token.expiresAt = 0;
    expect(await forge.setStatus(commit, success)).toBe("status");
    expect(statuses).toMatchObject([{ context: "towline", state: "success" }]);
  });

  test("fails if check runs are configured, and the error says what to grant", async () => {
    const { forge, commit, statuses } = await useOpened({ grants: "statuses", reportAs: "checks" });
    await expect(forge.setStatus(commit, success)).rejects.toMatchObject({
      problem: "unauthorized",
      message: expect.stringContaining("lacks the permission to write checks") as string,
    });
    expect(statuses).toEqual([]);
  });
});

test("a login by token knows no check runs", async () => {
  const host = await useGithubHost();
  host.logins.permissions = { pull_requests: "write", statuses: "write", checks: "write" };
  const forge = host.connect();
  const { head } = await host.openPullRequest();
  expect(forge.maxDetailsBytes).toBeUndefined();
  expect(await forge.setStatus({ forge: forge.id, repoName: host.repoName, commit: head }, success)).toBe("status");
  expect(host.answered.filter((line) => line.includes("check"))).toEqual([]);
});
