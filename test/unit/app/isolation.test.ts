import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findIsolation, refusalOfForks } from "../../../src/app/isolation.ts";
import { loadConfig } from "../../../src/config.ts";
import { useTempDir } from "../../support/world.ts";

test("where nothing can be tried, all is missing, and the server starts", async () => {
  const file = join(await useTempDir(), "file");
  await writeFile(file, "");
  const { config } = loadConfig({ env: { TOWLINE_PREVIEW_ISOLATION: "required" }, readFile: () => "" });

  const isolation = await findIsolation(config, join(file, "work"));

  expect(isolation?.missing).toEqual({
    files: expect.stringContaining("could not be tried: ENOTDIR") as string,
    processes: expect.stringContaining("could not be tried") as string,
    network: expect.stringContaining("could not be tried") as string,
  });
});

const all = { files: "Landlock", processes: "seccomp", credentials: "a proxy", network: "Landlock" };

test("forks are rendered only where all of isolation is in force, whatever the mode", () => {
  for (const mode of ["required", "auto"] as const) {
    expect(refusalOfForks({ mode, provided: all, missing: {} })).toBeUndefined();
    for (const property of ["files", "processes", "credentials", "network"] as const) {
      const { [property]: _, ...provided } = all;
      const missing = { [property]: "this kernel has none" };
      expect(refusalOfForks({ mode, provided, missing })).toContain("cannot isolate them");
      expect(refusalOfForks({ mode, provided, missing })).not.toContain("kernel");
    }
  }
  expect(refusalOfForks({ mode: "required", runner: "previews:8443", provided: all, missing: {} })).toContain("runner");
  expect(refusalOfForks(undefined)).toContain("cannot isolate them");
});
