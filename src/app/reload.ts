/** Applies configuration changes at run time: secrets, and values that are read when they are needed. */
import type { Reading } from "../cli/commands.ts";
import { knownSecrets } from "../config.ts";
import type { LiveConfig } from "../config/live.ts";
import { type ReloadingDeps, startReloading } from "../config/reloading.ts";
import type { Logger } from "../log.ts";
import type { Metrics } from "../metrics.ts";

export interface ReloadDeps {
  readonly live: LiveConfig;
  readonly reading: Reading;
  readonly metrics: Pick<Metrics, "outside">;
  readonly emitEvent?: ReloadingDeps["emitEvent"];
  readonly log: Logger;
}

/** Returns a function that stops it. */
export function startReload({ live, reading, metrics, emitEvent, log }: ReloadDeps): () => Promise<void> {
  live.onChange((next, previous) => {
    // Child loggers follow.
    if (next.log.level !== previous.log.level) log.level = next.log.level;
  });
  return startReloading({
    live,
    load: reading.load,
    everyMs: reading.everyMs,
    // Before anything uses the new secrets. The previous ones stay redacted, because later lines may still contain
    // them.
    onRead: (next) => reading.secrets.add(knownSecrets(next)),
    observe: metrics.outside,
    emitEvent,
    log,
  });
}
