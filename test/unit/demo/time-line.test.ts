import { expect, test } from "vitest";
import { moment, type Step, tellTimeLine } from "../../../dev/demo/time-line.ts";

test("steps of several strands are printed in the order in which they happened", async () => {
  const startedAt = Date.now();
  const lines: string[] = [];
  const late: Step[] = [];
  let looks = 0;
  const strand = {
    steps: late,
    missing() {
      // It is seen now, but happened before the step that the other strand reports.
      if (++looks === 2) late.push({ at: startedAt + 10, what: "queued", detail: "shop/staging" });
      return looks < 3 ? ["shop/staging is not ready"] : [];
    },
    end: () => undefined,
  };
  await tellTimeLine(
    [moment(startedAt + 50, "applied"), moment(startedAt, "git push done"), strand],
    startedAt,
    (line) => lines.push(line),
  );
  expect(lines).toEqual([
    "    0.00 s  git push done",
    "    0.01 s  queued            shop/staging",
    "    0.05 s  applied",
  ]);
});

test("an error ends the time line after the steps already seen, and all listeners are removed", async () => {
  const startedAt = Date.now();
  const lines: string[] = [];
  let ended = false;
  const strand = {
    steps: [{ at: startedAt, what: "queued" }],
    missing(): string[] {
      throw new Error("shop/staging failed");
    },
    end: () => void (ended = true),
  };
  const told = tellTimeLine([strand], startedAt, (line) => lines.push(line));
  await expect(told).rejects.toThrow("shop/staging failed");
  expect(lines).toEqual(["    0.00 s  queued"]);
  expect(ended).toBe(true);
});
