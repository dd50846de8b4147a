/** Lets a test run find the parts of a running `npm run dev` and use them instead of starting its own. */
import { createHash } from "node:crypto";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { cacheDir } from "./cache.ts";
import type { Addresses } from "./world.ts";

export interface RunningWorld {
  readonly pid: number;
  readonly addresses: Partial<Addresses>;
}

/** One file per checkout, because the cluster of another checkout may have other CRDs. */
function file(): string {
  const checkout = createHash("sha256")
    .update(import.meta.dirname)
    .digest("hex")
    .slice(0, 8);
  return join(cacheDir(), `dev-world-${checkout}.json`);
}

/** Announces the world until the returned function is called. A second world does not replace the first one. */
export async function announceWorld(world: RunningWorld): Promise<() => Promise<void>> {
  if (await findRunningWorld()) return async () => undefined;
  await mkdir(dirname(file()), { recursive: true });
  const partial = `${file()}.${world.pid}`;
  await writeFile(partial, JSON.stringify(world), { mode: 0o600 }); // contains the git host's token
  await rename(partial, file());
  return () => rm(file(), { force: true });
}

/** Returns nothing where `CI` is set: a result there must depend on this checkout only. */
export async function findRunningWorld(env: NodeJS.ProcessEnv = process.env): Promise<RunningWorld | undefined> {
  if (env["CI"]) return undefined;
  try {
    const world = JSON.parse(await readFile(file(), "utf8")) as RunningWorld;
    process.kill(world.pid, 0);
    return world;
  } catch {
    return undefined; // no world was announced, or it was killed
  }
}
