/** Keeps in Redis how often the sweep asks for each repository's refs, so that every replica's page can show it. */
import type { Redis } from "ioredis";
import { parseJson } from "../kit/json.ts";
import { SweepPace } from "../model/sweep-pace.ts";
import type { SweepPaceStore } from "../ports.ts";
import { createReadiness, withinDeadline } from "./connection.ts";

export interface SweepPacesStoreDeps {
  /** A producer's connection, see connection.ts. */
  readonly connection: Redis;
  /** The prefix of all keys in Redis. */
  readonly prefix: string;
}

/** The sweep records each repository once an hour: what is older than this is of one that it no longer asks for. */
const keepMs = 3 * 3_600_000;

export function createSweepPaceStore({ connection, prefix }: SweepPacesStoreDeps): SweepPaceStore {
  const ready = createReadiness(connection);
  const key = `${prefix}:sweep-paces`;

  async function inTime<T>(what: string, work: () => Promise<T>): Promise<T> {
    return withinDeadline(what, 2_000, async (signal) => {
      await ready(signal);
      return work();
    });
  }

  return {
    async all() {
      const found = await inTime("return the intervals of the sweep", async () => connection.hvals(key));
      const oldest = Date.now() - keepMs;
      return found.flatMap((json) => SweepPace.safeParse(parseJson(json)).data ?? []).filter(({ at }) => at > oldest);
    },
    async save(pace) {
      await inTime("record an interval of the sweep", async () =>
        connection.multi().hset(key, pace.repo, JSON.stringify(pace)).pexpire(key, keepMs).exec(),
      );
    },
  };
}
