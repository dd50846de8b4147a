import { readdir } from "node:fs/promises";
import { expect, test } from "vitest";
import { findFluxRefusal } from "../../../src/app/flux-refusal.ts";
import type { Config } from "../../../src/config.ts";
import { silentLog } from "../../support/fakes.ts";
import { useFiles } from "../../support/world.ts";

test("the check at the start reads none of the server's files, and leaves none behind", async () => {
  const dataDir = await useFiles({ "git/mirror/HEAD": "ref: refs/heads/main" });
  const config = { dataDir, flux: { previews: true }, preview: { enabled: true } } as Config;
  const seen: string[][] = [];
  const refusal = await findFluxRefusal(
    config,
    {
      async render({ root }) {
        seen.push(await readdir(root));
        throw new Error("no towline-flux on PATH");
      },
    },
    silentLog,
  );
  expect(refusal).toBe("no towline-flux on PATH");
  expect(seen).toEqual([[]]);
  expect(await readdir(dataDir)).toEqual(["git"]);
});
