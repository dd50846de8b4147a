import { expect, test, vi } from "vitest";
import type { RepoId, ReconcileRequest } from "../../../src/model.ts";
import { aRequest, done, failedSoon, gate, useQueue } from "../../support/jobs.ts";
import { patience } from "../../support/patience.ts";

test("pushes that arrive while a deployment is in progress collapse into one more run, for the last of them", async () => {
  const { queue, work } = await useQueue();
  const runs: ReconcileRequest[] = [];
  const firstRun = gate();
  work(async (request) => {
    runs.push(request);
    await firstRun.opened;
    return done;
  });

  expect(await queue.enqueue([aRequest()])).toEqual({ queued: 1 });
  await vi.waitFor(() => expect(runs).toHaveLength(1), patience);
  for (const delivery of ["a", "b", "c"]) await queue.enqueue([aRequest("shop", "push", { delivery })]);
  firstRun.open();

  await vi.waitFor(() => expect(runs).toHaveLength(2), patience);
  await vi.waitFor(async () => expect(await queue.depth()).toEqual({ waiting: 0, active: 0, delayed: 0 }), patience);
  expect(runs.map(({ delivery }) => delivery)).toEqual([undefined, "c"]);
});

test("while a job waits, more requests for its deployment add nothing", async () => {
  const { queue } = await useQueue();

  const queued = [];
  for (let i = 0; i < 3; i++) queued.push((await queue.enqueue([aRequest()])).queued);

  expect(queued).toEqual([1, 0, 0]);
  expect(await queue.depth()).toMatchObject({ waiting: 1 });
});

test("an interval that comes due while its deployment is in progress does not cause a second run", async () => {
  const { queue, work } = await useQueue();
  const runs: ReconcileRequest[] = [];
  const firstRun = gate();
  work(async (request) => {
    runs.push(request);
    await firstRun.opened;
    return done;
  });
  await queue.enqueue([aRequest()]);
  await vi.waitFor(() => expect(runs).toHaveLength(1), patience);

  expect(await queue.enqueue([aRequest("shop", "interval")])).toEqual({ queued: 0 });
  firstRun.open();

  await vi.waitFor(async () => expect(await queue.depth()).toEqual({ waiting: 0, active: 0, delayed: 0 }), patience);
  expect(runs).toHaveLength(1);
});

test("a push does not wait for the retry of a failed run", async () => {
  const { queue, work } = await useQueue();
  const attempts: number[] = [];
  work(async (_, { attempt }) => {
    attempts.push(attempt);
    return attempts.length < 4 ? failedSoon : done;
  });
  await queue.enqueue([aRequest()]);
  await vi.waitFor(() => expect(attempts).toEqual([1, 2, 3]), patience); // the next try is 4 s away
  await vi.waitFor(async () => expect(await queue.depth()).toMatchObject({ delayed: 1 }), patience);

  await queue.enqueue([aRequest()]);

  await vi.waitFor(() => expect(attempts).toEqual([1, 2, 3, 1]), patience);
});

test("a push that arrived during a failed run runs at once, instead of the retry", async () => {
  const { queue, work } = await useQueue();
  const runs: ReconcileRequest[] = [];
  const firstRun = gate();
  work(async (request) => {
    runs.push(request);
    await firstRun.opened;
    return runs.length === 1 ? failedSoon : done;
  });
  await queue.enqueue([aRequest("shop", "interval")]);
  await vi.waitFor(() => expect(runs).toHaveLength(1), patience);
  expect(await queue.enqueue([aRequest("shop", "push")])).toEqual({ queued: 1 });

  firstRun.open();

  await vi.waitFor(() => expect(runs.map(({ cause }) => cause)).toEqual(["interval", "push"]), patience);
  await vi.waitFor(async () => expect(await queue.depth()).toEqual({ waiting: 0, active: 0, delayed: 0 }), patience);
});

test("a push takes over the interval's waiting job", async () => {
  const { queue, work } = await useQueue();
  await queue.enqueue(["a", "b", "c"].map((name) => aRequest(name, "interval")));

  await queue.enqueue([aRequest("c", "push", { delivery: "d1", receivedAt: 1_000 })]);
  await queue.enqueue([aRequest("c", "change")]); // less urgent, so it replaces nothing

  const runs: ReconcileRequest[] = [];
  work(
    async (request) => {
      runs.push(request);
      return done;
    },
    { concurrency: 1 },
  );
  await vi.waitFor(() => expect(runs).toHaveLength(3), patience);
  expect(runs.map(({ deployment }) => deployment.name)).toEqual(["c", "a", "b"]);
  expect(runs[0]).toMatchObject({ cause: "push", delivery: "d1", receivedAt: 1_000 });
});

test("a push to one repository does not wait behind two hundred deployments of another", async () => {
  const { queue, work } = await useQueue();
  const monorepo = "git.example.com/org/mono" as RepoId;
  const names = Array.from({ length: 200 }, (_, i) => `mono-${i}`);
  await queue.enqueue(names.map((name) => aRequest(name, "push", { repo: monorepo })));
  await queue.enqueue([aRequest("single", "push")]);

  const order: string[] = [];
  work(async ({ deployment }) => {
    order.push(deployment.name);
    return done;
  });

  await vi.waitFor(() => expect(order).toHaveLength(201), patience);
  expect(order.indexOf("single")).toBeLessThan(4);
});

test("urgent requests run before less urgent ones, in whatever order they were queued", async () => {
  const { queue, work } = await useQueue();
  for (const cause of ["interval", "sweep", "push"] as const) await queue.enqueue([aRequest(cause, cause)]);

  const order: string[] = [];
  work(
    async ({ cause }) => {
      order.push(cause);
      return done;
    },
    { concurrency: 1 },
  );

  await vi.waitFor(() => expect(order).toEqual(["push", "sweep", "interval"]), patience);
});

test("a thousand requests are queued at once, and only once", async () => {
  const { queue } = await useQueue();
  const requests = Array.from({ length: 1_000 }, (_, i) => aRequest(`d${i}`));

  // On a busy machine this may exceed the sender's timeout; a sender then sends again.
  const send = () => vi.waitFor(() => queue.enqueue(requests), patience);

  await send();
  expect(await queue.depth()).toMatchObject({ waiting: 1_000 });
  expect(await send()).toEqual({ queued: 0 });
  expect(await queue.depth()).toMatchObject({ waiting: 1_000 });
});

test("Redis stores names only, even if a job fails", async () => {
  const { queue, work, redis } = await useQueue();
  let tries = 0;
  work(async () => {
    tries++;
    return { kind: "failed", retry: "person", message: "canary-5f0e" };
  });
  await queue.enqueue([aRequest()]);
  await vi.waitFor(() => expect(tries).toBe(1), patience);
  await vi.waitFor(async () => expect(await queue.depth()).toEqual({ waiting: 0, active: 0, delayed: 0 }), patience);

  const client = redis.client();
  const hashes = await Promise.all(
    (await client.keys("*")).map(async (key) => ((await client.type(key)) === "hash" ? client.hgetall(key) : {})),
  );
  expect(JSON.stringify(hashes)).toContain("failed permanently");
  expect(JSON.stringify(hashes)).not.toContain("canary-5f0e");
});

test("each recorded move of a repository has a new id, and a repository that never moved has none", async () => {
  const { queue } = await useQueue();
  const repo = "git.example.com/org/shop" as RepoId;

  const names = [await queue.lastMove(repo)];
  for (let i = 0; i < 2; i++) {
    await queue.markMoved(repo);
    names.push(await queue.lastMove(repo));
  }
  for (const requests of [[aRequest()], [aRequest()], []]) {
    await queue.enqueue(requests, [repo]);
    names.push(await queue.lastMove(repo));
  }

  expect(names[0]).toBeUndefined();
  expect(new Set(names).size).toBe(6);
});

test("a claim can be taken once until it expires", async () => {
  const { queue } = await useQueue();

  expect([await queue.claim("shop", 1_500), await queue.claim("shop", 1_500)]).toEqual([true, false]);
  await vi.waitFor(async () => expect(await queue.claim("shop", 200)).toBe(true), patience);
});

test("a permanently failed job is retried once on request, and no longer counts as failed", async () => {
  const { queue, work } = await useQueue();
  let mended = false;
  const runs: ReconcileRequest[] = [];
  work(async (request) => {
    runs.push(request);
    return mended ? done : { kind: "failed", retry: "person", message: "a template is wrong" };
  });
  await queue.enqueue([aRequest("shop", "push", { delivery: "d1" })]);
  const failed = () => queue.jobs().then((jobs) => jobs.filter(({ state }) => state === "failed"));
  await vi.waitFor(async () => expect(await failed()).toMatchObject([{ subject: "reconcile:apps/shop" }]), patience);

  expect(await queue.retryFailed("reconcile", "reconcile:apps/other")).toBeUndefined();
  expect(await queue.retryFailed("manual", "reconcile:apps/shop")).toBeUndefined();
  expect(await queue.retryFailed("no-lane", "reconcile:apps/shop")).toBeUndefined();
  mended = true;
  const known = await queue.lastMove("git.example.com/org/shop" as RepoId);
  expect(await queue.retryFailed("reconcile", "reconcile:apps/shop")).toEqual({ queued: true });
  expect(await queue.lastMove("git.example.com/org/shop" as RepoId)).not.toBe(known);
  await vi.waitFor(() => expect(runs).toHaveLength(2), patience);
  expect(runs[1]).toMatchObject({ cause: "push", delivery: "d1" });
  await vi.waitFor(async () => expect(await failed()).toEqual([]), patience);
  expect(await queue.retryFailed("reconcile", "reconcile:apps/shop")).toBeUndefined();
});

test("a failed manual request is retried with the cause `change`, because no user waits for its answer any more", async () => {
  const { queue, work, workOn } = await useQueue();
  workOn("manual", () => Promise.resolve({ kind: "failed", retry: "person", message: "a template is wrong" }));
  await queue.enqueue([aRequest("shop", "manual")]);
  const failed = () => queue.jobs().then((jobs) => jobs.filter(({ state }) => state === "failed"));
  await vi.waitFor(async () => expect(await failed()).toMatchObject([{ lane: "manual" }]), patience);

  const runs: ReconcileRequest[] = [];
  work((request) => {
    runs.push(request);
    return Promise.resolve(done);
  });
  expect(await queue.retryFailed("manual", "reconcile:apps/shop")).toEqual({ queued: true });
  await vi.waitFor(() => expect(runs).toMatchObject([{ cause: "change" }]), patience);
  expect(await failed()).toEqual([]);
});

test("a deployment's job is found while it waits, runs, is followed by another one, or is delayed", async () => {
  const { queue, work } = await useQueue();
  const request = aRequest();
  expect(await queue.find(request)).toBeUndefined();
  await queue.enqueue([request]);
  expect(await queue.find(request)).toEqual({ state: "waiting", at: expect.any(Number) as number });
  expect(await queue.find(aRequest("other"))).toBeUndefined();
  expect(await queue.waiting("reconcile", 0)).toMatchObject([{ request, state: "waiting" }]);
  expect(await queue.waiting("reconcile", 60_000)).toEqual([]);
  expect(await queue.waiting("preview", 0)).toEqual([]);

  const [started, end] = [gate(), gate()];
  const outcomes = [done, failedSoon];
  work(async () => {
    started.open();
    await end.opened;
    return outcomes.shift() ?? { kind: "later", afterMs: 600_000, why: "the git host is slow" };
  });
  await started.opened;
  expect(await queue.find(request)).toEqual({ state: "active" });
  await queue.enqueue([aRequest("shop", "push", { delivery: "second" })]);
  expect(await queue.find(request)).toEqual({ state: "waiting" });
  end.open();

  await vi.waitFor(
    async () =>
      expect(await queue.find(request)).toMatchObject({ state: "delayed", nextAt: expect.any(Number) as number }),
    patience,
  );
});
