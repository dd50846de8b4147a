import { expect, onTestFinished, test, vi } from "vitest";
import { createWebhooksFirst } from "../../../src/app/webhooks-first.ts";
import type { Receipt } from "../../../src/model/receipt.ts";

function setUp() {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const { promise: taken, resolve, reject } = Promise.withResolvers<Receipt>();
  const { accept, turn } = createWebhooksFirst(() => taken);
  const arrive = () => {
    for (let i = 0; i < 8; i++) accept({ kind: "ping", forge: "gitea", delivery: `d${i}` }).catch(() => undefined);
  };
  const started: string[] = [];
  const work = () => void turn().then(() => started.push("work"));
  return { arrive, resolve, reject, work, started };
}

test("work starts at once while deliveries arrive one by one", async () => {
  const { work, started } = setUp();
  work();
  await vi.advanceTimersByTimeAsync(0);
  expect(started).toEqual(["work"]);
});

test.each([
  ["taken", "resolve"],
  ["refused", "reject"],
] as const)("in a rush of deliveries work starts when they have been %s", async (_, end) => {
  const { arrive, work, started, ...ends } = setUp();
  arrive();
  work();
  await vi.advanceTimersByTimeAsync(200);
  expect(started).toEqual([]);
  ends[end]({ delivery: "d", matched: 0, queued: 0, ignored: [] });
  await vi.advanceTimersByTimeAsync(25);
  expect(started).toEqual(["work"]);
});

test("a rush that does not end delays work only for a short time", async () => {
  const { arrive, work, started } = setUp();
  arrive();
  work();
  await vi.advanceTimersByTimeAsync(500);
  expect(started).toEqual(["work"]);
});
