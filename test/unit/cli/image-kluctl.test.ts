import { execFile } from "node:child_process";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";

const run = promisify(execFile);

test("the image's kluctl command runs Towline for `controller` and kluctl for everything else", async () => {
  const dir = await mkdtemp(join(tmpdir(), "towline-test-"));
  onTestFinished(() => rm(dir, { recursive: true }));
  const say = async (name: string) => {
    await writeFile(join(dir, name), `#!/bin/sh\necho ${name} "$@"\n`);
    await chmod(join(dir, name), 0o755);
  };
  await Promise.all([say("node"), say("real")]);
  const script = await readFile(new URL("../../../image/kluctl", import.meta.url), "utf8");
  await writeFile(join(dir, "kluctl"), script.replace("/usr/local/lib/towline/kluctl", join(dir, "real")));
  const kluctl = async (...args: string[]) => {
    const { stdout } = await run("/bin/sh", [join(dir, "kluctl"), ...args], { env: { PATH: `${dir}:/usr/bin:/bin` } });
    return stdout.trim();
  };

  expect(await kluctl("controller", "run", "--leader-elect")).toBe(
    "node /app/dist/src/cli.js controller run --leader-elect",
  );
  expect(await kluctl("controller", "install")).toBe("real controller install");
  expect(await kluctl("deploy", "-t", "controller", "run")).toBe("real deploy -t controller run");
  expect(await kluctl()).toBe("real");
});
