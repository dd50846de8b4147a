/** The configuration in effect. Who reads it when it is needed sees the new one; who has more to do than that follows it. */
import type { Config } from "../config.ts";

export interface LiveConfig {
  readonly now: Config;
  /** Called before each change. What throws keeps all of it from happening. `undefined`: it is nothing to this one. */
  follow(prepare: Prepare): void;
  /** All of it, or, if it throws, nothing. */
  change(next: Config): Promise<void>;
}

export type Prepare = (next: Config, current: Config) => Prepared | undefined | Promise<Prepared | undefined>;

export interface Prepared {
  /** Cannot fail. */
  take(): void;
  /** Gives back what was prepared and is not taken. */
  drop?: (() => void) | undefined;
}

export function createLiveConfig(first: Config): LiveConfig {
  let now = first;
  const followers: Prepare[] = [];
  return {
    get now() {
      return now;
    },
    follow: (prepare) => void followers.push(prepare),
    async change(next) {
      const prepared = await Promise.allSettled(followers.map(async (prepare) => prepare(next, now)));
      const ready = prepared.flatMap((one) => (one.status === "fulfilled" ? (one.value ?? []) : []));
      const failed = prepared.filter((one) => one.status === "rejected");
      if (failed.length > 0) {
        for (const { drop } of ready) drop?.();
        throw new Error(failed.map(({ reason }) => (reason as Error).message).join("; "));
      }
      now = next;
      for (const { take } of ready) take();
    },
  };
}
