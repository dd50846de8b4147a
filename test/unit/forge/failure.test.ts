import fc from "fast-check";
import { expect, test } from "vitest";
import type { ForgeError } from "../../../src/errors.ts";
import { findRetryAfterMs, toForgeError } from "../../../src/forge/forge-failure.ts";

const now = Date.parse("2026-11-21T12:00:00Z");

test.each<[headers: Record<string, string>, ms: number | undefined]>([
  [{}, undefined],
  [{ "retry-after": "30" }, 30_000],
  [{ "retry-after": " 0 " }, 0],
  [{ "retry-after": "1.5" }, 1_500],
  [{ "retry-after": "Sat, 21 Nov 2026 12:01:00 GMT" }, 60_000],
  [{ "retry-after": "Sat, 21 Nov 2026 11:59:00 GMT" }, 0],
  [{ "retry-after": "999999999" }, 24 * 3_600_000],
  [{ "retry-after": "-5" }, undefined],
  [{ "retry-after": "soon" }, undefined],
  [{ "x-ratelimit-reset": String(now / 1_000 + 90) }, 90_000],
  [{ "ratelimit-reset": String(now / 1_000 + 90) }, 90_000],
  [{ "x-ratelimit-reset": "90" }, undefined],
  [{ "retry-after": "soon", "x-ratelimit-reset": String(now / 1_000 + 90) }, 90_000],
])("%o means to wait %s ms", (headers, ms) => {
  expect(findRetryAfterMs(new Headers(headers), now)).toBe(ms);
});

test("no header causes an endless or negative wait", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary-ascii" }), fc.string({ unit: "binary-ascii" }), (after, reset) => {
      const headers = new Headers();
      for (const [name, value] of [
        ["retry-after", after],
        ["x-ratelimit-reset", reset],
      ] as const) {
        headers.set(name, value.replaceAll(/[\0\r\n]/g, ""));
      }
      const ms = findRetryAfterMs(headers, now) ?? 0;
      expect(ms >= 0 && ms <= 24 * 3_600_000).toBe(true);
    }),
  );
});

test.each<[status: number, headers: Record<string, string>, problem: ForgeError["problem"]]>([
  [301, {}, "refused"],
  [400, {}, "refused"],
  [401, {}, "unauthorized"],
  [403, {}, "unauthorized"],
  [403, { "x-ratelimit-remaining": "12" }, "unauthorized"],
  [403, { "x-ratelimit-remaining": "0" }, "rate-limited"],
  [403, { "retry-after": "9" }, "rate-limited"],
  [404, {}, "not-found"],
  [409, {}, "unreachable"],
  [410, {}, "not-found"],
  [422, {}, "refused"],
  [423, {}, "refused"],
  [429, {}, "rate-limited"],
  [500, {}, "unreachable"],
  [503, { "retry-after": "9" }, "unreachable"],
])("status %i with %o is %s", (status, headers, problem) => {
  const error = toForgeError({ status, headers: new Headers(headers) }, "GET /user at example.com", { hint: "hint" });
  expect(error).toMatchObject({ problem, retryAfterMs: "retry-after" in headers ? 9_000 : undefined });
  expect(error.message).toMatch(/^GET \/user at example\.com/);
});
