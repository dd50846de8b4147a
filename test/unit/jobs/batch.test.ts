import { expect, test } from "vitest";
import { createBatch } from "../../../jobs/batch.ts";
import { gate } from "../../support/jobs.ts";

test("what comes while others are at work is done together, and each gets its own answer", async () => {
  const batches: number[][] = [];
  const first = gate();
  const double = createBatch(async (numbers: readonly number[]) => {
    batches.push([...numbers]);
    if (batches.length === 1) await first.opened;
    return numbers.map((n) => n * 2);
  });

  const answers = [1, 2, 3].map(double);
  expect(batches).toEqual([[1]]); // at once: nobody was before it
  first.open();

  expect(await Promise.all(answers)).toEqual([2, 4, 6]);
  expect(batches).toEqual([[1], [2, 3]]);
});

test("a batch that fails fails for all of it, and for nobody else", async () => {
  let times = 0;
  const work = createBatch((items: readonly string[]) =>
    times++ === 0 ? Promise.reject(new Error("down")) : Promise.resolve(items),
  );
  await expect(work("a")).rejects.toThrow("down");
  expect(await work("b")).toBe("b");
});
