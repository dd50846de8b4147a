import { expect, test } from "vitest";
import { confirm } from "../../../dev/demo/present.ts";

test("facts that hold are printed, and all that do not hold end the demo in one error", () => {
  const lines: (string | undefined)[] = [];
  confirm("The push did not arrive", [["main is the push", true]], (line) => lines.push(line));
  expect(lines).toEqual([undefined, "  ok  main is the push"]);

  const facts = [
    ["main is the push", true],
    ["api has the image 2", false],
    ["prod is as it was", false],
  ] as const;
  const wrong = "The push did not arrive:\n  not true: api has the image 2\n  not true: prod is as it was";
  expect(() => confirm("The push did not arrive", facts, () => undefined)).toThrow(wrong);
});
