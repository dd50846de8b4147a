import { join } from "node:path";
import { expect, test } from "vitest";
import { explainExtent, measureSpine } from "../../../dev/spine/measure.ts";

test("one push passes through the files that the documentation lists, and through no more than were agreed", async () => {
  const spine = await measureSpine(join(import.meta.dirname, "../../.."), () => undefined);

  expect(explainExtent(spine)).toEqual([]);
  expect(spine.counted.filter(({ step }) => step !== undefined)).toHaveLength(12);
});
