import { expect, test } from "vitest";
import { createWebhookSource } from "../../../src/forge/create-webhook-source.ts";
import { unsweptEvents } from "../../../src/forge/github/webhook.ts";
import { readHeaders } from "../../../src/forge/webhook-source.ts";
import { chooseRedeliveries } from "../../../src/intake/redeliveries.ts";
import type { DeliveryAttempt } from "../../../src/model.ts";

const minute = 60_000;
const now = 10 * 24 * 60 * minute;
let lastId = 0;

function attempt(delivery: string, own: Partial<DeliveryAttempt> = {}): DeliveryAttempt {
  const id = ++lastId;
  return { id, delivery, at: now - minute, ok: false, isPush: false, isUnswept: true, isRepeat: false, ...own };
}

/** The newest one shows that the webhook works again. */
const works = attempt("ping", { at: now, ok: true, isUnswept: false });

function chosen(attempts: readonly DeliveryAttempt[], accepted: readonly string[] = []): string[] {
  return chooseRedeliveries(attempts, new Set(accepted), now).map(({ delivery }) => delivery);
}

test("what was never delivered is requested once, the oldest first; what a sweep finds is left to it", () => {
  const attempts = [
    works,
    attempt("new", { at: now - 2 * minute }),
    attempt("old", { at: now - 9 * minute }),
    attempt("push", { isPush: true, isUnswept: false }),
  ];
  expect(chosen(attempts)).toEqual(["old", "new"]);
});

test("one success is enough, whichever attempt it was, and so is our own record of it", () => {
  const attempts = [works, attempt("a", { isRepeat: true }), attempt("a", { ok: true }), attempt("b"), attempt("c")];
  expect(chosen(attempts, ["b"])).toEqual(["c"]);
});

test("of several failed attempts the newest one is repeated, after growing pauses, and not for ever", () => {
  const failed = (repeats: number, agoMs: number) => [
    works,
    ...Array.from({ length: repeats }, () => attempt("a", { at: now - agoMs, isRepeat: true })),
    attempt("a", { at: now - 2 * 24 * 60 * minute }),
  ];
  expect(chosen(failed(1, 10 * minute - 1))).toEqual([]);
  expect(chooseRedeliveries(failed(1, 10 * minute), new Set(), now)).toMatchObject([{ isRepeat: true }]);
  expect(chosen(failed(2, 39 * minute))).toEqual([]);
  expect(chosen(failed(2, 40 * minute))).toEqual(["a"]);
  expect(chosen(failed(4, 640 * minute))).toEqual(["a"]);
  expect(chosen(failed(5, 24 * 60 * minute))).toEqual([]);
});

test("while nothing gets through, one is tried; afterwards a limited number at a time", () => {
  const attempts = Array.from({ length: 30 }, (_, index) => attempt(`d${index}`, { at: now - (60 - index) * minute }));
  expect(chosen(attempts)).toEqual(["d0"]);
  expect(chosen([...attempts, works])).toHaveLength(20);
  expect(chosen([...attempts, { ...works, ok: false }])).toEqual(["d0"]);
});

test("only events are requested again on which the server acts", () => {
  const source = createWebhookSource({ id: "github", kind: "github", secrets: [], allowUnsigned: true });
  for (const name of unsweptEvents) {
    const headers = readHeaders(["X-GitHub-Event", name, "X-GitHub-Delivery", "1"]);
    // An event without a payload is misshapen, if the server knows it at all.
    expect(source.parse(headers, Buffer.from("{}"))).not.toMatchObject({
      reason: expect.stringContaining("are ignored") as string,
    });
  }
  expect(unsweptEvents.size).toBeGreaterThan(0);
});
