import { expect, test, vi } from "vitest";
import { SupersededError } from "../../../src/errors.ts";
import type { PreviewCause } from "../../../src/model.ts";
import { patience } from "../../support/patience.ts";
import { aPreviewWorld, key, named, slowKluctl } from "../../support/preview.ts";

const minute = 60_000;

/** A pull request that was previewed for its author, and a moment for each further preview. */
async function setUp(options?: Parameters<typeof aPreviewWorld>[1]) {
  const world = aPreviewWorld([named("a")], options);
  await world.run();
  const { run, time, kluctl } = world;
  /** Whether it was compared. */
  const again = async (afterMs = 0, cause: PreviewCause = "cluster") => {
    time.now += afterMs;
    const before = kluctl.runs.length;
    const outcome = await run({}, cause);
    return { outcome, isMade: kluctl.runs.length > before };
  };
  return { ...world, again };
}

test("what is not the author's causes six previews at once and then one every ten minutes; the others wait for theirs", async () => {
  const { again, reports, queue, time } = await setUp();
  for (let n = 0; n < 6; n++)
    expect(await again(1_000, n % 2 === 0 ? "base" : "library")).toMatchObject({ isMade: true });
  const last = time.now;
  queue.requests.length = 0;

  const why = "the pull request was previewed again too often in the last hour";
  expect(await again(minute)).toEqual({ isMade: false, outcome: { kind: "later", afterMs: 9 * minute, why } });
  const { startedAt } = (await reports.find(key))!;
  const until = last + 10 * minute;
  expect(await reports.stale(key)).toEqual({ startedAt, until, reported: true });
  expect(queue.requests).toEqual([{ kind: "report", pullRequest: key }]);
  // Its comment says so only once.
  expect(await again(minute, "base")).toMatchObject({ isMade: false, outcome: { afterMs: 8 * minute } });
  expect(queue.requests).toHaveLength(1);

  expect(await again(8 * minute)).toMatchObject({ isMade: true });
  expect(await reports.stale(key)).toBeUndefined();
  expect(await again()).toMatchObject({ isMade: false, outcome: { afterMs: 10 * minute } });
});

test("that is at most twelve in an hour, and after a quiet one six at once again", async () => {
  const { again, time } = await setUp();
  const made: number[] = [];
  for (let n = 0; n < 3 * 60; n++) if ((await again(minute)).isMade) made.push(time.now);
  for (const at of made)
    expect(made.filter((one) => one >= at && one < at + 60 * minute).length).toBeLessThanOrEqual(12);
  expect(made.length).toBeGreaterThan(18);
  time.now += 60 * minute;
  const more = [];
  for (let n = 0; n < 7; n++) more.push((await again(1_000)).isMade);
  expect(more).toEqual([true, true, true, true, true, true, false]);
});

test("a new head, another base branch and what a user requests never wait, and take nothing from the budget", async () => {
  const { again, forge, sources } = await setUp();
  for (let n = 0; n < 20; n++) expect(await again(0, "pull-request")).toMatchObject({ isMade: true });
  for (let n = 0; n < 6; n++) expect(await again()).toMatchObject({ isMade: true });
  expect(await again()).toMatchObject({ isMade: false });
  expect(await again(0, "pull-request")).toMatchObject({ isMade: true });

  // Whatever the request was about: of several, the queue keeps the last.
  const newer = "2".repeat(40);
  sources.refs["refs/heads/feature"] = newer;
  forge.put(7, { head: newer });
  expect(await again(0, "cluster")).toMatchObject({ isMade: true });
  expect(await again(0, "cluster")).toMatchObject({ isMade: false });
});

test("a preview that the host refuses stays due, with the time that it was to follow at", async () => {
  const { again, reports, forge, time } = await setUp();
  const { startedAt } = (await reports.find(key))!;
  forge.fail("refused");
  expect(await again()).toMatchObject({ outcome: { kind: "failed", retry: "person" } });
  expect(await reports.refused("gitea")).toEqual([key]);
  expect(await reports.stale(key)).toEqual({ startedAt, until: time.now });
  const until = time.now;
  await again(minute);
  expect(await reports.stale(key)).toEqual({ startedAt, until });

  forge.fail();
  expect(await again(minute, "sweep")).toMatchObject({ isMade: true });
  expect(await reports.stale(key)).toBeUndefined();
});

test("a comment is marked although the server died before it could queue that", async () => {
  const { again, reports, queue, time } = await setUp();
  for (let n = 0; n < 6; n++) await again();
  const { startedAt } = (await reports.find(key))!;
  await reports.setStale(key, { startedAt, until: time.now + 10 * minute });
  queue.requests.length = 0;
  expect(await again()).toMatchObject({ isMade: false });
  expect(queue.requests).toEqual([{ kind: "report", pullRequest: key }]);
});

test("once a preview for a new head has started, changes are requested again, and what replaces it does not wait", async () => {
  let slowMs: number | undefined;
  const { again, reports, run, forge, sources } = await setUp({ slowForMs: () => slowMs });
  for (let n = 0; n < 7; n++) await again();
  expect(await reports.stale(key)).toBeDefined();
  sources.refs["refs/heads/feature"] = "2".repeat(40);
  forge.put(7, { head: "2".repeat(40) });
  slowMs = 6_000;
  expect(await run()).toMatchObject({ kind: "later", afterMs: 5_000 });
  expect(await reports.stale(key)).toBeUndefined();
  slowMs = undefined;
  expect(await again(0, "cluster")).toMatchObject({ isMade: true });
});

test("pull requests that nothing was rendered of cost nothing", async () => {
  const { again, reports } = await setUp({ pullRequest: { fork: true } });
  for (let n = 0; n < 10; n++) expect(await again(0, "sweep")).toMatchObject({ outcome: { kind: "done" } });
  expect(await reports.remakes(key)).toEqual([]);
});

test("a clock that was ahead does not make a pull request wait", async () => {
  const { again, time } = await setUp();
  time.now += 24 * 60 * minute;
  for (let n = 0; n < 7; n++) await again();
  time.now -= 24 * 60 * minute;
  expect(await again()).toMatchObject({ isMade: true });
});

test("the times go on with the next head", async () => {
  const { again, forge, sources } = await setUp();
  for (let n = 0; n < 6; n++) await again();
  sources.refs["refs/heads/feature"] = "2".repeat(40);
  forge.put(7, { head: "2".repeat(40) });
  expect(await again(0, "pull-request")).toMatchObject({ isMade: true });
  expect(await again()).toMatchObject({ isMade: false });
});

/** A pull request with a result, and previews of it that are aborted before or after the comment says that they are in progress. */
async function setUpAborted() {
  const kluctl = slowKluctl();
  const world = aPreviewWorld([named("a")], { kluctl });
  const finish = async () => {
    await vi.waitFor(() => expect(kluctl.runs.length).toBeGreaterThan(0), patience);
    kluctl.runs.at(-1)!.finish();
  };
  await Promise.all([world.run(), finish()]);
  const abort = async ({ isShown = true, cause = "cluster" as PreviewCause } = {}) => {
    const stopping = new AbortController();
    const before = kluctl.runs.length;
    const running = world.run({ signal: stopping.signal }, cause);
    const started = vi.waitFor(() => expect(kluctl.runs.length).toBeGreaterThan(before), patience);
    if ((await Promise.race([running, started.then(() => undefined)])) !== undefined) return running;
    if (isShown) {
      await world.twoSecondsPass();
      await vi.waitFor(async () => expect((await world.reports.find(key))?.state).toBe("working"), patience);
    }
    stopping.abort(new SupersededError("a newer request is waiting"));
    return running;
  };
  return { ...world, abort, finish };
}

test.each([
  ["before its comment says so", false],
  ["after its comment says so", true],
])(
  "a preview that is aborted %s counts, and the comment shows the last result when the next one has to wait",
  async (_, isShown) => {
    const { abort, reports, queue, time } = await setUpAborted();
    const result = (await reports.find(key))!;
    for (let n = 0; n < 6; n++) expect(await abort({ isShown })).toEqual({ kind: "skipped", why: "superseded" });
    expect(await reports.remakes(key)).toHaveLength(6);
    queue.requests.length = 0;

    expect(await abort({ isShown })).toMatchObject({ kind: "later", afterMs: 10 * minute });
    const { startedAt, previews } = result;
    expect(await reports.find(key)).toMatchObject({ state: "done", startedAt, previews });
    expect(await reports.stale(key)).toEqual({ startedAt, until: time.now + 10 * minute, reported: true });
    expect(queue.requests).toEqual([{ kind: "report", pullRequest: key }]);
    expect(await abort({ isShown })).toMatchObject({ kind: "later" });
    expect(queue.requests).toHaveLength(1);
  },
);

test("a preview of a head that the comment does not show yet is never put off, however often it is aborted", async () => {
  const { abort, forge, sources, reports } = await setUpAborted();
  sources.refs["refs/heads/feature"] = "2".repeat(40);
  forge.put(7, { head: "2".repeat(40) });
  await abort({ cause: "pull-request" });
  for (let n = 0; n < 8; n++) expect(await abort()).toEqual({ kind: "skipped", why: "superseded" });
  expect(await reports.remakes(key)).toHaveLength(8);
});
