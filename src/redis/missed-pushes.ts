/** Keeps in Redis which pushes no webhook reported. History only: if Redis loses it, it is counted from the next one on. */
import type { Redis } from "ioredis";
import { MissedPushes, MissReason } from "../model/missed-push.ts";
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
  /** In a hash of their own: the sweep counts while a reason is looked for, and neither may overwrite the other. */
  const reasonsOf = (forge: string) => `${prefix}:missed-reasons:${forge}`;

  async function inTime<T>(what: string, work: () => Promise<T>): Promise<T> {
    return withinDeadline(what, 2_000, async (signal) => {
      await ready(signal);
      return work();
    });
  }

  return {
    async all(forge) {
      const [found, reasons] = await inTime("return missed pushes", async () =>
        Promise.all([connection.hvals(keyOf(forge)), connection.hgetall(reasonsOf(forge))]),
      );
      return found.flatMap((json) => {
        const { data } = MissedPushes.safeParse(parseJson(json));
        if (data === undefined) return [];
        const { data: reason } = MissReason.safeParse(parseJson(reasons[data.repo] ?? ""));
        return reason === undefined ? data : { ...data, reason };
      });
    },
    async save(forge, { reason: _, ...missed }) {
      await inTime("record a missed push", async () =>
        connection.multi().hset(keyOf(forge), missed.repo, JSON.stringify(missed)).pexpire(keyOf(forge), keepMs).exec(),
      );
    },
    async saveReason(forge, repo, reason) {
      const key = reasonsOf(forge);
      await inTime("record why pushes were missed", async () =>
        connection.multi().hset(key, repo, JSON.stringify(reason)).pexpire(key, keepMs).exec(),
      );
    },
    async remove(forge, repo) {
      await inTime("remove missed pushes", async () =>
        connection.multi().hdel(keyOf(forge), repo).hdel(reasonsOf(forge), repo).exec(),
      );
    },
  };
}
