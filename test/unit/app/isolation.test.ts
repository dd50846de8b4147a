import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findIsolation, forksOf, refusalOfForks, toIsolation } from "../../../src/app/isolation.ts";
import { loadConfig } from "../../../src/config.ts";
import { useTempDir } from "../../support/world.ts";

test("if no isolation test can run, every property is reported missing and the server starts", async () => {
  const file = join(await useTempDir(), "file");
  await writeFile(file, "");
  const { config } = loadConfig({ env: { TOWLINE_PREVIEW_ISOLATION: "required" }, readFile: () => "" });

  const isolation = await findIsolation(config, join(file, "work"));

  expect(isolation?.missing).toEqual({
    files: expect.stringContaining("the test could not run: ENOTDIR") as string,
    processes: expect.stringContaining("the test could not run") as string,
    network: expect.stringContaining("the test could not run") as string,
  });
});

const all = { files: "Landlock", processes: "seccomp", credentials: "a proxy", network: "Landlock" };

test("forks are rendered only if all isolation properties are in force, in any mode", () => {
  for (const mode of ["required", "auto"] as const) {
    expect(refusalOfForks({ mode, provided: all, missing: {} })).toBeUndefined();
    for (const property of ["files", "processes", "credentials", "network"] as const) {
      const { [property]: _, ...provided } = all;
      const missing = { [property]: "this kernel has none" };
      expect(refusalOfForks({ mode, provided, missing })).toContain("cannot isolate them");
      expect(refusalOfForks({ mode, provided, missing })).not.toContain("kernel");
    }
  }
  expect(refusalOfForks(undefined)).toContain("cannot isolate them");
});

test("the isolation of an unreachable runner is unknown, so each run of a fork asks the runner first", () => {
  const { network: _, ...others } = all;
  const at = (said: Parameters<typeof toIsolation>[2]) => toIsolation("auto", "previews:8443", said);
  const whole = at({ version: "1", provided: all, missing: {} });
  const partial = at({ version: "1", provided: others, missing: { network: "it reaches DNS" } });
  const away = [at(undefined), at(new Error("which does not respond"))];

  expect(refusalOfForks(whole)).toBeUndefined();
  expect(refusalOfForks(partial)).toContain("cannot isolate them");
  expect(away.map(refusalOfForks)).toEqual([undefined, undefined]);
  const forks = (isolation: Parameters<typeof forksOf>[1], setting: "off" | "isolated", enabled = true) => {
    const env = { TOWLINE_PREVIEW_FORKS: setting, TOWLINE_PREVIEW_ENABLED: String(enabled) };
    return forksOf(loadConfig({ env, readFile: () => "" }).config, isolation);
  };
  expect([whole, partial, ...away, undefined].map((isolation) => forks(isolation, "isolated"))).toEqual([
    "isolated",
    ...["refused", "waiting", "waiting", "refused"],
  ]);
  expect(forks(whole, "off")).toBe("off");
  expect(forks(whole, "isolated", false)).toBe("off");
});
