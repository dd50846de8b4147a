import { expect, test } from "vitest";
import { createBatch } from "../../../jobs/batch.ts";
import { gate } from "../../support/jobs.ts";

test("items that arrive during a batch are processed together in the next, and each gets its own answer", async () => {
  const batches: number[][] = [];
  const first = gate();
  const double = createBatch(0, async (numbers: readonly number[]) => {
    batches.push([...numbers]);
    if (batches.length === 1) await first.opened;
    return numbers.map((n) => n * 2);
  });

  const answers = [1, 2, 3].map(double);
  expect(batches).toEqual([[1]]); // at once, because no batch was running
  first.open();

  expect(await Promise.all(answers)).toEqual([2, 4, 6]);
  expect(batches).toEqual([[1], [2, 3]]);
});

test("a failed batch fails all of its items, and no others", async () => {
  let times = 0;
  const work = createBatch(0, (items: readonly string[]) =>
    times++ === 0 ? Promise.reject(new Error("down")) : Promise.resolve(items),
  );
  await expect(work("a")).rejects.toThrow("down");
  expect(await work("b")).toBe("b");
});

test("in a rush a batch waits for more items, and a single item does not wait", async () => {
  const batches: number[] = [];
  const work = createBatch(20, (items: readonly number[]) => {
    batches.push(items.length);
    return Promise.resolve(items);
  });
  await work(0);
  expect(batches).toEqual([1]);
  const rush = [1, 2].map(work);
  await Promise.resolve();
  rush.push(work(3));
  await Promise.all(rush);
  expect(batches).toEqual([1, 3]);
});

test("a slow item delays neither the other items nor the next batch", async () => {
  const slow = gate();
  const work = createBatch(0, (items: readonly string[]) =>
    Promise.resolve(items.map((item) => (item === "slow" ? slow.opened.then(() => item) : item))),
  );
  const answers: string[] = [];
  const asked = ["first", "slow", "quick"].map((item) => work(item).then((answer) => void answers.push(answer)));
  await Promise.all([asked[0], asked[2]]);
  await work("next").then((answer) => answers.push(answer));
  expect(answers).toEqual(["first", "quick", "next"]);
  slow.open();
  await asked[1];
  expect(answers.at(-1)).toBe("slow");
});
