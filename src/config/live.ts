/** The configuration in effect. Consumers read `now` when they need it, or follow changes if they have to prepare for them. */
import type { Config } from "../config.ts";

export interface LiveConfig {
  readonly now: Config;
  /** Called before each change. An error rejects the whole change; `undefined`: nothing to do. */
  follow(prepare: Prepare): void;
  /** Applies the whole change or, if it throws, nothing. */
  change(next: Config): Promise<void>;
}

export type Prepare = (next: Config, current: Config) => Prepared | undefined | Promise<Prepared | undefined>;

export interface Prepared {
  /** Applies the change; must not throw. */
  take(): void;
  /** Releases what was prepared if the change is rejected. */
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
