import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findIsolation } from "../../../src/app/isolation.ts";
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
