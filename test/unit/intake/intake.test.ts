import { pino } from "pino";
import { expect, test } from "vitest";
import { QueueUnavailableError } from "../../../src/errors.ts";
import { createIntake } from "../../../src/intake.ts";
import type { Deployment, GitEvent, PushEvent, RepoId, Request } from "../../../src/model.ts";
import { repoId } from "../../../src/repo-url.ts";
import { aDeployment } from "../../support/deployments.ts";

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

/** An intake whose queue keeps at most one waiting request per deployment, like the real one. */
function useIntake(...deployments: Deployment[]) {
  const waiting = new Map<string, Request>();
  const steps: string[] = [];
  const lookups: RepoId[] = [];
  const lines: Record<string, unknown>[] = [];
  let down = false;
  const log = pino({ base: null }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const accept = createIntake({
    tracking(repo) {
      lookups.push(repo);
      return deployments.filter((deployment) => deployment.repo === repo);
    },
    queue: {
      markMoved(repo) {
        steps.push(`moved ${repo}`);
        return down ? Promise.reject(new QueueUnavailableError("Redis is down")) : Promise.resolve();
      },
      enqueue(requests) {
        const fresh = requests.filter(({ deployment }) => !waiting.has(deployment.name));
        for (const request of requests) waiting.set(request.deployment.name, request);
        steps.push(`enqueued ${requests.map(({ deployment }) => deployment.name).join()}`);
        return Promise.resolve({ queued: fresh.length });
      },
    },
    log,
    clock: { now: () => 1_000 },
  });
  return { accept, waiting, steps, lookups, lines, breakQueue: () => void (down = true) };
}

const named = (name: string, overrides: Parameters<typeof aDeployment>[0] = {}) =>
  aDeployment({ key: { namespace: "shop", name }, ...overrides });

test("a push is marked, then queued in one go, and the receipt says what came of it", async () => {
  const { accept, steps, waiting, lines } = useIntake(
    named("staging"),
    named("prod"),
    named("legacy", { spec: { suspend: true } }),
  );
  expect(await accept(push)).toEqual({
    delivery: "7c1e",
    matched: 2,
    queued: 2,
    ignored: [{ deployment: "shop/legacy", reason: "suspended" }],
    reason: undefined,
  });
  expect(steps).toEqual(["moved git.example.com/org/shop", "enqueued staging,prod"]);
  expect(waiting.get("prod")).toEqual({
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

test("every spelling is looked up once, and deployments under different names of one repository are all found", async () => {
  const mirror = repoId("https://mirror.example.com/shop")!;
  const source = { url: "https://mirror.example.com/shop", ref: { branch: "main" }, path: "" };
  const { accept, lookups, steps } = useIntake(named("a"), named("b", { spec: { source }, repo: mirror }));
  expect(await accept(push)).toMatchObject({ matched: 2 });
  expect(lookups).toEqual(["git.example.com/org/shop", mirror]);
  expect(steps).toEqual(["moved git.example.com/org/shop", `moved ${mirror}`, "enqueued a,b"]);
});

test("a push that nobody follows touches nothing", async () => {
  const { accept, steps } = useIntake();
  expect(await accept(push)).toMatchObject({ matched: 0, queued: 0, reason: "no deployment follows this repository" });
  expect(await accept({ ...push, repoUrls: ["file:///etc", "::", ""] })).toMatchObject({ matched: 0 });
  expect(steps).toEqual([]);
});

test("a push that every deployment ignores still makes older answers of the repository void", async () => {
  const { accept, steps } = useIntake(named("a"));
  expect(await accept({ ...push, ref: "refs/heads/x" })).toMatchObject({
    matched: 0,
    ignored: [{ deployment: "shop/a" }],
  });
  expect(steps).toEqual(["moved git.example.com/org/shop"]);
});

test("the same delivery again makes no second job while the first waits, and works once it is done", async () => {
  const { accept, waiting } = useIntake(named("a"));
  expect(await accept(push)).toMatchObject({ matched: 1, queued: 1 });
  expect(await accept(push)).toMatchObject({ matched: 1, queued: 0 });
  waiting.clear();
  expect(await accept(push)).toMatchObject({ matched: 1, queued: 1 });
});

test("a queue that cannot take it is the sender's to know", async () => {
  const { accept, breakQueue, lines } = useIntake(named("a"));
  breakQueue();
  await expect(accept(push)).rejects.toThrow(QueueUnavailableError);
  expect(lines).toEqual([]);
});

test.each([
  [{ kind: "ping" }, "the webhook is set up", "ping accepted"],
  [{ kind: "irrelevant", reason: "issues are of no use" }, "issues are of no use", "delivery ignored"],
  [
    {
      ...{ kind: "pull-request", repoUrls: push.repoUrls, repoName: "org/shop", number: 7, action: "opened" },
      ...{ baseBranch: "main", head: "1".repeat(40), fork: false },
    },
    "pull requests are not previewed yet",
    "pull-request accepted",
  ],
] as const)("%o queues nothing and says why", async (event, reason, msg) => {
  const { accept, steps, lines } = useIntake(named("a"));
  const whole = { forge: "github", delivery: "d", ...event } as GitEvent;
  expect(await accept(whole)).toEqual({ delivery: "d", matched: 0, queued: 0, ignored: [], reason });
  expect(steps).toEqual([]);
  expect(lines).toMatchObject([{ msg, reason }]);
});

test("a thousand ignored deployments are all in the receipt, and a few of them in the log", async () => {
  const many = Array.from({ length: 1_000 }, (_, i) => named(`d${i}`, { spec: { suspend: true } }));
  const { accept, lines } = useIntake(...many);
  expect((await accept(push)).ignored).toHaveLength(1_000);
  expect(Object.keys(lines[0]?.["ignored"] ?? {})).toHaveLength(20);
  expect(lines[0]).toMatchObject({ ignoredMore: 980 });
});
