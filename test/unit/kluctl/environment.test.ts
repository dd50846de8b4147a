import { expect, test } from "vitest";
import { toSharedEnvironment } from "../../../src/kluctl/environment.ts";

test("kluctl's garbage collector runs less often than usual, unless the server's environment sets it", () => {
  expect(toSharedEnvironment({})).toEqual({ GOGC: "800", GOMEMLIMIT: "512MiB" });
  const told = { GOGC: "50", GOMEMLIMIT: "off", GOMAXPROCS: "3" };
  expect(toSharedEnvironment(told)).toEqual(told);
});
