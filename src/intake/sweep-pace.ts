/**
 * Decides how often the sweep asks for the refs of each repository: rarely while webhooks are proven to report its
 * pushes, often while they are missing. Kept in memory: after a restart, nothing is proven. Nothing but the time until a
 * lost webhook is noticed depends on it.
 */
import { createBoundedMap } from "../kit/bounded-map.ts";
import type { DeliveryRecord } from "../model/delivery-record.ts";
import type { FoundPush, MissedPushes, SweepPace } from "../model.ts";
import type { Clock, SweepPaceStore } from "../ports.ts";
import type { MissedWebhooks } from "./missed-webhooks.ts";
import { intervalOf, judgePushes, noEvidence, paceOf, type WebhookEvidence } from "./webhook-evidence.ts";

export interface SweepPacesDeps {
  /** The interval without evidence. */
  readonly usualMs: (url: string) => number;
  /** Whether evidence counts. */
  readonly isAdaptive: () => boolean;
  /** Ids of the forges whose webhooks report about the repository with this URL. */
  readonly sendersFor: (url: string) => readonly string[];
  readonly deliveries: { latest(forge: string): Promise<readonly DeliveryRecord[]> };
  readonly missedWebhooks: Pick<MissedWebhooks, "missed">;
  /** Finds out why webhooks are missing. Returns at once. */
  readonly explain?: ((forge: string, missed: MissedPushes) => void) | undefined;
  readonly store: Pick<SweepPaceStore, "save">;
  readonly clock: Clock;
}

interface SweptRepository {
  readonly repo: string;
  readonly url: string;
}

export interface SweepPaces {
  /** How often it is a repository's turn, milliseconds. */
  everyMs(repo: SweptRepository): number;
  /** For how long it may be left out while no webhook reports anything: what a lost webhook costs at most. */
  longestMs(repo: SweptRepository): number;
  /** A push of the repository was found that no webhook had reported. */
  missed(repo: string): void;
  /** Takes what the sweep saw of a repository: all refs that deployments follow. Throws QueueUnavailableError. */
  looked(refs: readonly FoundPush[]): Promise<void>;
}

interface Known {
  evidence: WebhookEvidence;
  readonly commits: Map<string, string>;
  /** Seen at the last look, and judged at the next one. */
  unjudged: readonly string[];
  recorded?: SweepPace | undefined;
}

const mostRepositories = 5_000;
const mostUnjudged = 100;
const recordEveryMs = 3_600_000;

export function createSweepPaces(deps: SweepPacesDeps): SweepPaces {
  const { usualMs, sendersFor, deliveries, missedWebhooks, store, clock } = deps;
  const known = createBoundedMap<Known>({ entries: mostRepositories });

  function paceNow(repo: string) {
    return deps.isAdaptive() ? paceOf(known.get(repo)?.evidence ?? noEvidence, clock.now()) : "usual";
  }

  const longestMs: SweepPaces["longestMs"] = ({ repo, url }) => intervalOf(paceNow(repo), usualMs(url));

  /** Whether the last pushes of the repository are still those that no webhook reported. */
  async function isStillMissing(repo: string, senders: readonly string[]): Promise<boolean> {
    let isMissing = false;
    for (const forge of senders) {
      const missed = (await missedWebhooks.missed(forge)).find((one) => one.repo === repo);
      if (missed === undefined) continue;
      isMissing = true;
      deps.explain?.(forge, missed);
    }
    return isMissing;
  }

  async function record(repo: string, url: string, of: Known): Promise<void> {
    const next: SweepPace = { v: 1, repo, pace: paceNow(repo), everyMs: longestMs({ repo, url }), at: clock.now() };
    const { recorded } = of;
    const isSame = recorded?.pace === next.pace && recorded.everyMs === next.everyMs;
    if (isSame && next.at - recorded.at < recordEveryMs) return;
    await store.save(next);
    of.recorded = next;
  }

  return {
    everyMs: (of) => Math.min(longestMs(of), usualMs(of.url)),
    longestMs,
    missed(repo) {
      const of = known.get(repo);
      if (of) of.evidence = { ...of.evidence, isMissing: true };
    },
    async looked(refs) {
      const [first] = refs;
      if (first === undefined) return;
      const { repo, url } = first;
      const before = known.get(repo);
      const of: Known = before ?? { evidence: noEvidence, commits: new Map(), unjudged: [] };
      if (before === undefined) known.set(repo, of);
      const seen = takeMoves(of.commits, refs);
      const [judged, isFirst] = [of.unjudged, before === undefined];
      of.unjudged = [...judged, ...seen].slice(-mostUnjudged); // until they are: Redis may be unavailable
      const senders = sendersFor(url);
      if (judged.length > 0) {
        const latest = await Promise.all(senders.map((forge) => deliveries.latest(forge)));
        of.evidence = judgePushes(of.evidence, judged, latest.flat());
      }
      of.unjudged = seen;
      if (isFirst || of.evidence.isMissing) {
        of.evidence = { ...of.evidence, isMissing: await isStillMissing(repo, senders) };
      }
      await record(repo, url, of);
    },
  };
}

/** The commits to which refs have moved since they were last seen. A ref that is seen for the first time proves nothing. */
function takeMoves(commits: Map<string, string>, refs: readonly FoundPush[]): readonly string[] {
  const moved = new Set<string>();
  for (const { ref, commit } of refs) {
    if (commit === undefined) continue;
    const before = commits.get(ref);
    if (before !== undefined && before !== commit) moved.add(commit);
    commits.set(ref, commit);
  }
  return [...moved];
}
