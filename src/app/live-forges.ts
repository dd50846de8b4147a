/** The configured git hosts: senders of webhooks, and forges with a login for their API. Both use rotated secrets. */
import { changedForgeConfigs } from "../config/compare.ts";
import type { LiveConfig } from "../config/live.ts";
import { findAccount } from "../forge/account.ts";
import { type LoginChecks, startLoginChecks } from "../forge/login-checks.ts";
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
  readonly logins: LoginChecks;
}

/** Work in progress continues with the previous secrets; lookups in the maps return forges with the new ones. */
export async function openLiveForges(live: LiveConfig, deps: ForgesDeps): Promise<LiveForges> {
  const forges = new Map<string, Forge>();
  const webhookSources = new Map<string, WebhookSource>();

  async function open(all: readonly ForgeConfig[]): Promise<void> {
    for (const forge of all.filter(({ webhooks }) => webhooks)) webhookSources.set(forge.id, toWebhookSource(forge));
    const withApi = all.map(async (forge) => [forge.id, await openForge(forge, live.now, deps)] as const);
    for (const [id, forge] of await Promise.all(withApi)) if (forge) forges.set(id, forge);
  }

  const { clock, log } = deps;
  const logins = startLoginChecks({ forges: () => accountsOf(live.now.forges, log), clock, log });
  live.onChange((next, previous) => {
    const changed = changedForgeConfigs(previous.forges, next.forges);
    open(changed).then(
      () => logins.check(changed.map(({ id }) => id)),
      (error: unknown) => deps.log.error({ err: error }, "could not use the new login of a forge"),
    );
  });
  await open(live.now.forges);
  return { forges, webhookSources, speaksFor: createSpeaksFor(live.now.forges), logins };
}

function accountsOf(forges: readonly ForgeConfig[], log: Logger) {
  return forges.flatMap((forge) => {
    const { id, kind, apiUrl } = forge;
    const login = loginOf(forge);
    return login === undefined ? [] : [{ id, account: () => findAccount({ kind, apiUrl, login, log }) }];
  });
}
