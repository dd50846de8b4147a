import { expect, test, vi } from "vitest";
import type { Cause, RepoId } from "../../../src/model.ts";
import { aPreviewRequest, aRequest, done, gate, useQueue } from "../../support/jobs.ts";
import { patience } from "../../support/patience.ts";

/** In production, a job counts as aged after two minutes. */
const timing = { agedMs: 300, ageEveryMs: 50 };

test("a push storm does not starve spec changes, drift and intervals", async () => {
  const { queue, work } = await useQueue();
  const ran: string[] = [];
  let pushes = 0;
  let storming = true;
  const push = () => aRequest(`pushed-${pushes++}`, "push", { repo: `git.example.com/org/${pushes % 3}` as RepoId });
  await queue.enqueue(Array.from({ length: 10 }, push));
  const causes: Cause[] = ["change", "sweep", "drift", "interval"];
  await queue.enqueue(causes.map((cause) => aRequest(cause, cause)));

  work(
    async ({ deployment, cause }) => {
      ran.push(cause);
      // Ten pushes are always waiting.
      if (storming && deployment.name.startsWith("pushed")) await queue.enqueue([push()]);
      return done;
    },
    { concurrency: 1, timing },
  );

  await vi.waitFor(() => expect(ran).toEqual(expect.arrayContaining(causes)), patience);
  storming = false;
  expect(ran.indexOf("interval")).toBeGreaterThan(ran.indexOf("drift"));
});

test("aged jobs take turns with pushes, which do not wait for all of them", async () => {
  const { queue, work, redis, prefix } = await useQueue();
  const order: string[] = [];
  const first = gate();
  work(
    async ({ cause }) => {
      if (order.push(cause) === 1) await first.opened;
      return done;
    },
    { concurrency: 1, timing },
  );
  await queue.enqueue([aRequest("first", "push")]);
  await vi.waitFor(() => expect(order).toHaveLength(1), patience);
  await queue.enqueue(Array.from({ length: 20 }, (_, i) => aRequest(`changed-${i}`, "change")));
  const lastPlace = async () =>
    Number((await redis.client().zrange(`${prefix}:reconcile:prioritized`, "-1", "-1", "WITHSCORES"))[1]);
  await vi.waitFor(async () => expect(await lastPlace()).toBeLessThan(100_000 * 2 ** 32), patience);

  await queue.enqueue([aRequest("pushed", "push", { repo: "git.example.com/org/other" as RepoId })]);
  first.open();

  await vi.waitFor(() => expect(order).toHaveLength(22), patience);
  expect(order.lastIndexOf("push")).toBeLessThan(4);
});

test("a push that joins an aged job records its sender and time in it", async () => {
  const { queue, work, redis, prefix } = await useQueue();
  const runs: object[] = [];
  const first = gate();
  work(
    async (request) => {
      if (runs.push(request) === 1) await first.opened;
      return done;
    },
    { concurrency: 1, timing },
  );
  await queue.enqueue([aRequest("first", "push")]);
  await vi.waitFor(() => expect(runs).toHaveLength(1), patience);
  await queue.enqueue([aRequest("shop", "drift")]);
  const place = async () =>
    Number((await redis.client().zrange(`${prefix}:reconcile:prioritized`, "0", "0", "WITHSCORES"))[1]);
  await vi.waitFor(async () => expect(await place()).toBeLessThan(100_000 * 2 ** 32), patience);

  await queue.enqueue([aRequest("shop", "push", { delivery: "d1", sender: "mara", receivedAt: 1_000 })]);
  first.open();

  await vi.waitFor(() => expect(runs).toHaveLength(2), patience);
  expect(runs[1]).toMatchObject({ cause: "push", also: ["drift"], delivery: "d1", sender: "mara", receivedAt: 1_000 });
});

test("pull requests that change all the time do not starve other previews", async () => {
  const { queue, workOn } = await useQueue();
  const ran: string[] = [];
  let changed = 100;
  await queue.enqueue([aPreviewRequest(1, "base"), aPreviewRequest(2, "sweep"), aPreviewRequest(changed++)]);
  let storming = true;
  workOn(
    "preview",
    async (request) => {
      const cause = request.kind === "preview" ? request.cause : request.kind;
      ran.push(cause);
      if (storming && cause === "pull-request")
        await queue.enqueue([aPreviewRequest(changed++), aPreviewRequest(changed++)]);
      return done;
    },
    { concurrency: 1, timing },
  );

  await vi.waitFor(() => expect(ran).toEqual(expect.arrayContaining(["base", "sweep"])), patience);
  storming = false;
});
