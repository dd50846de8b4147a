/**
 * Directories of another user. The program drops its privileges, because tests may run as root, which can enter all
 * directories.
 */
import { execFile } from "node:child_process";
import { chmod, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { useTempDir } from "../../support/world.ts";

const makePrivate = `
import { makePrivate } from "${join(import.meta.dirname, "../../../src/kluctl/private-directory.ts")}";
process.setgroups([]);
process.setgid(65532);
process.setuid(65532);
await makePrivate(process.argv[1]).catch(({ name, message }) => console.log(name + ": " + message));
`;

async function asAnotherUser(path: string): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", makePrivate, path]);
  return stdout.trim();
}

test.runIf(process.getuid?.() === 0)(
  "the error about another user's directory names the directory, its owner and what to do",
  async () => {
    const dir = await useTempDir();
    await chmod(dir, 0o755);
    const closed = join(dir, "closed");
    await mkdir(closed, { mode: 0o700 });
    const whose = `${closed} belongs to user 0 with mode 0700, and the server runs as user 65532. Give it to that user`;
    const orMove = "or move the server's directories with TOWLINE_DATA_DIR or TOWLINE_KLUCTL_CACHE_DIR.";

    for (const path of [closed, join(closed, "tmp")]) {
      const said = await asAnotherUser(path);
      expect(said).toBe(`KluctlUnavailableError: kluctl cannot work in ${path}: ${whose}, ${orMove}`);
    }
  },
);
