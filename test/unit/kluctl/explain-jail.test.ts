import { expect, test } from "vitest";
import { PrepareError } from "../../../src/errors.ts";
import type { ConfinedRun } from "../../../src/kluctl/confinement.ts";
import { explainJail } from "../../../src/kluctl/explain-jail.ts";

const run = { overfull: new AbortController().signal, access: {} } as unknown as ConfinedRun;

test.each([
  ["dial tcp 10.0.0.7:22: connect: permission denied", "which `http` vars and ssh cannot use"],
  ["dial tcp 127.0.0.1:3000: connect: permission denied", "does not use for addresses of this machine"],
  ["dial tcp [::1]:3000: connect: operation not permitted", "does not use for addresses of this machine"],
])("a refused connection is explained: %s", (message, advice) => {
  const explained = explainJail(new PrepareError(message), run, undefined);
  expect((explained as Error).message).toContain(message);
  expect((explained as Error).message).toContain(advice);
});

test("other errors stay as they are", () => {
  const error = new PrepareError("no such target: prod");
  expect(explainJail(error, run, undefined)).toBe(error);
});
