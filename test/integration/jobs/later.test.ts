import { pino } from "pino";
import { expect, test, vi } from "vitest";
import type { Outcome, Request } from "../../../src/model.ts";
import { aPullRequestKey, aRequest, done, useQueue } from "../../support/jobs.ts";
import { patience } from "../../support/patience.ts";

const nothing = { waiting: 0, active: 0, delayed: 0 };
const report: Request = { kind: "report", pullRequest: aPullRequestKey() };
const later = (afterMs: number): Outcome => ({ kind: "later", afterMs, why: "the forge's rate limit is used up" });

test("work that a forge's rate limit delays is deferred until it succeeds, is logged once and uses up no attempts", async () => {
  const lines: { msg: string; why: string }[] = [];
  const log = pino({}, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const { queue, workOn } = await useQueue();
  const attempts: number[] = [];
  workOn(
    "report",
    async (_, { attempt }) => {
      attempts.push(attempt);
      return attempts.length < 8 ? later(20) : done;
    },
    { log },
  );
  await queue.enqueue([report]);

  await vi.waitFor(() => expect(attempts).toHaveLength(8), patience);
  expect(new Set(attempts)).toEqual(new Set([1]));
  await vi.waitFor(async () => expect(await queue.depth()).toEqual(nothing), patience);
  expect(lines.filter(({ msg }) => msg === "job delayed")).toEqual([
    expect.objectContaining({ why: "the forge's rate limit is used up", subject: "report:gitea:org/shop#7" }),
  ]);
});

test("each request that arrives while its subject is deferred causes one run, which is deferred in turn", async () => {
  const { queue, workOn } = await useQueue();
  let runs = 0;
  workOn("report", async () => {
    runs++;
    return later(60_000);
  });
  await queue.enqueue([report]);
  for (const expected of [1, 2, 3]) {
    await vi.waitFor(() => expect(runs).toBe(expected), patience);
    await vi.waitFor(async () => expect(await queue.depth("report")).toEqual({ ...nothing, delayed: 1 }), patience);
    expect(await queue.jobs()).toMatchObject([{ state: "delayed", why: "the forge's rate limit is used up" }]);
    if (expected < 3) await queue.enqueue([report]);
  }
});

test("a request that arrives during the run that is deferred does not wait with it", async () => {
  const { queue, workOn } = await useQueue();
  let runs = 0;
  workOn("report", async () => {
    runs++;
    if (runs === 1) await queue.enqueue([report]);
    return runs === 1 ? later(3_600_000) : done;
  });
  await queue.enqueue([report]);

  await vi.waitFor(() => expect(runs).toBe(2), patience);
  await vi.waitFor(async () => expect(await queue.depth()).toEqual(nothing), patience);
});

test("a forge that asks for a pause of a year gets the next request within the hour", async () => {
  const { queue, workOn, redis, prefix } = await useQueue();
  workOn("report", async () => later(365 * 24 * 3_600_000));
  await queue.enqueue([report]);
  await vi.waitFor(async () => expect(await queue.depth("report")).toMatchObject({ delayed: 1 }), patience);

  const [, score = "0"] = await redis.client().zrange(`${prefix}:report:delayed`, "0", "0", "WITHSCORES");
  // BullMQ stores the time with 12 additional bits for the order.
  expect(Number(score) / 4_096 - Date.now()).toBeLessThanOrEqual(3_600_000);
});

test("what was carried out and is checked again is an interval check, which a newer request replaces", async () => {
  const { queue, work } = await useQueue();
  const runs: string[] = [];
  work(async (request, { attempt }) => {
    runs.push([request.cause, ...(request.also ?? []), attempt].join(" "));
    if (runs.length === 1) await queue.enqueue([aRequest("shop", "include")]);
    return runs.length < 4 ? { kind: "recheck", afterMs: runs.length === 3 ? 60_000 : 50 } : done;
  });
  await queue.enqueue([aRequest("shop", "push")]);

  // The request that arrived meanwhile runs at once; then the check comes round, alone.
  await vi.waitFor(() => expect(runs).toEqual(["push 1", "include 1", "interval 1"]), patience);
  await vi.waitFor(async () => expect(await queue.depth()).toEqual({ ...nothing, delayed: 1 }), patience);
  expect(await queue.jobs()).toMatchObject([{ state: "delayed", why: "waiting until it is healthy" }]);

  await queue.enqueue([aRequest("shop", "interval")]);
  expect(await queue.depth()).toEqual({ ...nothing, delayed: 1 });
  await queue.enqueue([aRequest("shop", "push")]);
  await vi.waitFor(() => expect(runs).toHaveLength(4), patience);
  expect(runs[3]).toMatch(/^push /);
  await vi.waitFor(async () => expect(await queue.depth()).toEqual(nothing), patience);
});
