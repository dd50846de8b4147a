import { setTimeout as sleep } from "node:timers/promises";
import { ApiError } from "../errors.ts";

const maxTries = 6;

/**
 * Reads, decides and writes the decision, and starts over if the resource was changed in between. Nothing is written if
 * the resource does not exist or `decide` returns nothing.
 *
 * @param write must be rejected by the API server with a conflict unless the version that was read is still current.
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
