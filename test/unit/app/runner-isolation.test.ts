/** What is said of the isolation where a runner renders. */
import { expect, test } from "vitest";
import { refusalOf, toIsolation } from "../../../src/app/isolation.ts";

const version = "1.2.3";
const all = { files: "Landlock", processes: "seccomp", credentials: "a proxy", network: "a network policy" };

test("what a runner says of itself is what is in force", () => {
  const isolation = toIsolation("required", "previews:8092", { version, provided: all, missing: {} });

  expect(isolation).toEqual({ mode: "required", runner: "previews:8092", provided: all, missing: {} });
  expect(refusalOf(isolation)).toBeUndefined();
});

test("a runner that is away, or leaves something out, has nothing in force of it", () => {
  const away = toIsolation("auto", "previews:8092", new Error("which does not answer"));
  const { network: _, ...others } = all;
  const partial = toIsolation("required", "previews:8092", { version, provided: others, missing: {} });

  expect(away.provided).toEqual({});
  expect(refusalOf(away)).toContain("which does not answer");
  expect(partial.missing).toEqual({ network: "the preview runner does not name it" });
  expect(refusalOf(partial)).toContain("network: the preview runner does not name it");
  expect(refusalOf(toIsolation("auto", "previews:8092", undefined))).toContain("has not answered yet");
});
