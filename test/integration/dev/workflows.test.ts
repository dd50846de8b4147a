/** Checks the workflows with actionlint: expressions, names of jobs and outputs, types of inputs, permissions. */
import { spawnSync } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findTools } from "../../../dev/tools.ts";
import { useTempDir } from "../../support/world.ts";

const root = join(import.meta.dirname, "../../..");

test(
  "actionlint finds nothing in our workflows, but does find an error in a wrong one",
  { timeout: 180_000 },
  async () => {
    const { actionlint } = await findTools(["actionlint"], { say: (line) => process.stderr.write(`${line}\n`) });
    // Without shellcheck and pyflakes, which not every machine has, so that the result is the same everywhere.
    const args = ["-no-color", "-shellcheck=", "-pyflakes="];
    const verdict = spawnSync(actionlint, args, { cwd: root, encoding: "utf8" });
    expect(verdict).toMatchObject({ stdout: "", stderr: "", status: 0 });

    const dir = await useTempDir();
    const file = join(dir, "wrong.yml");
    await writeFile(
      file,
      "on: push\njobs:\n  a:\n    runs-on: ubuntu-24.04\n    steps: [{ run: 'echo ${{ needs.b.outputs.c }}' }]\n",
    );
    expect(spawnSync(actionlint, [...args, file], { cwd: root, encoding: "utf8" })).toMatchObject({
      stdout: expect.stringContaining('property "b" is not defined'),
      status: 1,
    });
  },
);
