import { execFile } from "node:child_process";
import { symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { readOutcome } from "../../../src/kluctl/outcome.ts";
import { useTempDir } from "../../support/world.ts";

const ended = { exitCode: 0, stdout: "", stderr: "" };

test.each([
  ["a link to a file of the server's", (path: string, other: string) => symlink(other, path)],
  ["a pipe that nobody writes to", (path: string) => promisify(execFile)("mkfifo", [path])],
])("%s is not accepted as a result of kluctl", async (_name, make) => {
  const dir = await useTempDir();
  const [result, other] = [join(dir, "result.yaml"), join(dir, "other.yaml")];
  await writeFile(other, "errors: []\n");
  await make(result, other);

  const read = readOutcome(ended, result, (file) => Promise.resolve(`read ${file}`), String);

  await expect(read).rejects.toThrow("it is not a file");
});
