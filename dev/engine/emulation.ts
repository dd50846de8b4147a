/**
 * Lets this machine run programs built for another architecture: the kernel starts qemu for them. This affects the
 * whole machine, so a rule that was not there before is removed afterwards.
 */
import { execFile } from "node:child_process";
import { access, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { ownArchitecture, type Architecture } from "../image/release.ts";
import { installPackage } from "../tools.ts";

const run = promisify(execFile);
const handlers = "/proc/sys/fs/binfmt_misc";
/** Directories in which packages declare rules for the kernel; systemd registers them at boot. */
const folders = ["/etc/binfmt.d", "/usr/lib/binfmt.d"];
const names: Record<Architecture, string> = { amd64: "qemu-x86_64", arm64: "qemu-aarch64" };

export async function startEmulation(architecture: Architecture, say: (line: string) => void) {
  const taken: (() => Promise<unknown>)[] = [];
  const stop = async () => {
    for (const undo of taken.toReversed()) await undo();
  };
  if (architecture === ownArchitecture) return { stop };
  const name = names[architecture];
  try {
    if (!(await exists(join(handlers, "register")))) {
      await run("mount", ["-t", "binfmt_misc", "binfmt_misc", handlers]);
      taken.push(() => run("umount", [handlers]));
    }
    if (await exists(join(handlers, name))) return { stop };
    const rule =
      (await findRule(name)) ??
      (await installPackage("qemu-user-static", `Install qemu's emulation of ${architecture} for programs.`, say),
      await findRule(name));
    if (rule === undefined) throw new Error(`There is no ${name}.conf in ${folders.join(" or ")}.`);
    // The installation of the package may have registered it already.
    if (await exists(join(handlers, name))) return { stop };
    await writeFile(join(handlers, "register"), rule);
    taken.push(() => writeFile(join(handlers, name), "-1"));
    say(`programs for ${architecture} are emulated`);
    return { stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** The kernel has to open the interpreter at registration (`F`), because there is none in a container. */
async function findRule(name: string): Promise<string | undefined> {
  for (const folder of folders) {
    const files = await readdir(folder).catch(() => [] as string[]);
    if (files.includes(`${name}.conf`)) {
      const rule = (await readFile(join(folder, `${name}.conf`), "utf8")).trim();
      if (/:[A-Z]*F[A-Z]*$/.test(rule)) return rule;
    }
  }
  return undefined;
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
