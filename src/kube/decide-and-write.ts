import { setTimeout as sleep } from "node:timers/promises";
import { ApiError } from "../errors.ts";

const maxTries = 6;

/**
 * Reads, decides and writes what was decided, unless somebody wrote in between: then once more. Nothing is written of
 * what is not there, or if nothing is decided.
 *
 * @param write refused by the API server with a conflict unless it is of the version that was read.
 */
export async function decideAndWrite<Read, Decided>(
  read: () => Promise<Read | undefined>,
  decide: (found: Read) => Decided | undefined,
  write: (found: Read, decided: Decided) => Promise<unknown>,
): Promise<void> {
  for (let tries = 1; ; tries++) {
    const found = await read();
    const decided = found && decide(found);
    if (found === undefined || decided === undefined) return;
    try {
      await write(found, decided);
      return;
    } catch (error) {
      const status = error instanceof ApiError ? error.status : 0;
      if (status === 404) return;
      if (status !== 409 || tries >= maxTries) throw error;
      await sleep(50 + Math.random() * 100);
    }
  }
}
