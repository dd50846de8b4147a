import { pino } from "pino";
import { describe, expect, test } from "vitest";
import { QueueUnavailableError } from "../../../src/errors.ts";
import { includedBy } from "../../../src/model/includes.ts";
import { createIntake } from "../../../src/intake/intake.ts";
import {
  annotation,
  type GitDeployment,
  type GitEvent,
  type GitRef,
  type PullRequestKey,
  type PullRequestEvent,
  type PushEvent,
  type RepoId,
  type Request,
  type RerunEvent,
  subjectOf,
} from "../../../src/model.ts";
import { repoId } from "../../../src/model/repo-url.ts";
import { aDeployment, aSpec } from "../../support/deployments.ts";
import type { Report } from "../../../src/model/report.ts";
import { aPreview, aReport, fakeReports } from "../../support/fake-reports.ts";

const push: PushEvent = {
  kind: "push",
  forge: "github",
  delivery: "7c1e",
  repoUrls: [
    "https://git.example.com/org/shop.git",
    "git@git.example.com:org/shop.git",
    "https://mirror.example.com/shop",
  ],
  repoName: "org/shop",
  ref: "refs/heads/main",
  change: "updated",
  after: "1".repeat(40),
  defaultBranch: "main",
  changed: { complete: false, paths: [] },
};

const pullRequest: PullRequestEvent = {
  ...{ kind: "pull-request", forge: "github", delivery: "9a02", repoUrls: push.repoUrls, repoName: "org/shop" },
  ...{ number: 7, action: "opened", baseBranch: "main", head: "2".repeat(40), fork: false },
};

/** An intake whose queue keeps at most one waiting request per subject, like the real one. */
function useIntake(...deployments: GitDeployment[]) {
  return useIntakeWith({}, ...deployments);
}

/** `previews` switches on previews for pull requests on `forges`, the forges with an API login. */
function useIntakeWith(
  {
    previews = false,
    forges = [] as string[],
    speaksFor,
  }: { previews?: boolean; forges?: string[]; speaksFor?: (forge: string, url: string) => boolean },
  ...deployments: GitDeployment[]
) {
  const waiting = new Map<string, Request>();
  const steps: string[] = [];
  const lookups: RepoId[] = [];
  const lines: Record<string, unknown>[] = [];
  const open = new Map<string, PullRequestKey[]>();
  const stored = fakeReports();
  let down = false;
  const log = pino({ base: null }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const accept = createIntake({
    tracking(repo) {
      lookups.push(repo);
      return deployments.filter((deployment) => deployment.repo === repo);
    },
    including: (repo) => deployments.filter((deployment) => includedBy(deployment).has(repo)),
    queue: {
      enqueue(requests, moved = []) {
        for (const repo of moved) steps.push(`moved ${repo}`);
        if (down) return Promise.reject(new QueueUnavailableError("Redis is down"));
        const fresh = requests.filter((request) => !waiting.has(subjectOf(request)));
        for (const request of requests) waiting.set(subjectOf(request), request);
        if (requests.length > 0) steps.push(`enqueued ${requests.map(subjectOf).join()}`);
        return Promise.resolve({ queued: fresh.length });
      },
    },
    forges: new Set(forges),
    speaksFor,
    ...(previews && {
      reports: () => ({
        open: stored.open,
        proposing: stored.proposing,
        openInto(repo, branch) {
          steps.push(`open into ${repo} ${branch}`);
          return Promise.resolve(open.get(`${repo} ${branch}`) ?? []);
        },
      }),
    }),
    written: stored,
    log,
    clock: { now: () => 1_000 },
  });
  return { accept, waiting, steps, lookups, lines, open, stored, breakQueue: () => void (down = true) };
}

const following = (ref: GitRef) => ({ ...aSpec().source, ref });

const named = (name: string, overrides: Parameters<typeof aDeployment>[0] = {}) =>
  aDeployment({ key: { namespace: "shop", name }, ...overrides });

test("a push marks the repository as moved, then queues all requests at once, and the receipt lists the results", async () => {
  const { accept, steps, waiting, lines } = useIntake(
    named("staging"),
    named("prod"),
    named("legacy", { spec: { suspend: true } }),
  );
  expect(await accept(push)).toEqual({
    delivery: "7c1e",
    matched: 2,
    deployments: ["shop/staging", "shop/prod"],
    queued: 2,
    ignored: [{ deployment: "shop/legacy", reason: "suspended" }],
    reason: undefined,
  });
  expect(steps).toEqual(["moved git.example.com/org/shop", "enqueued reconcile:shop/staging,reconcile:shop/prod"]);
  expect(waiting.get("reconcile:shop/prod")).toEqual({
    kind: "reconcile",
    deployment: { namespace: "shop", name: "prod" },
    cause: "push",
    repo: "git.example.com/org/shop",
    delivery: "7c1e",
    receivedAt: 1_000,
  });
  expect(lines).toEqual([
    {
      level: 30,
      time: expect.anything(),
      delivery: "7c1e",
      forge: "github",
      event: "push",
      repo: "org/shop",
      ref: "refs/heads/main",
      matched: 2,
      queued: 2,
      ignored: { "shop/legacy": "suspended" },
      ms: 0,
      msg: "push accepted",
    },
  ]);
});

test("each spelling of the repository is looked up once, and deployments under each of its names are found", async () => {
  const mirror = repoId("https://mirror.example.com/shop")!;
  const source = { url: "https://mirror.example.com/shop", ref: { branch: "main" }, path: "" };
  const { accept, lookups, steps } = useIntake(named("a"), named("b", { spec: { source }, repo: mirror }));
  expect(await accept(push)).toMatchObject({ matched: 2 });
  expect(lookups).toEqual(["git.example.com/org/shop", mirror]);
  expect(steps).toEqual([
    "moved git.example.com/org/shop",
    `moved ${mirror}`,
    "enqueued reconcile:shop/a,reconcile:shop/b",
  ]);
});

test("files outside of its path that a project names affect it, unless the user says what does", async () => {
  const source = { ...aSpec().source, path: "apps/shop" };
  const reads = { [annotation.reads]: "apps/shop/\nbase\nshared/vars.yaml" };
  const own = named("own", { spec: { source }, annotations: reads });
  const told = named("told", { spec: { source }, annotations: { ...reads, [annotation.paths]: "charts/**" } });
  const matchedBy = async (path: string) =>
    (await useIntake(own, told).accept({ ...push, changed: { complete: true, paths: [path] } })).deployments;
  expect(await matchedBy("base/deep/a.yaml")).toEqual(["shop/own"]);
  expect(await matchedBy("shared/vars.yaml")).toEqual(["shop/own"]);
  expect(await matchedBy("charts/a.tgz")).toEqual(["shop/told"]);
  expect(await matchedBy("apps/shop/a.yaml")).toEqual(["shop/own", "shop/told"]);
  expect(await matchedBy("based/a.yaml")).toBeUndefined();
});

describe("a push to a repository that projects include", () => {
  const library = "https://git.example.com/org/shop";
  const consumer = (name: string, includes: string, overrides: Parameters<typeof aDeployment>[0] = {}) => {
    const source = { ...aSpec().source, url: "https://git.example.com/org/app", ref: { branch: "main" } };
    const repo = repoId(source.url);
    return named(name, { repo, spec: { source }, annotations: { [annotation.includes]: includes }, ...overrides });
  };

  test("concerns exactly those that include the pushed ref, and says why not the others", async () => {
    const { accept, steps, waiting } = useIntake(
      consumer("default", `${library}.git`),
      consumer("main", `https://git.example.com/org/other\n${library} refs/heads/main`),
      consumer("tagged", `${library} refs/tags/v1`),
      consumer("off", library, { annotations: { [annotation.includes]: library, [annotation.webhooks]: "false" } }),
      consumer("elsewhere", "https://git.example.com/org/other refs/heads/main"),
    );
    const receipt = await accept(push);
    const both = ["shop/default", "shop/main"];
    expect(receipt).toMatchObject({ matched: 2, deployments: both, including: both, reason: undefined });
    expect(receipt.ignored).toEqual([
      { deployment: "shop/tagged", reason: "includes refs/tags/v1, the push is to branch main" },
      { deployment: "shop/off", reason: "webhooks are disabled by annotation" },
    ]);
    expect([...waiting.values()]).toMatchObject([
      { cause: "include", repo: repoId("https://git.example.com/org/app"), delivery: "7c1e", receivedAt: 1_000 },
      { cause: "include" },
    ]);
    // Their jobs get no answer of git from before the push.
    expect(steps[0]).toBe(`moved ${repoId("https://git.example.com/org/app")}`);
  });

  test("marks a library as moved if its pull requests are shown in a deployment that includes it", async () => {
    const shown = { [annotation.includes]: library, [annotation.previewIn]: library };
    const { accept, steps } = useIntake(consumer("shown", library, { annotations: shown }));
    await accept(push);
    expect(steps.slice(0, 2)).toEqual([
      `moved ${repoId(library)}`,
      `moved ${repoId("https://git.example.com/org/app")}`,
    ]);
  });

  test("concerns a deployment of the repository itself as usual", async () => {
    const { accept, waiting } = useIntake(named("own", { annotations: { [annotation.includes]: library } }));
    expect(await accept(push)).toMatchObject({ matched: 1 });
    expect([...waiting.values()]).toMatchObject([{ cause: "push" }]);
  });

  test("leaves suspended deployments alone", async () => {
    const source = { ...aSpec().source, url: "https://git.example.com/org/app" };
    const { accept } = useIntake(consumer("frozen", library, { spec: { source, suspend: true } }));
    const ignored = [{ deployment: "shop/frozen", reason: "suspended" }];
    expect(await accept(push)).toMatchObject({ matched: 0, ignored });
  });

  test("marks only the repositories of deployments that it concerns as moved, and previews nothing before their deploy", async () => {
    const { accept, steps } = useIntakeWith(
      { previews: true, forges: ["github"] },
      consumer("tagged", `${library} refs/tags/v1`),
    );
    expect(await accept(push)).toMatchObject({ matched: 0, previews: 0 });
    expect(steps).toEqual([]);
  });

  test("concerns a deployment that follows another ref of the same repository", async () => {
    const source = { ...aSpec().source, ref: { branch: "prod" } };
    const own = named("own", {
      spec: { source },
      annotations: { [annotation.includes]: `${library} refs/heads/main` },
    });
    const other = named("other", {
      spec: { source },
      annotations: { [annotation.includes]: `${library} refs/heads/x` },
    });
    const { accept, waiting } = useIntake(own, other);
    const receipt = await accept(push);
    expect(receipt).toMatchObject({ matched: 1, deployments: ["shop/own"] });
    expect(receipt.ignored.map(({ deployment }) => deployment)).toEqual(["shop/other"]);
    expect([...waiting.values()]).toMatchObject([{ cause: "include" }]);
  });
});

test("a push that no deployment follows changes nothing", async () => {
  const { accept, steps } = useIntake();
  expect(await accept(push)).toMatchObject({ matched: 0, queued: 0, reason: "no deployment follows this repository" });
  expect(await accept({ ...push, repoUrls: ["file:///etc", "::", ""] })).toMatchObject({ matched: 0 });
  expect(steps).toEqual([]);
});

test("a push that every deployment ignores still invalidates earlier answers of the remote", async () => {
  const { accept, steps } = useIntake(named("a"));
  expect(await accept({ ...push, ref: "refs/heads/x" })).toMatchObject({
    matched: 0,
    ignored: [{ deployment: "shop/a" }],
  });
  expect(steps).toEqual(["moved git.example.com/org/shop"]);
});

test("a repeated delivery queues no second job while the first waits, and queues one again afterwards", async () => {
  const { accept, waiting } = useIntake(named("a"));
  expect(await accept(push)).toMatchObject({ matched: 1, queued: 1 });
  expect(await accept(push)).toMatchObject({ matched: 1, queued: 0 });
  waiting.clear();
  expect(await accept(push)).toMatchObject({ matched: 1, queued: 1 });
});

test("if the queue is unavailable the sender gets an error", async () => {
  const { accept, breakQueue, lines } = useIntake(named("a"));
  breakQueue();
  await expect(accept(push)).rejects.toThrow(QueueUnavailableError);
  expect(lines).toEqual([]);
});

test.each([
  [{ kind: "ping" }, "the webhook is set up", "ping accepted"],
  [{ kind: "irrelevant", reason: "issues are of no use" }, "issues are of no use", "delivery ignored"],
  [pullRequest, "previews of pull requests are disabled (preview.enabled)", "pull-request accepted"],
] as const)("%o queues nothing and the receipt gives the reason", async (event, reason, msg) => {
  const { accept, steps, lines } = useIntake(named("a"));
  const whole = { ...event, forge: "github", delivery: "d" } as GitEvent;
  expect(await accept(whole)).toEqual({ delivery: "d", matched: 0, queued: 0, ignored: [], reason });
  expect(steps).toEqual([]);
  expect(lines).toMatchObject([{ msg, reason }]);
});

test("the receipt lists a thousand ignored deployments, and the log names twenty of them", async () => {
  const many = Array.from({ length: 1_000 }, (_, i) => named(`d${i}`, { spec: { suspend: true } }));
  const { accept, lines } = useIntake(...many);
  expect((await accept(push)).ignored).toHaveLength(1_000);
  expect(Object.keys(lines[0]?.["ignored"] ?? {})).toHaveLength(20);
  expect(lines[0]).toMatchObject({ ignoredMore: 980 });
});

describe("a pull request in a library", () => {
  const consumer = (name: string, shown: boolean) =>
    aDeployment({
      key: { namespace: "shop", name },
      repo: repoId("https://git.example.com/org/consumer")!,
      annotations: {
        [annotation.includes]: "https://git.example.com/org/shop refs/heads/main",
        ...(shown && { [annotation.previewIn]: "git.example.com/org/shop" }),
      },
    });

  test("names the deployments that it is previewed for, and says why not for others", async () => {
    const how = { previews: true, forges: ["github"] };
    const { accept } = useIntakeWith(how, consumer("shown", true), consumer("hidden", false));
    expect(await accept(pullRequest)).toMatchObject({
      ...{ matched: 0, previews: 1, queued: 1, including: ["shop/shown"] },
      ignored: [{ deployment: "shop/hidden", reason: expect.stringContaining("preview-in") as string }],
    });
  });
});

describe("a pull request", () => {
  const with7 = { forge: "github", repoName: "org/shop", number: 7 };

  test.each(["opened", "updated", "reopened", "retargeted", "closed", "draft-changed"] as const)(
    "that was %s is previewed, whichever deployments follow its repository",
    async (action) => {
      const { accept, waiting, lines } = useIntakeWith({ previews: true, forges: ["github"] });
      expect(await accept({ ...pullRequest, action })).toEqual({
        ...{ delivery: "9a02", matched: 0, previews: 1, queued: 1, ignored: [] },
      });
      expect([...waiting.values()]).toEqual([
        { kind: "preview", pullRequest: with7, cause: "pull-request", delivery: "9a02", receivedAt: 1_000 },
      ]);
      expect(lines).toMatchObject([{ msg: "pull-request accepted", number: 7, previews: 1, queued: 1 }]);
      expect(await accept({ ...pullRequest, action })).toMatchObject({ previews: 1, queued: 0 });
    },
  );

  test("that got a label is not previewed", async () => {
    const { accept, steps } = useIntakeWith({ previews: true, forges: ["github"] });
    const reason = "no change that affects a preview";
    expect(await accept({ ...pullRequest, action: "other" })).toMatchObject({ matched: 0, queued: 0, reason });
    expect(steps).toEqual([]);
  });

  test("of a forge without a login gets a reason with what to configure", async () => {
    const { accept, steps } = useIntakeWith({ previews: true, forges: ["gitlab"] });
    const { reason } = await accept(pullRequest);
    expect(reason).toMatch(/forge github has no login for its API, set its token \(or appId/);
    expect(steps).toEqual([]);
  });
});

describe("a push", () => {
  const other = { forge: "github", repoName: "org/shop", number: 9 };
  const key = { forge: "github", repoName: "org/shop", number: 7 };
  const login = { previews: true, forges: ["github"] };

  test("requests previews of the pull requests into its branch, and statuses of the commit", async () => {
    const { accept, open, steps, waiting, lines } = useIntakeWith(login, named("a"));
    open.set("git.example.com/org/shop main", [key, other]);
    expect(await accept(push)).toMatchObject({ matched: 1, previews: 2, queued: 3 });
    expect(steps).toEqual([
      "open into git.example.com/org/shop main",
      "moved git.example.com/org/shop",
      "enqueued reconcile:shop/a,preview:github:org/shop#7,preview:github:org/shop#9",
      `enqueued commit-status:github:org/shop@${push.after}`,
    ]);
    expect(waiting.get("preview:github:org/shop#7")).toEqual({
      ...{ kind: "preview", pullRequest: key, cause: "base", delivery: "7c1e", receivedAt: 1_000 },
    });
    expect(waiting.get(`commit-status:github:org/shop@${push.after}`)).toEqual({
      kind: "commit-status",
      commit: { forge: "github", repoName: "org/shop", commit: push.after },
      repo: "git.example.com/org/shop",
    });
    expect(lines).toMatchObject([{ previews: 2 }]);
  });

  test("requests previews of the pull requests that are rendered with it, in the repositories of what includes it", async () => {
    const includes = (text: string, more: Parameters<typeof aDeployment>[0] = {}) =>
      named("consumer", {
        spec: { suspend: true, source: { ...aSpec().source, url: "https://git.example.com/org/consumer" } },
        annotations: { [annotation.includes]: text, [annotation.webhooks]: "false" },
        ...more,
      });
    const at = async (ref: string, more: Parameters<typeof aDeployment>[0] = {}) => {
      const consumer = includes(`https://git.example.com/org/shop${ref}`, more);
      const { accept, stored, waiting, steps } = useIntakeWith(login, consumer);
      const report = (number: number, name: string, rest: Partial<Report> = {}) =>
        stored.save(
          aReport({
            pullRequest: { forge: "github", repoName: "org/consumer", number },
            repo: consumer.repo,
            previews: [aPreview({ deployment: { namespace: "shop", name } })],
            ...rest,
          }),
        );
      await report(1, "consumer");
      await report(2, "other");
      await report(3, "consumer", { baseBranch: "release" });
      await report(4, "consumer", { state: "merged" });
      await report(5, "consumer", { pullRequest: { forge: "elsewhere", repoName: "org/consumer", number: 5 } });
      const receipt = await accept(push);
      return {
        previews: receipt.previews,
        waiting: [...waiting.values()],
        moved: steps.filter((one) => /^moved/.test(one)),
      };
    };
    const pullRequest = { forge: "github", repoName: "org/consumer", number: 1 };
    const preview = { kind: "preview", pullRequest, cause: "library", delivery: "7c1e", receivedAt: 1_000 };
    for (const ref of ["", " refs/heads/main"]) {
      expect(await at(ref)).toEqual({ previews: 1, waiting: [preview], moved: ["moved git.example.com/org/shop"] });
    }
    expect(await at(" refs/heads/release")).toMatchObject({ previews: 0, waiting: [] });
    const pinned = { ...aSpec().source, url: "https://git.example.com/org/consumer", ref: { tag: "v1" } };
    expect(await at("", { spec: { source: pinned, suspend: true } })).toMatchObject({ previews: 0, waiting: [] });
  });

  test("requests no status for a commit that affects no deployment", async () => {
    const { accept, steps } = useIntakeWith(login, named("a", { spec: { suspend: true } }));
    await accept(push);
    expect(steps).toEqual(["open into git.example.com/org/shop main", "moved git.example.com/org/shop"]);
  });

  test("requests no previews for a tag, and no statuses for a deletion", async () => {
    const { accept, steps } = useIntakeWith(login, named("a", { spec: { source: following({ tag: "v1" }) } }));
    await accept({ ...push, ref: "refs/tags/v1" });
    expect(steps).toContain(`enqueued commit-status:github:org/shop@${push.after}`);
    expect(steps.join()).not.toContain("open into");
    steps.length = 0;
    await accept({ ...push, ref: "refs/tags/v1", change: "deleted", after: undefined });
    expect(steps).toEqual(["moved git.example.com/org/shop", "enqueued reconcile:shop/a"]);
  });

  test("requests nothing from a forge without a login, and only commit statuses if previews are off", async () => {
    const without = useIntakeWith({ previews: true, forges: ["gitlab"] }, named("a"));
    expect(await without.accept(push)).toMatchObject({ matched: 1, previews: undefined, queued: 1 });
    expect(without.steps).toEqual(["moved git.example.com/org/shop", "enqueued reconcile:shop/a"]);
    const off = useIntakeWith({ forges: ["github"] }, named("a"));
    expect(await off.accept(push)).toMatchObject({ matched: 1, previews: undefined, queued: 1 });
    expect(off.steps.at(-1)).toBe(`enqueued commit-status:github:org/shop@${push.after}`);
  });
});

describe("an event of one forge about a repository of another", () => {
  const speaksFor = (forge: string, url: string) => forge === "github" && url.includes("mirror");

  test("counts only for the URLs on its own host", async () => {
    const { accept, lookups } = useIntakeWith({ speaksFor }, named("prod"));
    expect(await accept(push)).toMatchObject({
      matched: 0,
      queued: 0,
      reason: "no deployment follows this repository",
    });
    expect(lookups).toEqual(["mirror.example.com/shop"]);
  });

  test.each([
    ["push", { ...push, forge: "gitlab" }],
    ["pull request", { ...pullRequest, forge: "gitlab" }],
  ])("is ignored: a %s", async (_what, event) => {
    const { accept, steps } = useIntakeWith({ previews: true, forges: ["gitlab"], speaksFor }, named("prod"));
    expect(await accept(event)).toEqual({
      ...{ delivery: event.delivery, matched: 0, queued: 0, ignored: [] },
      reason: "the repository is on a host of another forge, which gitlab is not allowed to report",
    });
    expect(steps).toEqual([]);
  });
});

test("a merge queue's group needs a login, but no previews, because the queue waits for its status", async () => {
  const base = "b".repeat(40);
  const group = { repoName: "org/shop", commit: "c".repeat(40), branch: `gh-readonly-queue/main/pr-7-${base}`, base };
  const event = { kind: "merge-group", delivery: "d1", repoUrls: push.repoUrls, ...group, ended: false } as const;

  const { accept, waiting } = useIntakeWith({ forges: ["github"] }, named("staging"));
  expect(await accept({ ...event, forge: "github" })).toMatchObject({ matched: 0, queued: 1 });
  expect([...waiting.values()]).toEqual([
    { kind: "merge-group", group: { forge: "github", ...group }, ended: false, delivery: "d1", receivedAt: 1_000 },
  ]);

  const without = useIntake(named("staging"));
  expect(await without.accept({ ...event, forge: "github" })).toMatchObject({
    queued: 0,
    reason: expect.stringContaining("has no login for its API"),
  });
  expect(without.waiting.size).toBe(0);
});

describe("checks that are requested again", () => {
  const commit = "2".repeat(40);
  const rerun: RerunEvent = {
    ...{ kind: "rerun", forge: "github", delivery: "5e11", repoUrls: push.repoUrls, repoName: "org/shop", commit },
  };
  const key = { forge: "github", repoName: "org/shop", number: 7 };
  const repo = repoId("https://git.example.com/org/shop.git")!;
  const status = `commit-status:github:org/shop@${commit}`;

  test("cause a preview of each pull request that proposes the commit, and never a deploy", async () => {
    const { accept, waiting, stored } = useIntakeWith({ previews: true, forges: ["github"] }, named("prod"));
    for (const [number, more] of [
      [7, {}],
      [8, { head: "3".repeat(40) }],
      [9, { state: "merged" as const }],
    ] as const) {
      await stored.save(aReport({ pullRequest: { ...key, number }, repo, head: commit, ...more }));
    }
    expect(await accept(rerun)).toMatchObject({ matched: 0, previews: 1, queued: 2 });
    expect([...waiting.keys()]).toEqual(["preview:github:org/shop#7", status]);
  });

  test("show what is known again, also for a commit that no pull request proposes", async () => {
    const { accept, waiting, stored } = useIntakeWith({ forges: ["github"] }, named("prod"));
    expect(await accept(rerun)).toMatchObject({ matched: 0, previews: 0, queued: 1 });
    expect([...waiting.keys()]).toEqual([status]);
    expect(await stored.reruns({ forge: "github", repoName: "org/shop", commit })).toBe(1);
  });

  test("have no effect without a login, without a deployment, and on another forge's repository", async () => {
    const noLogin = useIntakeWith({ previews: true }, named("prod"));
    expect(await noLogin.accept(rerun)).toMatchObject({ queued: 0, reason: expect.stringContaining("no login") });
    const unfollowed = useIntakeWith({ previews: true, forges: ["github"] });
    expect(await unfollowed.accept(rerun)).toMatchObject({
      queued: 0,
      reason: expect.stringContaining("no deployment"),
    });
    const foreign = useIntakeWith({ previews: true, forges: ["github"], speaksFor: () => false }, named("prod"));
    expect(await foreign.accept(rerun)).toMatchObject({ queued: 0, reason: expect.stringContaining("another forge") });
    for (const { waiting } of [noLogin, unfollowed, foreign]) expect(waiting.size).toBe(0);
  });
});
