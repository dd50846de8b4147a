/**
 * The configured git hosts, which follow the live configuration: senders of webhooks, and forges with a login for their
 * API.
 */
import { changedForgeConfigs } from "../config/compare.ts";
import type { LiveConfig } from "../config/live.ts";
import { findAccount } from "../forge/account.ts";
import { toWebhookSource } from "../forge/create-webhook-source.ts";
import { createSpeaksFor, type SpeaksFor } from "../forge/forge-hosts.ts";
import type { WebhookSource } from "../forge/webhook-source.ts";
import type { ForgeConfig } from "../config.ts";
import type { Logger } from "../log.ts";
import type { Forge } from "../ports.ts";
import { type ForgesDeps, loginOf, openForge } from "./previews.ts";

export interface LiveForges {
  /** The forges with a login for their API, by id. */
  readonly forges: ReadonlyMap<string, Forge>;
  /** All senders of webhooks, by forge id. */
  readonly webhookSources: ReadonlyMap<string, WebhookSource>;
  readonly speaksFor: SpeaksFor;
}

/** Work in progress continues with the previous login; lookups in the map return the new one. */
export async function openLiveForges(live: LiveConfig, deps: ForgesDeps): Promise<LiveForges> {
  const forges = new Map<string, Forge>();
  const webhookSources = new Map<string, WebhookSource>();

  let speaksFor = createSpeaksFor(live.now.forges);

  live.follow(async (next, current) => {
    const changed = changedForgeConfigs(current.forges, next.forges);
    const gone = current.forges.filter(({ id }) => !next.forges.some((forge) => forge.id === id));
    const reopened = next.statusName === current.statusName ? changed : next.forges;
    if (reopened.length + gone.length === 0) return undefined;
    const take = await open(changed, reopened, next.statusName);
    return {
      take() {
        for (const { id } of gone) {
          webhookSources.delete(id);
          forges.delete(id);
        }
        take();
        speaksFor = createSpeaksFor(next.forges);
        void checkLogins(changed, deps.log);
      },
    };
  });

  /** Everything that can fail happens before anything is replaced. */
  async function open(all: readonly ForgeConfig[], withApi: readonly ForgeConfig[], statusName: string) {
    const sources = all.map((forge) => [forge.id, toWebhookSource(forge)] as const);
    const opened = await Promise.all(
      withApi.map(async (forge) => [forge.id, await openForge(forge, { statusName }, deps)] as const),
    );
    return function take(): void {
      for (const [id, source] of sources) webhookSources.set(id, source);
      for (const [id, forge] of opened) {
        if (forge) forges.set(id, forge);
        else forges.delete(id);
      }
    };
  }

  const { forges: first, statusName } = live.now;
  (await open(first, first, statusName))();
  return { forges, webhookSources, speaksFor: (...what) => speaksFor(...what) };
}

/** Logs whether the logins work. A forge that is down does not prevent the start. */
export async function checkLogins(forges: readonly ForgeConfig[], log: Logger): Promise<void> {
  for (const forge of forges) {
    const { id, kind, apiUrl } = forge;
    const login = loginOf(forge);
    if (login === undefined) continue;
    try {
      log.info({ forge: id, user: await findAccount({ kind, apiUrl, login, log }) }, "forge login works");
    } catch (error) {
      log.warn({ forge: id, error: (error as Error).message }, "forge login failed");
    }
  }
}
