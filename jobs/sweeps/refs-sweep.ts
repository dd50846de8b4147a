/**
 * Finds what lost webhooks missed: queries the refs of each remote once per period and compares them with what its
 * deployments have recorded.
 */
import { commitOf, describeRef } from "../../src/model/git-ref.ts";
import type { Logger } from "../../src/log.ts";
import {
  commitText,
  type Deployment,
  type FoundPush,
  type GitDeployment,
  followsGit,
  type Heads,
  keyText,
  type MalformedDeployment,
  type MergeGroupRequest,
  type PreviewRequest,
  type RepoId,
} from "../../src/model.ts";
import type { Clock, Deployments, Reports } from "../../src/ports.ts";
import { pendingCommitOf } from "../../src/reconcile/status/conditions.ts";
import { withTimeout } from "../../src/kit/deadline.ts";
import { createLimit } from "../../src/kit/limit.ts";
import type { SkipCheck } from "./due-sweep.ts";
import { createRotation, fractionOf, type Group } from "./rotation.ts";
import type { JobQueue } from "../queue.ts";

export interface RefsSweepDeps {
  readonly deployments: Pick<Deployments, "all">;
  /** One `ls-remote` with this deployment's login. */
  readonly heads: (deployment: GitDeployment, signal: AbortSignal) => Promise<Heads>;
  /** Equal for deployments that share one `ls-remote`: same remote, same login. */
  readonly groupKey: (deployment: GitDeployment) => string;
  readonly queue: Pick<JobQueue, "enqueue" | "markMoved" | "lastMove" | "claim">;
  /** Whether to skip a deployment because the move does not affect it. Absent: none is skipped. */
  readonly skipCheck?: SkipCheck | undefined;
  /** Absent: pull requests are not previewed. */
  readonly reports?: Pick<Reports, "openInto"> | undefined;
  /** The groups of the repository's merge queue that no webhook reported. Absent: no status is written. */
  readonly groups?: ((repo: RepoId, heads: Heads) => Promise<readonly MergeGroupRequest[]>) | undefined;
  readonly everyMs: () => number;
  /** The period of each repository, if it is not the same for all. */
  readonly paces?: RepositoryPaces | undefined;
  readonly clock: Clock;
  readonly log: Logger;
  readonly observe?:
    | {
        looked(ok: boolean, seconds: number): void;
        found(deployments: number): void;
        /** Commits that no webhook has announced yet. */
        unannounced?(found: readonly FoundPush[]): void;
      }
    | undefined;
}

/** Milliseconds; may differ from one call to the next. */
export interface RepositoryPaces {
  everyMs(repo: Pick<FoundPush, "repo" | "url">): number;
  /** The repository is left out for so long while nothing reports a move. */
  longestMs(repo: Pick<FoundPush, "repo" | "url">): number;
  /** Takes the refs that deployments follow, after each look at the repository. Returns at once and never throws. */
  looked(refs: readonly FoundPush[]): void;
}

export interface RefsSweep {
  /** Starts to check the remotes that are due. Returns at once and never throws. */
  tick(): void;
  /** Checks all remotes now, whatever other replicas do; resolves when that is done. */
  runAll(): Promise<void>;
  /** Seconds since the least recent check of a remote. */
  age(): number;
  stop(): Promise<void>;
}

const perHost = 4;
/** How many deployments are checked concurrently for whether the move affects them. */
const checkedAtOnce = 8;
const lookTimeoutMs = 60_000;
const regroupMs = 5_000;
const longestBackoffMs = 600_000;
const longestSilenceMs = 3_600_000;

/** The deployments that share a remote and a login. */
interface RemoteGroup extends Group<GitDeployment> {
  lookedAt: number;
  /** The last recorded move before that. */
  move?: string | undefined;
  /**
   * This process has not checked the remote yet: it does so even if another replica just did, because it may have
   * missed webhooks.
   */
  fresh: boolean;
}

/** A request that was made because a deployment's ref pointed to `commit`. */
interface Asked {
  readonly commit: string | undefined;
  readonly times: number;
  readonly againAt: number;
}

export function createRefsSweep(deps: RefsSweepDeps): RefsSweep {
  const { deployments, queue, paces, clock, log, observe } = deps;
  const stopped = new AbortController();
  const asked = new Map<string, Asked>();
  /** Deployments whose ref was deleted, and that have not been requested since it exists again. */
  const gone = new Set<string>();
  const onHost = new Map<string, number>();
  const create = (): Pick<RemoteGroup, "lookedAt" | "fresh"> => ({ lookedAt: clock.now(), fresh: true });
  const everyMs = ([first]: readonly GitDeployment[]) =>
    paces && first ? paces.everyMs({ repo: first.repo, url: first.spec.source.url }) : deps.everyMs();
  const rotation = createRotation({ everyMs, clock, keyOf: deps.groupKey, create });
  let groupedAt = -Infinity;

  /** The remote's next time slot: the same in replicas with the same period, and spread over it across remotes. */
  function nextSlot(key: string, periodMs: number, now: number): number {
    const offset = fractionOf(key) * periodMs;
    return Math.floor((now - offset) / periodMs + 1) * periodMs + offset;
  }

  function regroup(now: number): void {
    groupedAt = now;
    rotation.regroup(deployments.all().filter(isTracked));
    const known = new Set(rotation.all().flatMap(({ members }) => members.map(({ key }) => keyText(key))));
    for (const key of asked.keys()) if (!known.has(key)) asked.delete(key);
    for (const key of gone) if (!known.has(key)) gone.delete(key);
  }

  function tick(): void {
    if (stopped.signal.aborted) return;
    const now = clock.now();
    if (now - groupedAt >= regroupMs) regroup(now);
    for (const group of rotation.all()) {
      // The interval was shortened in the meantime.
      const periodMs = everyMs(group.members);
      if (group.failures === 0 && group.nextAt - now > periodMs) group.nextAt = nextSlot(group.key, periodMs, now);
      if (group.nextAt <= now && !group.looking && (onHost.get(hostOf(group)) ?? 0) < perHost) look(group);
    }
  }

  function look(group: RemoteGroup): void {
    const host = hostOf(group);
    onHost.set(host, (onHost.get(host) ?? 0) + 1);
    const looking = rotation.look(group, () => visit(group));
    void looking.finally(() => {
      onHost.set(host, (onHost.get(host) ?? 1) - 1);
      tick(); // the next remote of a busy host does not wait for the timer
    });
  }

  async function visit(group: RemoteGroup): Promise<void> {
    const now = clock.now();
    const periodMs = everyMs(group.members);
    const slot = nextSlot(group.key, periodMs, now);
    try {
      const [first] = group.members;
      const move = paces && first && (await queue.lastMove(first.repo));
      if (isQuiet(group, { periodMs, move, now })) {
        group.nextAt = slot;
        return;
      }
      const mine = await queue.claim(`${group.key} every ${periodMs}`, Math.max(1, Math.floor((slot - now) * 0.9)));
      group.nextAt = slot;
      if (!mine && !group.fresh) {
        group.lookedAt = now;
        return;
      }
      const heads = await ask(group);
      group.lookedAt = clock.now();
      group.move = move;
      group.fresh = false;
      if (heads) await compare(group, heads, now);
      if (heads) paces?.looked(group.members.map((member) => toFoundPush(member, heads)));
      if (heads) await askForGroups(group, heads);
    } catch (error) {
      // Redis is unavailable, which its monitoring reports. The next sweep finds the same again.
      log.debug({ error: (error as Error).message }, "sweep postponed");
      group.nextAt = now + Math.min(periodMs, 5_000);
    }
  }

  /** Whether webhooks are relied on, and none has reported a move since the last look. */
  function isQuiet(
    group: RemoteGroup,
    { periodMs, move, now }: { periodMs: number; move: string | undefined; now: number },
  ): boolean {
    const [first] = group.members;
    if (paces === undefined || first === undefined || group.fresh || move !== group.move) return false;
    const longestMs = paces.longestMs({ repo: first.repo, url: first.spec.source.url });
    return now - group.lookedAt + periodMs <= longestMs; // the next turn is not too late
  }

  async function ask(group: RemoteGroup): Promise<Heads | undefined> {
    const [first] = group.members;
    if (first === undefined) return undefined;
    const startedAt = clock.now();
    try {
      const heads = await deps.heads(first, withTimeout(lookTimeoutMs, stopped.signal));
      if (group.failures > 0) log.info({ repo: first.repo }, "remote reachable again");
      group.failures = 0;
      observe?.looked(true, (clock.now() - startedAt) / 1_000);
      return heads;
    } catch (error) {
      if (stopped.signal.aborted) return undefined;
      if (group.failures === 0) {
        log.warn({ repo: first.repo, error: (error as Error).message }, "remote unreachable; checking less often");
      }
      rotation.backOff(group, longestBackoffMs);
      observe?.looked(false, (clock.now() - startedAt) / 1_000);
      return undefined;
    }
  }

  /** A required check that is never reported blocks the whole merge queue. */
  async function askForGroups({ members: [first] }: RemoteGroup, heads: Heads): Promise<void> {
    const found = (first && (await deps.groups?.(first.repo, heads))) ?? [];
    if (found.length === 0) return;
    await queue.enqueue(found);
    log.info({ groups: found.map(({ group }) => commitText(group)) }, "found merge groups without a webhook");
  }

  async function compare(group: RemoteGroup, heads: Heads, askedAt: number): Promise<void> {
    const now = clock.now();
    const behind = new Set(group.members.filter((one) => differs(one, heads, now)).map(({ key }) => keyText(key)));
    if (behind.size === 0) return;
    // Some may have caught up since they were grouped.
    const moved = deployments
      .all()
      .filter(isTracked)
      .filter((one) => behind.has(keyText(one.key)) && differs(one, heads, now));
    if (moved.length === 0) return;
    for (const repo of new Set(moved.map(({ repo }) => repo))) await queue.markMoved(repo);
    const suspended = moved.filter(({ spec }) => spec.suspend);
    const others = moved.filter(({ spec }) => !spec.suspend);
    const concerned = await findConcerned(others, heads, askedAt);
    await queue.enqueue([
      ...[...concerned, ...suspended].map(
        ({ key, repo }) => ({ kind: "reconcile", deployment: key, cause: "sweep", repo }) as const,
      ),
      ...(await findBased(others, heads)),
    ]);
    for (const deployment of [...concerned, ...suspended]) {
      const key = keyText(deployment.key);
      const commit = commitOf(deployment.spec.source.ref, heads);
      const before = asked.get(key);
      const times = before && before.commit === commit ? before.times + 1 : 0;
      // Half a period early, so that the check one period later counts.
      const silenceMs = Math.min(everyMs(group.members) * (2 ** times - 0.5), longestSilenceMs);
      asked.set(key, { commit, times, againAt: now + silenceMs });
      if (commit !== undefined) gone.delete(key);
      // Only its status is updated to name the commit that is not deployed: no webhook was missed.
      if (deployment.spec.suspend) continue;
      log.info(
        { ...deployment.key, ref: describeRef(deployment.spec.source.ref), commit },
        "found new commits without a webhook",
      );
    }
    observe?.found(concerned.length);
    observe?.unannounced?.(concerned.map((deployment) => toFoundPush(deployment, heads)));
  }

  /** Leaves out deployments that are not affected by the changes. */
  async function findConcerned(moved: readonly GitDeployment[], heads: Heads, at: number): Promise<GitDeployment[]> {
    const limit = createLimit(checkedAtOnce);
    const answers = moved.map((deployment) =>
      limit.run(async () => {
        const commit = commitOf(deployment.spec.source.ref, heads);
        const answer = commit === undefined ? undefined : await deps.skipCheck?.(deployment, { commit, at });
        return answer === undefined || answer === "check" ? [deployment] : [];
      }),
    );
    return (await Promise.all(answers)).flat();
  }

  /** The open pull requests based on a moved branch: what merging them would change is different now. */
  async function findBased(moved: readonly GitDeployment[], heads: Heads): Promise<PreviewRequest[]> {
    const { reports } = deps;
    if (reports === undefined) return [];
    const bases = new Map(
      moved.flatMap(({ repo, spec: { source } }) => {
        const branch = source.ref.branch ?? (source.ref.tag ? undefined : heads.defaultRef?.replace("refs/heads/", ""));
        return branch === undefined ? [] : [[`${repo} ${branch}`, { repo, branch }] as const];
      }),
    );
    const open = await Promise.all([...bases.values()].map(({ repo, branch }) => reports.openInto(repo, branch)));
    return open.flat().map((pullRequest) => ({ kind: "preview", pullRequest, cause: "base" }));
  }

  /** Whether to reconcile the deployment. One that stays behind because it fails is requested less and less often. */
  function differs({ key, spec, status }: GitDeployment, heads: Heads, now: number): boolean {
    const commit = commitOf(spec.source.ref, heads);
    if (commit === undefined) gone.add(keyText(key));
    // Its ref exists again, at the recorded commit, but the status still contains the error.
    else if (gone.has(keyText(key)) && status.lastPrepareError !== undefined && !spec.suspend) return true;
    const pending = pendingCommitOf({ spec, status });
    const isGone = commit === undefined && spec.suspend && pending === undefined; // there is nothing to report
    if (isGone || (commit !== undefined && commit === (pending ?? status.observedCommit))) {
      asked.delete(keyText(key));
      gone.delete(keyText(key));
      return false;
    }
    if (commit === undefined && status.lastPrepareError !== undefined) return false; // its status reports this
    const before = asked.get(keyText(key));
    return before === undefined || before.commit !== commit || now >= before.againAt;
  }

  return {
    tick,
    async runAll() {
      regroup(clock.now());
      for (const group of rotation.all()) group.fresh = true;
      rotation.hurry();
      tick();
      await rotation.idle();
    },
    age() {
      const looks = rotation.all().map(({ lookedAt }) => lookedAt);
      return looks.length === 0 ? 0 : Math.max(0, clock.now() - Math.min(...looks)) / 1_000;
    },
    async stop() {
      stopped.abort();
      await rotation.idle();
    },
  };
}

function toFoundPush({ repo, spec: { source } }: GitDeployment, heads: Heads): FoundPush {
  return { repo, url: source.url, ref: describeRef(source.ref), commit: commitOf(source.ref, heads) };
}

/** Whether a move of its remote can affect the deployment. One that has never been reconciled is due anyway. */
function isTracked(deployment: Deployment | MalformedDeployment): deployment is GitDeployment {
  if (!followsGit(deployment) || deployment.deletionTimestamp !== undefined) return false;
  const { spec, status, recordsChecks } = deployment;
  if (spec.suspend && recordsChecks === false) return false; // the newer commit would never be recorded
  return spec.source.ref.commit === undefined && status.observedGeneration !== undefined;
}

function hostOf({ members: [first] }: RemoteGroup): string {
  return first?.repo.split("/", 1)[0] ?? "";
}
