/**
 * Reloads the configuration when its files change. It polls the files instead of watching them, because Kubernetes updates a
 * mounted Secret by replacing a symbolic link, and some file systems report no changes.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Config } from "../config.ts";
import type { Logger } from "../log.ts";
import { changedKeys, fingerprint } from "./compare.ts";
import type { LiveConfig } from "./live.ts";
import { takeLive } from "./live-keys.ts";

export interface ReloadingDeps {
  readonly live: LiveConfig;
  /** Loads the configuration again. Throws an error that names every problem, and no values. */
  readonly load: () => Config;
  /** Called with a new configuration before it takes effect. */
  readonly onRead?: ((next: Config) => void) | undefined;
  readonly observe: { configLoaded(ok: boolean, restart: boolean): void };
  /** Writes an Event. */
  readonly emitEvent?: ((type: "Normal" | "Warning", reason: string, message: string) => void) | undefined;
  readonly log: Logger;
  readonly everyMs?: number | undefined;
}

/** A change takes effect once two reads this far apart agree, so that a file is never used while it is being written. */
const settleMs = 500;

/** Returns a function that stops it. */
export function startReloading({ live, load, onRead, observe, emitEvent, log, everyMs = 5_000 }: ReloadingDeps) {
  const stopped = new AbortController();
  const { signal } = stopped;
  let seen = live.now;
  /** As loaded last, and in effect as far as possible. */
  let checked: Config | undefined;
  let problem: string | undefined;
  let reported = "";

  async function check(): Promise<void> {
    const next = load();
    if (next === checked) return; // no file has changed
    if (fingerprint(next) === fingerprint(seen) || (await take(next))) checked = next;
  }

  /** Returns whether the configuration was taken; if not, it is still being written, and the next check reads it again. */
  async function take(next: Config): Promise<boolean> {
    await sleep(Math.min(settleMs, everyMs), undefined, { signal });
    if (fingerprint(load()) !== fingerprint(next)) return false;
    onRead?.(next);
    const usable = takeLive(live.now, next);
    const keys = changedKeys(live.now, usable);
    if (keys.length > 0) {
      live.change(usable);
      log.info({ keys }, "configuration reloaded");
      emitEvent?.("Normal", "ConfigReloaded", `Configuration reloaded: ${keys.join(", ")}.`);
    }
    seen = next;
    return true;
  }

  async function checkAndReport(): Promise<void> {
    try {
      await check();
      if (problem !== undefined) log.info("configuration is valid again");
      problem = undefined;
    } catch (error) {
      if (signal.aborted) return;
      const { message } = error as Error;
      if (problem !== message) {
        const what = "configuration not reloaded: the previous one stays in effect";
        log.error({ error: message }, what);
        emitEvent?.("Warning", "ConfigNotReloaded", `C${what.slice(1)}. ${message}`);
      }
      problem = message;
    }
    const restart = changedKeys(live.now, seen);
    const waiting = restart.join(", ");
    if (waiting !== reported && waiting !== "") {
      const what = "restart needed: changed keys take effect at start only";
      log.warn({ keys: restart }, what);
      emitEvent?.("Warning", "RestartNeeded", `R${what.slice(1)}: ${waiting}.`);
    }
    reported = waiting;
    observe.configLoaded(problem === undefined, restart.length > 0);
  }

  async function run(): Promise<void> {
    for (;;) {
      await sleep(everyMs, undefined, { signal, ref: false });
      await checkAndReport();
    }
  }

  observe.configLoaded(true, false);
  const running = run().catch((error: unknown) => {
    if (!signal.aborted) log.error({ err: error }, "configuration reloading stopped");
  });
  return async function stop(): Promise<void> {
    stopped.abort();
    await running;
  };
}
