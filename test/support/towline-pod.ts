/**
 * An emulated pod with everything that Towline needs: Node, the sources, kluctl, and kluctl's Python as in the image.
 */
import { execFile } from "node:child_process";
import { chmod, chown, cp, mkdir, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import process from "node:process";
import { promisify } from "node:util";
import { cacheDir } from "../../dev/cache.ts";
import { createPod, type Pod } from "./emulated-pod.ts";
import { useKluctlPython } from "./renderers.ts";
import { useKluctl, useTempDir } from "./world.ts";

export interface TowlinePod {
  readonly pod: Pod;
  readonly kluctl: string;
  readonly unpackedDir: string;
  /** Returns the command that runs a script of the repository. */
  node(script: string, ...args: string[]): { command: string; args: string[] };
  /** Writes a file that only the pod's user can read. */
  write(name: string, text: string): Promise<string>;
}

const run = promisify(execFile);
const repository = join(import.meta.dirname, "../..");

/** Returns the directory of kluctl's unpacked Python, readable by the user of the tests. */
export async function useUnpacked(): Promise<string> {
  await useKluctlPython();
  return join(cacheDir(), "kluctl");
}

export async function useTowlinePod(): Promise<TowlinePod> {
  const [dir, kluctl, unpacked] = await Promise.all([useTempDir(), useKluctl(), useUnpacked()]);
  await chmod(dir, 0o755);
  const unpackedDir = join(dir, "unpacked");
  await mkdir(unpackedDir);
  for (const place of ["tmp", "python"]) {
    const filter = (path: string) => !/\.lock$|\/shop-[^/]*$/.test(path);
    await cp(join(unpacked, place), join(unpackedDir, place), { recursive: true, verbatimSymlinks: true, filter });
  }
  await run("chmod", ["-R", "a+rX", unpackedDir]);
  const places = { app: repository, node: dirname(process.execPath), kluctl: dirname(kluctl) };
  const pod = await createPod(dir, places);
  return {
    pod,
    kluctl: join(pod.at(places.kluctl), basename(kluctl)),
    unpackedDir,
    node: (script, ...args) =>
      pod.command(join(pod.at(places.node), "node"), [join(pod.at(places.app), script), ...args]),
    async write(name, text) {
      const path = join(pod.data, name);
      await writeFile(path, text, { mode: 0o600 });
      await chown(path, pod.uid, pod.uid).catch(() => undefined); // owned by the pod's user
      return path;
    },
  };
}
