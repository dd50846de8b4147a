import { expect, test } from "vitest";
import { startedBefore } from "../../../dev/parts/processes.ts";

test("the parent of this process started before it, and a process that has ended before none", () => {
  expect(startedBefore(process.ppid, process.pid)).toBe(true);
  expect(startedBefore(process.pid, process.ppid)).toBe(false);
  expect(startedBefore(process.pid, process.pid)).toBe(false);
  const noProcess = 2 ** 30;
  expect(startedBefore(noProcess, process.pid)).toBe(false);
});
