/**
 * Requests deliveries again that the git host could not deliver, where its API allows that, and where no other sweep
 * finds what they reported. GitHub repeats no delivery by itself, and keeps them for three days.
 */
import { ForgeError } from "../../src/errors.ts";
import { acceptedIds, chooseRedeliveries } from "../../src/intake/redeliveries.ts";
import { createBoundedMap } from "../../src/kit/bounded-map.ts";
import { withTimeout } from "../../src/kit/deadline.ts";
import type { Logger } from "../../src/log.ts";
import type { DeliveryRecord } from "../../src/model/delivery-record.ts";
import { followsGit, type HostWebhook, type RepoId } from "../../src/model.ts";
import type { Clock, Deployments, HostWebhooks } from "../../src/ports.ts";
import type { JobQueue } from "../queue.ts";

/** A forge that sends webhooks and whose API repeats deliveries. */
export interface RedeliveringForge {
  readonly id: string;
  /** `undefined` for a repository of another host. */
  readonly repoName: (repo: RepoId) => string | undefined;
  readonly webhooks: Pick<HostWebhooks, "find">;
}

export interface RedeliveriesSweepDeps {
  readonly deployments: Pick<Deployments, "all">;
  readonly forges: () => readonly RedeliveringForge[];
  readonly deliveries: { latest(forge: string): Promise<readonly DeliveryRecord[]> };
  readonly queue: Pick<JobQueue, "claim">;
  readonly observe?: ((forge: string) => void) | undefined;
  /** When the first sweep runs: by then, the watch must have listed the deployments. */
  readonly firstAfterMs?: number | undefined;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface RedeliveriesSweep {
  /** Webhooks were missing: sweeps now, unless some replica did so within ten minutes. Returns at once. */
  hurry(): void;
  stop(): Promise<void>;
}

const everyMs = 10 * 60_000;
const limitMs = 5 * 60_000;
/** What GitHub keeps. */
const keptMs = 3 * 24 * 3_600_000;
/** A token's webhooks belong to one repository each: so many are read in one sweep, then it is the next ones' turn. */
const repositoriesAtOnce = 20;
/** After this time, a login that may not read a repository's webhooks may have been given the permission. */
const deniedMs = 6 * 3_600_000;
const mostDenied = 2_000;

export function startRedeliveriesSweep(deps: RedeliveriesSweepDeps): RedeliveriesSweep {
  const { deployments, queue, deliveries, clock, log } = deps;
  const stopped = new AbortController();
  const restsUntil = new Map<string, number>();
  const denied = createBoundedMap<number>({ entries: mostDenied });
  /** Forges whose failure has been logged. */
  const silent = new Set<string>();
  /** Per forge, the repository at which the next sweep continues. */
  const turns = new Map<string, number>();
  let sweeping: Promise<unknown> | undefined;

  function sweep(): void {
    sweeping ??= Promise.all(deps.forges().map((forge) => sweepForge(forge))).finally(() => (sweeping = undefined));
  }

  async function sweepForge(forge: RedeliveringForge): Promise<void> {
    const { id } = forge;
    try {
      if ((restsUntil.get(id) ?? 0) > clock.now()) return;
      if (!(await queue.claim(`redeliveries of ${id}`, Math.floor(everyMs * 0.9)))) return;
      const accepted = acceptedIds(await deliveries.latest(id));
      await sweepRepositories(forge, accepted, withTimeout(limitMs, stopped.signal));
      if (silent.delete(id)) log.info({ forge: id }, "failed deliveries can be requested again");
    } catch (error) {
      if (!stopped.signal.aborted) note(id, error as Error);
    }
  }

  async function sweepRepositories(
    forge: RedeliveringForge,
    accepted: ReadonlySet<string>,
    signal: AbortSignal,
  ): Promise<void> {
    const seen = new Set<string>();
    for (const repoName of takeTurn(forge)) {
      const hooks = await findHooks(forge, repoName, signal);
      for (const hook of hooks.filter(({ key }) => !seen.has(key))) {
        seen.add(hook.key);
        await repeatFailed(forge.id, hook, accepted, signal);
      }
      if (hooks.some(({ repository }) => repository !== undefined)) return; // it is that of all repositories
    }
  }

  /** Some of the repositories, so that each gets its turn. */
  function takeTurn({ id, repoName }: RedeliveringForge): readonly string[] {
    const repos = new Set(
      deployments
        .all()
        .filter(followsGit)
        .map(({ repo }) => repo),
    );
    const names = [...repos].sort().flatMap((repo) => repoName(repo) ?? []);
    const now = clock.now();
    const readable = names.filter((name) => now - (denied.get(`${id} ${name}`) ?? -Infinity) >= deniedMs);
    const from = (turns.get(id) ?? 0) % Math.max(readable.length, 1);
    turns.set(id, from + repositoriesAtOnce);
    return [...readable.slice(from), ...readable.slice(0, from)].slice(0, repositoriesAtOnce);
  }

  async function findHooks(
    { id, webhooks }: RedeliveringForge,
    repoName: string,
    signal: AbortSignal,
  ): Promise<readonly HostWebhook[]> {
    try {
      return (await webhooks.find(repoName, signal)).ours;
    } catch (error) {
      if (!(error instanceof ForgeError) || isOfHost(error)) throw error;
      denied.set(`${id} ${repoName}`, clock.now());
      log.debug(
        { forge: id, repo: repoName, error: error.message },
        "cannot read webhooks; nothing is requested again",
      );
      return [];
    }
  }

  async function repeatFailed(
    forge: string,
    { attempts, deliverAgain, host }: HostWebhook,
    accepted: ReadonlySet<string>,
    signal: AbortSignal,
  ): Promise<void> {
    if (attempts === undefined || deliverAgain === undefined) return;
    const now = clock.now();
    for (const attempt of chooseRedeliveries(await attempts(now - keptMs, signal), accepted, now)) {
      await deliverAgain(attempt, signal);
      const { delivery, code } = attempt;
      log.info({ forge, host, delivery, code }, "requested a failed delivery again");
      deps.observe?.(forge);
    }
  }

  function note(forge: string, error: Error): void {
    if (!(error instanceof ForgeError)) {
      // Redis is unavailable, which its monitoring reports, or the host is slow. The next sweep finds the same again.
      log.debug({ forge, error: error.message }, "sweep of failed deliveries postponed");
      return;
    }
    const { problem, message, retryAfterMs = 0 } = error;
    restsUntil.set(forge, clock.now() + retryAfterMs);
    if (!silent.has(forge)) log.warn({ forge, problem, error: message }, "cannot request failed deliveries again");
    silent.add(forge);
  }

  let timer = setTimeout(function next() {
    sweep();
    timer = setTimeout(next, everyMs);
  }, deps.firstAfterMs ?? 10_000);

  return {
    hurry: () => {
      if (!stopped.signal.aborted) sweep();
    },
    async stop() {
      clearTimeout(timer);
      stopped.abort();
      await sweeping;
    },
  };
}

/** Whether it concerns all repositories of the host. */
function isOfHost({ problem }: ForgeError): boolean {
  return problem === "unreachable" || problem === "rate-limited";
}
