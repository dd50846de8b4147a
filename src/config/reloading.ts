/**
 * Looks now and then whether the configuration's files say something else, and has that taken over. By reading them, not by
 * being told: Kubernetes changes a mounted Secret by turning a link around, and some file systems tell of nothing.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Config } from "../config.ts";
import type { Logger } from "../log.ts";
import { compareConfigs, type ConfigChange, fingerprint } from "./compare.ts";

export interface ReloadingDeps {
  /** What the server runs with. */
  readonly config: Config;
  /** Reads all of it anew. Throws an error that names every problem, and no value. */
  readonly load: () => Config;
  /** Takes over what can be. If it throws, the last good one stays in effect. */
  readonly apply: (change: ConfigChange, next: Config) => Promise<void>;
  readonly observe: { configLoaded(ok: boolean, restart: boolean): void };
  readonly log: Logger;
  readonly everyMs?: number | undefined;
}

/** A file that is being written is read twice: it is taken over when it says the same again. */
const settleMs = 500;

/** Returns how to stop. */
export function startReloading({ load, apply, observe, log, everyMs = 5_000, ...deps }: ReloadingDeps) {
  const started = deps.config;
  const stopped = new AbortController();
  const { signal } = stopped;
  let config = started;
  let problem: string | undefined;
  let told = "";

  async function look(): Promise<void> {
    const next = load();
    if (fingerprint(next) === fingerprint(config)) return;
    await sleep(Math.min(settleMs, everyMs), undefined, { signal });
    if (fingerprint(load()) !== fingerprint(next)) return; // still being written: the next look sees it whole
    const change = compareConfigs(config, next);
    await apply(change, next);
    config = next;
    const webhookSecrets = change.webhooks.map(({ id }) => id);
    const logins = change.logins.map(({ id }) => id);
    if (webhookSecrets.length + logins.length > 0)
      log.info({ webhookSecrets, logins }, "the configuration was reloaded");
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
        log.error(
          { error: message },
          "the configuration cannot be used as it is now: the last good one stays in effect",
        );
      }
      problem = message;
    }
    const { restart } = compareConfigs(started, config);
    const waiting = restart.join(", ");
    if (waiting !== told && waiting !== "") {
      log.warn({ keys: restart }, "these keys have changed and are read at the start only: restart the server");
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
