/** Keeps in Redis which pushes no webhook reported. History only: if Redis loses it, it is counted from the next one on. */
import type { Redis } from "ioredis";
import { MissedPushes } from "../model/missed-push.ts";
import { parseJson } from "../kit/json.ts";
import type { MissedPushStore } from "../ports.ts";
import { createReadiness, withinDeadline } from "./connection.ts";

export interface MissedPushesDeps {
  /** A producer's connection, see connection.ts. */
  readonly connection: Redis;
  /** The prefix of all keys in Redis. */
  readonly prefix: string;
}

const keepMs = 30 * 24 * 3_600_000;

export function createMissedPushStore({ connection, prefix }: MissedPushesDeps): MissedPushStore {
  const ready = createReadiness(connection);
  const keyOf = (forge: string) => `${prefix}:missed:${forge}`;

  async function inTime<T>(what: string, work: () => Promise<T>): Promise<T> {
    return withinDeadline(what, 2_000, async (signal) => {
      await ready(signal);
      return work();
    });
  }

  return {
    async all(forge) {
      const found = await inTime("return missed pushes", async () => connection.hvals(keyOf(forge)));
      return found.flatMap((json) => MissedPushes.safeParse(parseJson(json)).data ?? []);
    },
    async save(forge, missed) {
      await inTime("record a missed push", async () =>
        connection.multi().hset(keyOf(forge), missed.repo, JSON.stringify(missed)).pexpire(keyOf(forge), keepMs).exec(),
      );
    },
    async remove(forge, repo) {
      await inTime("remove missed pushes", async () => connection.hdel(keyOf(forge), repo));
    },
  };
}
