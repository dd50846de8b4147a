import { describe, expect, test, vi } from "vitest";
import { QueueUnavailableError, SupersededError } from "../../../src/errors.ts";
import { createLimit } from "../../../src/kit/limit.ts";
import type { Report } from "../../../src/model/report.ts";
import { aPreview, aReport } from "../../support/fake-reports.ts";
import { aPreviewWorld, base, head, key, named, slowKluctl } from "../../support/preview.ts";
import { patience } from "../../support/patience.ts";

test("while another job fetches from a slow remote, its pull requests wait without a slot", async () => {
  const { run, told, kluctl } = aPreviewWorld([named("a")], { slowForMs: () => 6_000 });
  expect(await run()).toEqual({ kind: "later", afterMs: 5_000, why: expect.stringContaining("responds slowly") });
  expect([told, kluctl.runs]).toEqual([[], []]);
});

describe("a preview that takes long", () => {
  test("is reported after two seconds with its results so far, and again at the end", async () => {
    const kluctl = slowKluctl();
    const { run, told, queue, twoSecondsPass } = aPreviewWorld([named("a"), named("b")], { kluctl });
    const running = run();
    await vi.waitFor(() => expect(kluctl.runs).toHaveLength(2), patience);
    kluctl.runs[0]?.finish();
    await vi.waitFor(() => expect(kluctl.running()).toBe(1), patience);
    expect(told).toEqual([]);
    await twoSecondsPass();
    await vi.waitFor(() => expect(queue.requests).toHaveLength(1), patience);
    expect(told).toMatchObject([
      { state: "working", base, previews: [{ state: "done" }, { state: "working", cluster: "eu-1" }] },
    ]);
    expect(told[0]?.finishedAt).toBeUndefined();
    kluctl.runs[1]?.finish();
    expect(await running).toEqual({ kind: "done" });
    expect(told.slice(1)).toMatchObject([{ state: "done", previews: [{ state: "done" }, { state: "done" }] }]);
    expect(queue.requests).toHaveLength(2);
  });

  test("in git is reported before the affected deployments are known, and again when they are", async () => {
    const kluctl = slowKluctl();
    const { run, told, sources, twoSecondsPass } = aPreviewWorld([named("a")], { kluctl });
    const merging = Promise.withResolvers<void>();
    const { merge } = sources;
    sources.merge = (...all) => merging.promise.then(() => merge(...all));
    const running = run();
    await twoSecondsPass();
    await vi.waitFor(() => expect(told).toMatchObject([{ state: "working", previews: [] }]), patience);
    merging.resolve();
    await vi.waitFor(
      () => expect(told[1]).toMatchObject({ state: "working", base, previews: [{ state: "working" }] }),
      patience,
    );
    kluctl.runs[0]?.finish();
    await running;
    expect(told).toHaveLength(3);
  });

  test("keeps what was found last until it is complete, also if it is replaced by a newer one", async () => {
    const kluctl = slowKluctl();
    const found = { previews: [aPreview({ target: "found before" })], startedAt: 1_000, finishedAt: 2_000 };
    const previous = aReport({ ...found, head: "0".repeat(40), base });
    const { run, told, reports, twoSecondsPass } = aPreviewWorld([named("a")], { kluctl, previous });
    const controller = new AbortController();
    const first = run({ signal: controller.signal });
    await vi.waitFor(() => expect(kluctl.runs).toHaveLength(1), patience);
    await twoSecondsPass();
    const latest = { ...found, head: "0".repeat(40), base, baseBranch: "main", why: "pull-request" };
    await vi.waitFor(() => expect(told).toMatchObject([{ state: "working", head, latest }]), patience);
    controller.abort(new SupersededError("newer"));
    await first;

    const second = run({}, "base");
    await vi.waitFor(() => expect(kluctl.runs).toHaveLength(2), patience);
    await twoSecondsPass();
    await vi.waitFor(() => expect(told).toHaveLength(2), patience);
    expect(told[1]).toMatchObject({ state: "working", latest: { ...latest, why: "base" } });
    kluctl.runs[1]?.finish();
    await second;
    expect(await reports.find(key)).toMatchObject({ state: "done", head, latest: undefined });
  });

  test.each<[string, Partial<Report>]>([
    ["there was nothing to compare", { previews: [] }],
    ["the last merge failed", { obstacle: { kind: "conflict", paths: ["a"] } }],
    ["it was closed", { state: "closed" }],
  ])("has nothing to keep if %s", async (_, before) => {
    const kluctl = slowKluctl();
    const { run, told, twoSecondsPass } = aPreviewWorld([named("a")], { kluctl, previous: aReport(before) });
    const running = run();
    await vi.waitFor(() => expect(kluctl.runs).toHaveLength(1), patience);
    await twoSecondsPass();
    await vi.waitFor(() => expect(told).toHaveLength(1), patience);
    expect(told[0]).toMatchObject({ state: "working", latest: undefined });
    kluctl.runs[0]?.finish();
    await running;
  });

  test("continues if its early report cannot be saved", async () => {
    const kluctl = slowKluctl();
    const { run, reports, told, twoSecondsPass } = aPreviewWorld([named("a")], { kluctl });
    const { save } = reports;
    reports.save = () => Promise.reject(new QueueUnavailableError("Redis is away"));
    const running = run();
    await vi.waitFor(() => expect(kluctl.runs).toHaveLength(1), patience);
    await twoSecondsPass();
    await vi.waitFor(() => expect(told).toHaveLength(1), patience);
    reports.save = save;
    kluctl.runs[0]?.finish();
    expect(await running).toEqual({ kind: "done" });
  });

  test("of twenty deployments compares them in parallel within the limit, on one merge, and is reported once", async () => {
    const kluctl = slowKluctl();
    const limit = createLimit(4);
    const twenty = Array.from({ length: 20 }, (_, i) => named(`d${i + 10}`));
    const { run, told, sources } = aPreviewWorld(twenty, {
      kluctl,
      limit: (work, options) => limit.run(work, options),
    });
    const running = run();
    for (let finished = 0; finished < 20; finished += 4) {
      await vi.waitFor(() => expect(kluctl.runs).toHaveLength(finished + 4), patience);
      expect(kluctl.running()).toBe(4);
      for (const { finish } of kluctl.runs.slice(finished)) finish();
      await vi.waitFor(() => expect(kluctl.runs.length > finished + 4 || finished === 16).toBe(true), patience);
    }
    await running;
    expect(sources.merges).toHaveLength(1);
    expect(told).toHaveLength(1);
    expect(told[0]?.previews.map(({ deployment, state }) => `${deployment.name} ${state}`)).toEqual(
      twenty.map(({ key: { name } }) => `${name} done`),
    );
  });
});

describe("an aborted preview", () => {
  async function breakOff(reason: Error) {
    const kluctl = slowKluctl();
    const limit = createLimit(1);
    const world = aPreviewWorld([named("a"), named("b")], {
      kluctl,
      limit: (work, options) => limit.run(work, options),
    });
    const controller = new AbortController();
    const running = world.run({ signal: controller.signal, lastAttempt: true });
    await vi.waitFor(() => expect(kluctl.runs).toHaveLength(1), patience);
    controller.abort(reason);
    await world.twoSecondsPass();
    const outcome = await running;
    return { ...world, outcome, kluctl };
  }

  test("reports nothing if a newer request replaced it, and leaves no process and no merge behind", async () => {
    const { outcome, told, queue, kluctl, sources } = await breakOff(new SupersededError("newer"));
    expect(outcome).toEqual({ kind: "skipped", why: "superseded" });
    expect([told, queue.requests]).toEqual([[], []]);
    expect(kluctl.running()).toBe(0);
    expect(kluctl.runs).toHaveLength(1);
    expect(sources.released).toHaveLength(1);
  });

  test("is returned to the queue if the server stops", async () => {
    const { outcome, told } = await breakOff(new Error("the server is stopping"));
    expect(outcome).toMatchObject({ kind: "failed", retry: "soon" });
    expect(told).toEqual([]);
  });
});
