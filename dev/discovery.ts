/** How a test run finds the parts of a running `npm run dev`, to use them instead of starting its own. */
import { createHash } from "node:crypto";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { cacheDir } from "./cache.ts";
import type { Addresses } from "./world.ts";

export interface RunningWorld {
  readonly pid: number;
  readonly addresses: Partial<Addresses>;
}

/** One for each checkout: another one's cluster may know other resources. */
function file(): string {
  const checkout = createHash("sha256")
    .update(import.meta.dirname)
    .digest("hex")
    .slice(0, 8);
  return join(cacheDir(), `dev-world-${checkout}.json`);
}

/** Makes the world known until the returned function is called. A second one does not take the first one's place. */
export async function announceWorld(world: RunningWorld): Promise<() => Promise<void>> {
  if (await findRunningWorld()) return async () => undefined;
  await mkdir(dirname(file()), { recursive: true });
  const partial = `${file()}.${world.pid}`;
  await writeFile(partial, JSON.stringify(world), { mode: 0o600 }); // it holds the git host's token
  await rename(partial, file());
  return () => rm(file(), { force: true });
}

/** Nothing is reused where `CI` is set: there a result has to be the checkout's own. */
export async function findRunningWorld(env: NodeJS.ProcessEnv = process.env): Promise<RunningWorld | undefined> {
  if (env["CI"]) return undefined;
  try {
    const world = JSON.parse(await readFile(file(), "utf8")) as RunningWorld;
    process.kill(world.pid, 0);
    return world;
  } catch {
    return undefined; // none, or it was killed
  }
}
