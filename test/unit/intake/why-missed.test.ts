import { describe, expect, test } from "vitest";
import { describeMissReason, findMissReason, type ReadWebhook } from "../../../src/intake/why-missed.ts";
import type { DeliveryAttempt } from "../../../src/model.ts";
import { MissReason } from "../../../src/model/missed-push.ts";

const hook = { host: "towline.example.com", isEnabled: true, sendsPushes: true };
const { host } = hook;

function attempt(delivery: string, own: Partial<DeliveryAttempt> = {}): DeliveryAttempt {
  return { id: 1, delivery, at: 0, ok: false, isPush: true, isUnswept: false, isRepeat: false, ...own };
}

function reasonOf(webhooks: readonly ReadWebhook[], { received = [], similar = [] }: Record<string, string[]> = {}) {
  return findMissReason(webhooks, similar, new Set(received));
}

test("without a webhook at the forge's path, one with a similar address explains more than none", () => {
  expect(reasonOf([])).toEqual({ kind: "missing" });
  expect(reasonOf([], { similar: ["old.example.com"] })).toEqual({ kind: "address", host: "old.example.com" });
});

test("the configuration comes first, then what the host tried", () => {
  const attempts = [attempt("a", { code: 401 })];
  expect(reasonOf([{ hook: { ...hook, isEnabled: false }, attempts }])).toEqual({ kind: "disabled", host });
  expect(reasonOf([{ hook: { ...hook, sendsPushes: false }, attempts }])).toEqual({ kind: "events", host });
  expect(reasonOf([{ hook, attempts }])).toEqual({ kind: "refused", host, code: 401, count: 1 });
  expect(reasonOf([{ hook, attempts: [] }])).toEqual({ kind: "unsent", host });
  expect(reasonOf([{ hook }])).toEqual({ kind: "unlisted", host });
});

test("failed deliveries count by event; what was delivered again has not failed", () => {
  const attempts = [
    attempt("c", { code: 503, isRepeat: true }),
    attempt("b", { ok: true, isRepeat: true }),
    attempt("c"),
    attempt("b", { code: 500 }),
    attempt("a"),
    attempt("x", { isPush: false, code: 404 }),
  ];
  expect(reasonOf([{ hook, attempts }])).toEqual({ kind: "refused", host, code: 503, count: 2 });
});

test("what was tried before the last delivery that arrived explains nothing", () => {
  const attempts = [attempt("b", { ok: true }), attempt("a", { code: 500 })];
  expect(reasonOf([{ hook, attempts }], { received: ["b"] })).toEqual({ kind: "unsent", host });
  expect(reasonOf([{ hook, attempts: attempts.slice(0, 1) }])).toEqual({ kind: "elsewhere", host });
});

test("of a webhook that repositories share, only the deliveries about this one count", () => {
  const shared = { ...hook, repository: 7 };
  const attempts = [attempt("a", { repository: 8, code: 500 }), attempt("b", { repository: 7, code: 404 })];
  expect(reasonOf([{ hook: shared, attempts }])).toEqual({ kind: "refused", host, code: 404, count: 1 });
  expect(reasonOf([{ hook: shared, attempts: attempts.slice(0, 1) }])).toEqual({ kind: "unsent", host });
});

test("the webhook of another server, which gets its deliveries, does not hide what is wrong with ours", () => {
  const other = { hook: { ...hook, host: "other.example.com" }, attempts: [attempt("a", { ok: true })] };
  const ours = { hook: { ...hook, isEnabled: false } };
  expect(reasonOf([other, ours])).toEqual({ kind: "disabled", host });
});

describe("in words", () => {
  const kinds = MissReason.shape.kind.options;
  const all = kinds.map((kind) => describeMissReason({ kind, host, detail: "no permission" }, "github"));

  test("each kind has a reason and an advice of its own", () => {
    expect(new Set(all.map(({ why }) => why)).size).toBe(kinds.length);
    for (const { why, advice } of all) expect(`${why}. ${advice}.`).toMatch(/^[^.].{20,}\.$/);
  });

  test.each([
    [undefined, "no response", "firewall"],
    [401, "response 401", "--rotate"],
    [404, "response 404", "webhook port"],
    [413, "response 413", "webhooks.maxBody"],
    [503, "response 503", "Redis"],
    [418, "response 418", "proxy"],
  ])("a delivery that failed with %s", (code, response, advice) => {
    const words = describeMissReason({ kind: "refused", host, count: 2, code }, "github");
    expect(words.why).toBe(`2 deliveries to ${host} failed, the last one with ${response}`);
    expect(words.advice).toContain(advice);
  });
});
