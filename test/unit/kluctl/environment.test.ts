import { expect, test } from "vitest";
import { toSharedEnvironment } from "../../../src/kluctl/environment.ts";

test("kluctl collects garbage less often than programs that live longer, unless the server is told otherwise", () => {
  expect(toSharedEnvironment({})).toEqual({ GOGC: "800", GOMEMLIMIT: "512MiB" });
  const told = { GOGC: "50", GOMEMLIMIT: "off", GOMAXPROCS: "3" };
  expect(toSharedEnvironment(told)).toEqual(told);
});
