import { expect, test } from "vitest";
import {
  intervalOf,
  judgePushes,
  noEvidence,
  paceOf,
  type WebhookEvidence,
} from "../../../src/intake/webhook-evidence.ts";
import type { DeliveryRecord } from "../../../src/model/delivery-record.ts";

const [second, minute, hour] = [1_000, 60_000, 3_600_000];

function delivery(commit: string, at: number, own: Partial<DeliveryRecord> = {}): DeliveryRecord {
  const counts = { matched: 0, queued: 0, ignoredMore: 0, ms: 1, deployments: [], ignored: [] };
  return { v: 1, forge: "gitea", at, status: 202, event: "push", commit, ...counts, ...own };
}

const proven: WebhookEvidence = { announced: 3, announcedAt: 0, isMissing: false };

test("three reported pushes in a row, the last one within a day, prove that webhooks arrive", () => {
  const latest = [delivery("c", 3), delivery("x", 2, { others: ["b"] }), delivery("a", 1)];
  const two = judgePushes(noEvidence, ["a", "b"], latest);
  expect([two, paceOf(two, 5)]).toEqual([{ announced: 2, announcedAt: 2, isMissing: false }, "usual"]);
  const three = judgePushes(two, ["c"], latest);
  expect([three, paceOf(three, 5)]).toEqual([{ announced: 3, announcedAt: 3, isMissing: false }, "rarely"]);
  expect(paceOf(three, 3 + 24 * hour - 1)).toBe("rarely");
  expect(paceOf(three, 3 + 24 * hour)).toBe("usual");
});

test("one unreported push takes the proof away, and a rejected delivery reports nothing", () => {
  const latest = [delivery("b", 2), delivery("a", 1, { refused: "wrong signature" })];
  expect(judgePushes(proven, ["a"], latest)).toEqual({ announced: 0, announcedAt: -Infinity, isMissing: false });
  expect(judgePushes(proven, ["b", "a"], latest)).toMatchObject({ announced: 0 });
  expect(judgePushes(proven, ["a", "b"], latest)).toEqual({ announced: 1, announcedAt: 2, isMissing: false });
  expect(judgePushes(proven, [], latest)).toEqual(proven);
});

test("missing webhooks outweigh what was proven before", () => {
  expect(paceOf({ ...proven, isMissing: true }, 1)).toBe("often");
});

test.each([
  // configured, often, usual, rarely
  [5 * second, 5 * second, 5 * second, 25 * second],
  [30 * second, 10 * second, 30 * second, 150 * second],
  [minute, 10 * second, minute, 5 * minute],
  [2 * minute, 10 * second, 2 * minute, 5 * minute],
  [10 * minute, 10 * second, 10 * minute, 10 * minute],
])("an interval of %d ms becomes %d, %d or %d", (configured, ...expected) => {
  expect((["often", "usual", "rarely"] as const).map((pace) => intervalOf(pace, configured))).toEqual(expected);
});
