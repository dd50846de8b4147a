import { expect, test } from "vitest";
import type { CommitStatus } from "../../../src/model.ts";
import { renderRollout } from "../../../src/comment/rollout.ts";
import { failedIn, type Report } from "../../../src/model/report.ts";
import { followRollout } from "../../../src/reporting/rollout.ts";
import { aPreview, aReport } from "../../support/fake-reports.ts";

const at = Date.parse("2026-01-01T10:00:00Z");

const line = (state: CommitStatus["state"], description: string, name = "/shop/prod"): CommitStatus => ({
  context: `towline${name}`,
  state,
  description,
});

/** Follows these statuses, a second apart. */
function follow(...seen: CommitStatus[][]): Report["rollout"] {
  return seen.reduce<Report["rollout"]>(
    (known, lines, index) => followRollout(known, lines, at + index * 1_000),
    undefined,
  );
}

const render = (rollout: Report["rollout"], rolloutRest?: Report["rolloutRest"]) =>
  renderRollout(aReport({ state: "merged", mergeCommit: "a".repeat(40), rollout, rolloutRest }));

test("each step of a deployment is kept, with the time at which it was seen", () => {
  const rollout = follow(
    [line("pending", "queued")],
    [line("pending", "queued")],
    [line("pending", "being deployed")],
    [line("success", "deployed: 2 changed")],
  );
  expect(rollout?.[0]?.steps.map(({ text, at: seenAt }) => [text, (seenAt - at) / 1_000])).toEqual([
    ["queued", 0],
    ["being deployed", 2],
    ["deployed: 2 changed", 3],
  ]);
  expect(render(rollout)).toContain(
    "| `shop/prod` | `queued` 10:00:00 → `being deployed` 10:00:02 → ✅ `deployed: 2 changed` 10:00:03 |",
  );
});

test("nothing new leaves it as it is", () => {
  const rollout = follow([line("success", "deployed: 1 new")]);
  expect(followRollout(rollout, [line("success", "deployed: 1 new")], at)).toBe(rollout);
  expect(followRollout(undefined, [], at)).toBeUndefined();
});

test("statuses of the pull request itself are not its rollout", () => {
  expect(follow([{ ...line("success", "would change 1 object"), url: "https://git.example.com/1" }])).toBeUndefined();
});

test("a deployed commit stays deployed when the next one follows, and one that was overtaken says so", () => {
  const superseded = line("canceled", "superseded by a newer commit");
  expect(follow([line("success", "deployed: 1 new")], [superseded])?.[0]?.steps).toHaveLength(1);
  expect(follow([line("pending", "queued")], [superseded])?.[0]?.steps.at(-1)).toMatchObject({ state: "canceled" });
});

test("a failure counts from its first step until the end, for what the pull request changes", () => {
  const failing = follow(
    [line("failure", "refused")],
    [line("pending", "being deployed")],
    [line("failure", "refused")],
  );
  const previews = [aPreview()];
  expect(failedIn({ rollout: failing, previews }, at)).toMatchObject([{ deployment: "shop/prod", failingSince: at }]);
  expect(failedIn({ rollout: failing, previews }, at - 1)).toEqual([]);
  expect(failedIn({ rollout: failing, previews: [] }, at)).toEqual([]);
  const mended = follow([line("failure", "refused")], [line("success", "deployed: 1 new")], [line("failure", "gone")]);
  expect(failedIn({ rollout: mended, previews }, Infinity)).toEqual([]);
});

test("a deployment that fails and recovers without end keeps its first and its last steps", () => {
  const flips = Array.from({ length: 50 }, (_, n) => [n % 2 ? line("success", "ready") : line("failure", "not ready")]);
  const steps = follow([line("pending", "queued")], ...flips)?.[0]?.steps ?? [];
  expect(steps).toHaveLength(6);
  expect(steps[0]?.text).toBe("queued");
});

test("of many deployments, the failed ones are shown first, and the rest is counted", () => {
  const names = Array.from({ length: 30 }, (_, n) => `/shop/region-${String(n).padStart(2, "0")}`);
  const lines = names.map((name, n) => (n === 29 ? line("failure", "refused", name) : line("success", "done", name)));
  const text = render(follow([...lines, line("failure", "30 deployments: 1 failed, 29 up to date", "")]));
  expect(text).toContain("❌ `30 deployments: 1 failed, 29 up to date`");
  expect(text.indexOf("region-29")).toBeLessThan(text.indexOf("region-00"));
  expect(text).toContain("… and 18 more deployments");
});

test("deployments without a status of their own that failed or wait follow those that have one, in twelve rows", () => {
  const sum = line("failure", "30 deployments: 20 failed, 2 pending, 8 up to date", "");
  const rest = [
    { deployment: "shop/f", state: "failure" as const, text: "refused" },
    { deployment: "shop/w", state: "pending" as const, text: "waiting for approval" },
  ];
  const text = render(
    follow([line("success", "nothing to do", "/shop/a"), line("failure", "a: refused", "/shop/b"), sum]),
    {
      lines: rest,
      more: 0,
    },
  );
  expect(text).toContain("❌ `30 deployments: 20 failed, 2 pending, 8 up to date`");
  expect(text.split("\n").slice(4)).toEqual([
    expect.stringMatching(/^\| `shop\/b` \| ❌ `a: refused` /),
    "| `shop/f` | ❌ `refused` |",
    "| `shop/w` | ⏳ `waiting for approval` |",
    expect.stringMatching(/^\| `shop\/a` \| ✅ /),
  ]);
  const many = Array.from({ length: 12 }, (_, n) => ({ ...rest[0]!, deployment: `shop/f${n}` }));
  expect(render(follow([line("failure", "a: refused", "/shop/b"), sum]), { lines: many, more: 7 })).toMatch(
    /`shop\/f10`.*\n\n… and 8 more deployments$/,
  );
  expect(render(follow([sum]), { lines: rest.slice(1), more: 0 })).toContain(
    "| `shop/w` | ⏳ `waiting for approval` |",
  );
});

test("what statuses say cannot break out of the table", () => {
  const text = render(follow([line("failure", "a | b ` <!-- @ann")]));
  expect(text.split("\n").at(-1)?.split("|")).toHaveLength(4);
  expect(text).not.toContain("<!--");
});

test("before the merge there is no rollout", () => {
  const rollout = follow([line("success", "done")]);
  expect(renderRollout(aReport({ rollout }))).toBe("");
  expect(render(undefined)).toBe("");
});
