import fc from "fast-check";
import { expect, test } from "vitest";
import { tryStories } from "../../../dev/chaos/tries.ts";

interface Report {
  readonly story: readonly number[];
  readonly failed: boolean;
}

const stories = fc.array(fc.nat({ max: 9 }), { minLength: 1, maxLength: 20, size: "max" });

/** Plays stories that fail if one of their numbers is more than 4. */
async function tryAll(options: { shrinks: boolean; path?: string | undefined; seed?: number; abortsAt?: number }) {
  const played: Report[] = [];
  const tried = await tryStories<readonly number[], Report>({
    stories,
    seed: 1,
    isFailure: ({ failed }) => failed,
    play: (story, tryNumber) => {
      if (tryNumber === options.abortsAt) return Promise.resolve(undefined);
      const report = { story, failed: story.some((one) => one > 4) };
      played.push(report);
      return Promise.resolve(report);
    },
    ...options,
  });
  return { tried, played };
}

test("the shortest story that failed is reported, although shorter ones passed after it", async () => {
  const { tried, played } = await tryAll({ shrinks: true });
  expect(played.at(-1)?.failed).toBe(false); // otherwise this test shows nothing
  expect(tried?.report).toEqual({ story: [5], failed: true });
});

test("the path of the shortest story plays it again", async () => {
  const { tried } = await tryAll({ shrinks: true });
  const { played } = await tryAll({ shrinks: false, path: tried?.path });
  expect(played).toEqual([tried?.report]);
});

test("without shrinking, a story is played once, whether it fails or not", async () => {
  const failing = await tryAll({ shrinks: false });
  expect(failing.played).toEqual([failing.tried?.report]);
  expect(failing.tried?.report.failed).toBe(true);
  const passing = await tryAll({ shrinks: true, path: "0:0", seed: 1 });
  expect(passing.played.at(-1)).toBeDefined();
});

test("an aborted try says nothing: an earlier failure stays, and no other try follows", async () => {
  const { tried, played } = await tryAll({ shrinks: true, abortsAt: 1 });
  expect(played).toHaveLength(1);
  expect(tried?.report).toEqual(played[0]);
  expect((await tryAll({ shrinks: true, abortsAt: 0 })).tried).toBeUndefined();
});
