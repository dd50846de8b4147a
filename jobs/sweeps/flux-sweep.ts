/**
 * Finds what lost webhooks missed for Flux: queries the refs of each repository once per period, as far as the server
 * can read it, and compares them with what Flux has fetched.
 */
import { headOf, unusualRefOf } from "../../src/flux/head-of.ts";
import { withTimeout } from "../../src/kit/deadline.ts";
import { createLimit } from "../../src/kit/limit.ts";
import type { Logger } from "../../src/log.ts";
import { type FluxSource, followedBy, type Heads, type RepoId } from "../../src/model.ts";
import type { Clock, FluxSources } from "../../src/ports.ts";
import type { JobQueue } from "../queue.ts";
import { createRotation, type Group } from "./rotation.ts";
import { silenceMs } from "./silence.ts";

export interface FluxSweepDeps {
  readonly sources: Pick<FluxSources, "all">;
  /** One `ls-remote`. */
  readonly heads: (url: string, signal: AbortSignal) => Promise<Heads>;
  /** One `ls-remote` for refs that are neither branches nor tags. */
  readonly commitsAt: (
    url: string,
    names: readonly string[],
    signal: AbortSignal,
  ) => Promise<ReadonlyMap<string, string>>;
  /** The period of a repository, in milliseconds. */
  readonly everyMs: (repo: { readonly repo: RepoId; readonly url: string }) => number;
  readonly queue: Pick<JobQueue, "enqueue" | "claim">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly tickMs?: number | undefined;
}

export interface FluxSweep {
  /** Checks all repositories now, whatever other replicas do; resolves when that is done. */
  runNow(): Promise<void>;
  stop(): Promise<void>;
}

const looksAtOnce = 4;
const lookTimeoutMs = 60_000;
const regroupMs = 5_000;
/** For repositories that the server cannot read, most of which need a login that only Flux has. */
const longestBackoffMs = 3_600_000;

type RepositoryGroup = Group<FluxSource>;

/** A fetch that was requested for a commit. */
interface Requested {
  readonly head: string;
  /** The request that the source had before; until it has another one, this request was not written. */
  readonly before: string | undefined;
  readonly times: number;
  /** When to request it again if Flux does not have the commit by then, in epoch milliseconds. */
  readonly againAt: number;
}

export function startFluxSweep(deps: FluxSweepDeps): FluxSweep {
  const { sources, queue, clock, log, tickMs = 1_000 } = deps;
  const stopped = new AbortController();
  const limit = createLimit(looksAtOnce);
  /** By UID: the last request, until Flux has its commit. */
  const requested = new Map<string, Requested>();
  const everyMs = ([first]: readonly FluxSource[]) => (first ? deps.everyMs(first) : regroupMs);
  const rotation = createRotation({ everyMs, clock, keyOf: ({ url }: FluxSource) => url, create: () => ({}) });
  let groupedAt = -Infinity;

  function regroup(now: number): void {
    groupedAt = now;
    const members = sources.all().filter(isSwept);
    rotation.regroup(members);
    const commits = new Map(members.map(({ uid, commit }) => [uid, commit]));
    // A ref may leave a commit that was fetched, and return to it later: then it is new to Flux again.
    for (const [uid, { head }] of requested) {
      if (!commits.has(uid) || commits.get(uid) === head) requested.delete(uid);
    }
  }

  function tick(): void {
    const now = clock.now();
    if (now - groupedAt >= regroupMs) regroup(now);
    for (const group of rotation.all()) {
      if (group.nextAt <= now && !group.looking) void rotation.look(group, () => limit.run(() => visit(group, true)));
    }
  }

  async function visit(group: RepositoryGroup, claims: boolean): Promise<void> {
    const [first] = group.members;
    if (first === undefined || stopped.signal.aborted) return;
    const periodMs = everyMs(group.members);
    group.nextAt = clock.now() + periodMs;
    try {
      // Another replica has just checked it.
      if (claims && !(await queue.claim(`flux ${group.key}`, Math.max(1, Math.floor(periodMs * 0.9))))) return;
      const heads = await ask(group, first);
      if (heads !== undefined) await requestMoved(group.members, heads, periodMs);
    } catch (error) {
      // Redis is unavailable, which its monitoring reports. The next sweep finds the same again.
      log.debug({ error: (error as Error).message }, "sweep postponed");
    }
  }

  async function ask(group: RepositoryGroup, { url, repo }: FluxSource): Promise<Heads | undefined> {
    const signal = withTimeout(lookTimeoutMs, stopped.signal);
    try {
      const unusual = group.members.flatMap(({ ref }) => unusualRefOf(ref) ?? []);
      const heads = await deps.heads(url, signal);
      const more = unusual.length === 0 ? [] : await deps.commitsAt(url, unusual, signal);
      group.failures = 0;
      return { ...heads, commits: new Map([...heads.commits, ...more]) };
    } catch (error) {
      if (stopped.signal.aborted) return undefined;
      if (group.failures === 0) {
        const words = "cannot read a repository of Flux: without webhooks, Flux finds pushes at its own interval";
        log.info({ repo, error: (error as Error).message }, words);
      }
      rotation.backOff(group, longestBackoffMs);
      return undefined;
    }
  }

  /**
   * Less and less often for the same commit: Flux itself retries what fails, but not a fetch from a replica of the git
   * host that did not have the commit yet.
   */
  async function requestMoved(members: readonly FluxSource[], heads: Heads, periodMs: number): Promise<void> {
    const now = clock.now();
    const current = new Map(sources.all().map((source) => [source.uid, source]));
    const moved = members.flatMap(({ uid }) => {
      const source = current.get(uid); // Flux may have fetched since they were grouped
      const head = source && isSwept(source) && !source.isRequested ? headOf(source.ref, heads) : undefined;
      // The ref may also return to what Flux has before Flux fetched the commit that was requested.
      if (head !== undefined && head === source?.commit) requested.delete(uid);
      return source === undefined || head === undefined || head === source.commit ? [] : [{ source, head }];
    });
    const due = moved.filter(({ source, head }) => isDue(source, head, now));
    if (due.length === 0) return;
    await queue.enqueue(due.map(({ source }) => ({ kind: "flux-fetch", source: source.key, cause: "sweep" })));
    for (const { source, head } of due) {
      const last = requested.get(source.uid);
      const isNew = last?.head !== head;
      const about = { ...source.key, commit: head };
      if (isNew) log.info(about, "found new commits for Flux without a webhook");
      else if (isWritten(last, source)) log.info(about, "Flux has not fetched a commit; requesting it again");
      const times = isNew ? 0 : last.times + Number(isWritten(last, source));
      const againAt = now + silenceMs(times, periodMs);
      requested.set(source.uid, { head, before: source.lastRequest, times, againAt });
    }
  }

  function isDue(source: FluxSource, head: string, now: number): boolean {
    const last = requested.get(source.uid);
    return last?.head !== head || !isWritten(last, source) || now >= last.againAt;
  }

  const timer = setInterval(tick, tickMs);
  return {
    async runNow() {
      regroup(clock.now());
      await Promise.all(rotation.all().map((group) => rotation.look(group, () => visit(group, false))));
    },
    async stop() {
      clearInterval(timer);
      stopped.abort();
      await rotation.idle();
    },
  };
}

/** Otherwise its job has failed too often. */
function isWritten({ before }: Requested, { lastRequest }: FluxSource): boolean {
  return before !== lastRequest;
}

/** What has never been fetched is being fetched, or fails and is retried by Flux. */
function isSwept({ suspended, commit, ref }: FluxSource): boolean {
  return !suspended && commit !== undefined && followedBy(ref).kind !== "commit";
}
