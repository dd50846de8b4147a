/** Finds what servers that have ended left behind. */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Journal } from "./journal.ts";
import type { Replica } from "./replica.ts";

/** Longer than any run of kluctl in an episode. */
const betweenLooksMs = 20_000;

/** Processes of all lives that have ended, and work directories that belong to no run. */
export async function findLeftovers(
  replicas: readonly Pick<Replica, "name" | "dataDir" | "orphans" | "isAlive">[],
  journal: Pick<Journal, "runs">,
  secondLookAfterMs = betweenLooksMs,
): Promise<string[]> {
  const processes = replicas.flatMap((replica) =>
    replica.orphans().map(({ pid, command }) => `${replica.name}: process ${pid}: ${command.slice(0, 100)}`),
  );
  // Only live servers count: they removed leftovers when they started. A dead one does so when it comes back.
  const living = replicas.filter((replica) => replica.isAlive());
  const alive = journal.runs().filter(({ endedAt }) => endedAt === undefined).length;
  const findDirectories = async (): Promise<string[]> => {
    const work = living.map(async ({ name, dataDir }) =>
      (await jobsOf(dataDir)).map((job) => `${name}: work directory ${job}`),
    );
    return (await Promise.all(work)).flat();
  };
  let left = alive > 0 ? [] : await findDirectories();
  if (left.length > 0) {
    // A check that audits a skip may be about to start: it has a directory before the journal knows of it.
    await sleep(secondLookAfterMs);
    const still = await findDirectories();
    left = left.filter((one) => still.includes(one));
  }
  return [...processes, ...left];
}

/** The work directories of kluctl runs. */
async function jobsOf(dataDir: string): Promise<string[]> {
  const found = await readdir(join(dataDir, "kluctl-work"), { withFileTypes: true }).catch(() => []);
  return found.filter((entry) => entry.isDirectory() && /^\d+-/.test(entry.name)).map(({ name }) => name);
}
