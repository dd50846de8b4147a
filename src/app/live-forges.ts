/** The configured git hosts: senders of webhooks, and forges with a login for their API. Both use rotated secrets. */
import { changedForgeConfigs } from "../config/compare.ts";
import type { LiveConfig } from "../config/live.ts";
import { findAccount } from "../forge/account.ts";
import { type LoginChecks, startLoginChecks } from "../forge/login-checks.ts";
import { createHostWebhooks, type HostWebhooksOptions } from "../forge/create-host-webhooks.ts";
import { toWebhookSource } from "../forge/create-webhook-source.ts";
import { createRest, type Rest } from "../forge/rest.ts";
import { createIsHostedBy, createSpeaksFor, type SpeaksFor } from "../forge/forge-hosts.ts";
import type { WebhookSource } from "../forge/webhook-source.ts";
import type { ForgeConfig } from "../config.ts";
import { around } from "../kit/around.ts";
import { createBoundedMap } from "../kit/bounded-map.ts";
import type { Logger } from "../log.ts";
import type { Forge, HostWebhooks } from "../ports.ts";
import { type ForgesDeps, loginOf, noteRateLimit, openForge } from "./previews.ts";

export interface LiveForges {
  /** The forges with a login for their API, by id. */
  readonly forges: ReadonlyMap<string, Forge>;
  /** All senders of webhooks, by forge id. */
  readonly webhookSources: ReadonlyMap<string, WebhookSource>;
  readonly speaksFor: SpeaksFor;
  /** Whether a repository is on a host of the forge. */
  readonly isHostedBy: SpeaksFor;
  readonly logins: LoginChecks;
  /** Ids of the forges that may report about a repository with this URL, by whether they send webhooks. */
  readonly hostsOfRepo: (url: string) => { readonly sending: readonly string[]; readonly polled: readonly string[] };
  /** The webhooks at the host of a forge; `undefined` if it has no login for its API. */
  readonly hostWebhooks: (forge: string) => HostWebhooks | undefined;
}

/** Work in progress continues with the previous secrets; lookups in the maps return forges with the new ones. */
export async function openLiveForges(live: LiveConfig, deps: ForgesDeps): Promise<LiveForges> {
  const forges = new Map<string, Forge>();
  const webhookSources = new Map<string, WebhookSource>();
  const rests = new Map<string, Rest>();
  const { clock, log } = deps;

  async function open(all: readonly ForgeConfig[]): Promise<void> {
    for (const forge of all.filter(({ webhooks }) => webhooks)) webhookSources.set(forge.id, toWebhookSource(forge));
    const withApi = all.map(async (forge) => {
      const rest = createRest(forge.id, clock, (until) => deps.metrics.outside.forgeRests(forge.id, until));
      return [forge.id, rest, await openForge(forge, live.now, rest, deps)] as const;
    });
    for (const [id, rest, forge] of await Promise.all(withApi)) {
      if (forge === undefined) continue;
      forges.set(id, forge);
      rests.set(id, rest);
    }
  }

  const logins = startLoginChecks({ forges: () => accountsOf(live.now.forges, rests, log), clock, log });
  live.onChange((next, previous) => {
    const changed = changedForgeConfigs(previous.forges, next.forges);
    open(changed).then(
      () => logins.check(changed.map(({ id }) => id)),
      (error: unknown) => deps.log.error({ err: error }, "could not use the new login of a forge"),
    );
  });
  await open(live.now.forges);
  const hostWebhooks = createHostWebhooksOf(live, rests, deps);
  const all = live.now.forges;
  const speaksFor = createSpeaksFor(all);
  return {
    ...{ forges, webhookSources, hostWebhooks, speaksFor, logins },
    isHostedBy: createIsHostedBy(all),
    hostsOfRepo: createHostsOfRepo(all, speaksFor),
  };
}

/** Remembered, because the sweep asks every second; only secrets of forges change while the server runs. */
function createHostsOfRepo(all: readonly ForgeConfig[], speaksFor: SpeaksFor): LiveForges["hostsOfRepo"] {
  const known = createBoundedMap<ReturnType<LiveForges["hostsOfRepo"]>>({ entries: 5_000 });
  return function hostsOfRepo(url) {
    const found = known.get(url);
    if (found !== undefined) return found;
    const its = all.filter(({ id }) => speaksFor(id, url));
    const ids = (webhooks: boolean) => its.filter((forge) => forge.webhooks === webhooks).map(({ id }) => id);
    const made = { sending: ids(true), polled: ids(false) };
    known.set(url, made);
    return made;
  };
}

/** One for each forge, until its configuration changes. They share the metric of the rate limit with the forge. */
function createHostWebhooksOf(
  live: LiveConfig,
  rests: ReadonlyMap<string, Rest>,
  deps: ForgesDeps,
): LiveForges["hostWebhooks"] {
  const known = new WeakMap<ForgeConfig, HostWebhooks>();
  const open = (options: HostWebhooksOptions, rest: Rest) =>
    around<HostWebhooks>(createHostWebhooks(options), { find: (next, ...asked) => rest.ask(() => next(...asked)) });
  return function hostWebhooks(id) {
    const forge = live.now.forges.find((one) => one.id === id);
    const login = forge && loginOf(forge);
    const rest = rests.get(id);
    if (forge === undefined || login === undefined || rest === undefined) return undefined;
    const made = known.get(forge) ?? open({ ...forge, login, onAnswer: noteRateLimit(id, deps), log: deps.log }, rest);
    known.set(forge, made);
    return made;
  };
}

function accountsOf(forges: readonly ForgeConfig[], rests: ReadonlyMap<string, Rest>, log: Logger) {
  return forges.flatMap((forge) => {
    const { id, kind, apiUrl } = forge;
    const login = loginOf(forge);
    const rest = rests.get(id);
    if (login === undefined || rest === undefined) return [];
    return [{ id, account: () => rest.ask(() => findAccount({ kind, apiUrl, login, log })) }];
  });
}
