/** Notices that webhooks do not arrive: the sweep finds pushes that no delivery named. */
import type { DeliveryRecord } from "../model/delivery-record.ts";
import type { FoundPush, MissedPushes } from "../model.ts";
import type { Clock, MissedPushStore } from "../ports.ts";
import { namesCommit } from "./webhook-evidence.ts";

export interface MissedWebhooksDeps {
  /** Forges that send webhooks, by id. */
  readonly senders: () => readonly string[];
  /** Whether the forge may report about the repository with this URL. */
  readonly speaksFor: (forge: string, url: string) => boolean;
  /** Whether it has to: others report about it only if they have done so before. */
  readonly isHostedBy: (forge: string, url: string) => boolean;
  readonly deliveries: { latest(forge: string): Promise<readonly DeliveryRecord[]> };
  readonly store: MissedPushStore;
  readonly observe: (forge: string) => void;
  /** Finds out why. Returns at once. */
  readonly explain?: ((forge: string, missed: MissedPushes) => void) | undefined;
  readonly clock: Clock;
}

export interface MissedWebhooks {
  /** Resolves to the repositories of pushes that were not known to be missed. Throws QueueUnavailableError. */
  note(found: readonly FoundPush[]): Promise<readonly string[]>;
  /** The repositories of which no webhook has come since. Throws QueueUnavailableError. */
  missed(forge: string): Promise<readonly MissedPushes[]>;
}

export function createMissedWebhooks(deps: MissedWebhooksDeps): MissedWebhooks {
  const { senders, speaksFor, deliveries, store, observe, clock } = deps;

  /** `latest`: deliveries of the forge. */
  async function withoutOver(
    forge: string,
    all: readonly MissedPushes[],
    latest: readonly DeliveryRecord[],
  ): Promise<readonly MissedPushes[]> {
    const over = all.filter((one) =>
      latest.some((delivery) => delivery.at > one.lastAt && isAbout(delivery, one.repo)),
    );
    for (const { repo } of over) await store.remove(forge, repo);
    return all.filter((one) => !over.includes(one));
  }

  return {
    async missed(forge) {
      const all = await store.all(forge);
      return all.length === 0 ? [] : withoutOver(forge, all, await deliveries.latest(forge));
    },
    async note(found) {
      const added: string[] = [];
      const pushes = new Map(found.map((push) => [`${push.repo} ${push.commit ?? ""}`, push]));
      for (const forge of senders()) {
        const here = [...pushes.values()].filter(({ url }) => speaksFor(forge, url));
        if (here.length === 0) continue;
        const latest = await deliveries.latest(forge);
        const isExpected = ({ repo, url }: FoundPush) =>
          deps.isHostedBy(forge, url) || latest.some((one) => isAbout(one, repo));
        const unheard = here.filter(
          (push) =>
            push.commit !== undefined && !latest.some((one) => namesCommit(one, push.commit)) && isExpected(push),
        );
        const known = new Map((await withoutOver(forge, await store.all(forge), latest)).map((one) => [one.repo, one]));
        for (const { repo, ref, commit } of unheard) {
          const before = known.get(repo);
          // The sweep finds a commit again until it is deployed.
          if (before?.commit === commit) continue;
          const now = clock.now();
          const next: MissedPushes = {
            ...{ v: 1, repo, ref, since: before?.since ?? now, lastAt: now, count: (before?.count ?? 0) + 1 },
            ...(commit !== undefined && { commit }),
            ...(before?.reason && { reason: before.reason }),
          };
          known.set(repo, next);
          await store.save(forge, next);
          observe(forge);
          deps.explain?.(forge, next);
          added.push(repo);
        }
      }
      return added;
    },
  };
}

function isAbout({ refused, event, repoName }: DeliveryRecord, repo: string): boolean {
  return (
    refused === undefined &&
    event === "push" &&
    repoName !== undefined &&
    repo.toLowerCase().endsWith(`/${repoName.toLowerCase()}`)
  );
}
