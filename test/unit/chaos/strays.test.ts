import { EventEmitter } from "node:events";
import { expect, test } from "vitest";
import { collectStrays } from "../../../dev/chaos/strays.ts";

test("errors that no code waits for are collected with their stacks until the collector is stopped", () => {
  const process = new EventEmitter();
  const strays = collectStrays(process);
  process.emit("unhandledRejection", new Error("Redis did not start"));
  process.emit("uncaughtException", "no error object");
  strays.stop();
  process.emit("unhandledRejection", new Error("too late"));
  expect(strays.errors).toEqual([expect.stringContaining("Redis did not start"), "no error object"]);
  expect(strays.errors[0]).toContain("strays.test.ts");
  expect(process.listenerCount("uncaughtException")).toBe(0);
});
