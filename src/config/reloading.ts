/**
 * Looks now and then whether the configuration's files say something else, and has that taken over. By reading them, not by
 * being told: Kubernetes changes a mounted Secret by turning a link around, and some file systems tell of nothing.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Config } from "../config.ts";
import type { Logger } from "../log.ts";
import { changedKeys, fingerprint } from "./compare.ts";
import { keepFixed } from "./fixed.ts";
import type { LiveConfig } from "./live.ts";

export interface ReloadingDeps {
  readonly live: LiveConfig;
  /** Reads all of it anew. Throws an error that names every problem, and no value. */
  readonly load: () => Config;
  /** Called with what was read, before anything uses it. */
  readonly onRead?: ((next: Config) => void) | undefined;
  readonly observe: { configLoaded(ok: boolean, restart: boolean): void };
  /** Tells people who do not read the log. */
  readonly tell?: ((type: "Normal" | "Warning", reason: string, message: string) => void) | undefined;
  readonly log: Logger;
  readonly everyMs?: number | undefined;
}

/** A file that is being written is read twice: it is taken over when it says the same again. */
const settleMs = 500;

/** Returns how to stop. */
export function startReloading({ live, load, onRead, observe, tell, log, everyMs = 5_000 }: ReloadingDeps) {
  const stopped = new AbortController();
  const { signal } = stopped;
  let seen = live.now;
  let problem: string | undefined;
  let told = "";

  async function look(): Promise<void> {
    const next = load();
    if (fingerprint(next) === fingerprint(seen)) return;
    await sleep(Math.min(settleMs, everyMs), undefined, { signal });
    if (fingerprint(load()) !== fingerprint(next)) return; // still being written: the next look sees it whole
    onRead?.(next);
    const usable = keepFixed(live.now, next);
    const keys = changedKeys(live.now, usable);
    if (keys.length > 0) {
      await live.change(usable);
      log.info({ keys }, "the configuration was reloaded");
      tell?.("Normal", "ConfigReloaded", `The configuration was reloaded: ${keys.join(", ")}.`);
    }
    seen = next;
  }

  async function lookAndTell(): Promise<void> {
    try {
      await look();
      if (problem !== undefined) log.info("the configuration can be used again");
      problem = undefined;
    } catch (error) {
      if (signal.aborted) return;
      const { message } = error as Error;
      if (problem !== message) {
        const what = "the configuration cannot be used as it is now: the last good one stays in effect";
        log.error({ error: message }, what);
        tell?.("Warning", "ConfigNotReloaded", `T${what.slice(1)}. ${message}`);
      }
      problem = message;
    }
    const restart = changedKeys(live.now, seen);
    const waiting = restart.join(", ");
    if (waiting !== told && waiting !== "") {
      const what = "these keys have changed and are read at the start only: restart the server";
      log.warn({ keys: restart }, what);
      tell?.("Warning", "RestartNeeded", `T${what.slice(1)}: ${waiting}.`);
    }
    told = waiting;
    observe.configLoaded(problem === undefined, restart.length > 0);
  }

  async function run(): Promise<void> {
    for (;;) {
      await sleep(everyMs, undefined, { signal, ref: false });
      await lookAndTell();
    }
  }

  observe.configLoaded(true, false);
  const running = run().catch((error: unknown) => {
    if (!signal.aborted) log.error({ err: error }, "the configuration is not looked at any more");
  });
  return async function stop(): Promise<void> {
    stopped.abort();
    await running;
  };
}
