/** Takes over what of a configuration can change while the server runs: secrets of webhooks, logins for forges' APIs. */
import type { Reading } from "../cli/commands.ts";
import { type Config, secretValues } from "../config.ts";
import { startReloading } from "../config/reloading.ts";
import { toWebhookSource } from "../forge/create-webhook-source.ts";
import type { ReplaceableForge } from "../forge/replaceable-forge.ts";
import type { WebhookSource } from "../forge/webhook-source.ts";
import type { Logger } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import type { Clock } from "../ports.ts";
import { openForge } from "./previews.ts";

export interface ReloadDeps {
  readonly config: Config;
  readonly reading: Reading;
  readonly webhookSources: Map<string, WebhookSource>;
  readonly forges: ReadonlyMap<string, ReplaceableForge>;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Returns how to stop. */
export function startReload(deps: ReloadDeps): () => Promise<void> {
  const { config, reading, webhookSources, forges, metrics, log } = deps;
  return startReloading({
    config,
    load: reading.load,
    everyMs: reading.everyMs,
    async apply({ webhooks, logins }, next) {
      // Before anything uses them. Those of before stay hidden: a line that is written later may still hold one.
      reading.secrets.add(secretValues(next));
      // All that can fail comes before anything is exchanged.
      const sources = webhooks.map((forge) => [forge.id, toWebhookSource(forge)] as const);
      const opened = await Promise.all(logins.map((forge) => openForge(forge, next, deps)));
      for (const [id, source] of sources) webhookSources.set(id, source);
      for (const forge of opened) if (forge) forges.get(forge.id)?.replace(forge);
    },
    observe: metrics.outside,
    log,
  });
}
