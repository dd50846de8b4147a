/**
 * Finds what a lost webhook missed: asks each remote once per period what its refs point to, and compares that with
 * what its deployments have recorded.
 */
import { commitOf, describeRef } from "../src/git-ref.ts";
import type { Logger } from "../src/log.ts";
import {
  commitText,
  type Deployment,
  type GitDeployment,
  followsGit,
  type Heads,
  keyText,
  type MalformedDeployment,
  type MergeGroupRequest,
  type PreviewRequest,
  type RepoId,
} from "../src/model.ts";
import type { Clock, Deployments, Reports } from "../src/ports.ts";
import { pendingCommitOf } from "../src/reconcile/conditions.ts";
import { createLimit } from "../src/limit.ts";
import { fractionOf, type Spare } from "./due-sweep.ts";
import type { JobQueue } from "./queue.ts";

export interface RefsSweepDeps {
  readonly deployments: Pick<Deployments, "all">;
  /** One `ls-remote` with this deployment's login. */
  readonly heads: (deployment: GitDeployment, signal: AbortSignal) => Promise<Heads>;
  /** Equal for deployments that one `ls-remote` answers for: same remote, same login. */
  readonly groupKey: (deployment: GitDeployment) => string;
  readonly queue: Pick<JobQueue, "enqueue" | "markMoved" | "claim">;
  /** Whether a move is nothing to a deployment. Absent: any is something. */
  readonly spare?: Spare | undefined;
  /** Absent: pull requests are not previewed. */
  readonly reports?: Pick<Reports, "openInto"> | undefined;
  /** The groups of the repository's merge queue that were not announced. Absent: no status is written. */
  readonly groups?: ((repo: RepoId, heads: Heads) => Promise<readonly MergeGroupRequest[]>) | undefined;
  readonly everyMs: () => number;
  readonly clock: Clock;
  readonly log: Logger;
  readonly observe?: { looked(ok: boolean, seconds: number): void; found(deployments: number): void } | undefined;
}

export interface RefsSweep {
  /** Starts to look at those remotes whose time has come. Never waits, never throws. */
  tick(): void;
  /** Looks at all of them now, whoever else does; resolves when that is done. */
  runAll(): Promise<void>;
  /** Seconds since the remote that was looked at least recently was looked at. */
  age(): number;
  stop(): Promise<void>;
}

const perHost = 4;
/** How many are looked at side by side for whether a move is something to them. */
const sparedAtOnce = 8;
const lookTimeoutMs = 60_000;
const regroupMs = 5_000;
const longestBackoffMs = 600_000;
const longestSilenceMs = 3_600_000;

/** The deployments that share a remote and a login. */
interface Group {
  readonly key: string;
  members: readonly GitDeployment[];
  nextAt: number;
  lookedAt: number;
  /** This process has not looked yet: it does so even if another replica just did, for it may have missed webhooks. */
  fresh: boolean;
  failures: number;
  looking?: Promise<void> | undefined;
}

/** That a deployment was asked for because its ref pointed to `commit`. */
interface Asked {
  readonly commit: string | undefined;
  readonly times: number;
  readonly againAt: number;
}

export function createRefsSweep(deps: RefsSweepDeps): RefsSweep {
  const { deployments, queue, everyMs, clock, log, observe } = deps;
  const stopped = new AbortController();
  const asked = new Map<string, Asked>();
  /** Deployments whose ref was gone, and has not been asked for since it is back. */
  const gone = new Set<string>();
  const onHost = new Map<string, number>();
  let groups = new Map<string, Group>();
  let groupedAt = -Infinity;

  /** The next of a remote's instants; the same in all replicas, and different from other remotes'. */
  function nextSlot(key: string, now: number): number {
    const offset = fractionOf(key) * everyMs();
    return Math.floor((now - offset) / everyMs() + 1) * everyMs() + offset;
  }

  function regroup(now: number): void {
    groupedAt = now;
    const members = Map.groupBy(deployments.all().filter(isTracked), deps.groupKey);
    groups = new Map(
      [...members].map(([key, members]) => {
        const group = groups.get(key) ?? {
          key,
          members,
          nextAt: now + fractionOf(key) * Math.min(everyMs(), 5_000),
          lookedAt: now,
          fresh: true,
          failures: 0,
        };
        group.members = members;
        return [key, group];
      }),
    );
    const known = new Set([...groups.values()].flatMap(({ members }) => members.map(({ key }) => keyText(key))));
    for (const key of asked.keys()) if (!known.has(key)) asked.delete(key);
    for (const key of gone) if (!known.has(key)) gone.delete(key);
  }

  function tick(): void {
    if (stopped.signal.aborted) return;
    const now = clock.now();
    if (now - groupedAt >= regroupMs) regroup(now);
    for (const group of groups.values()) {
      // Somebody has made the interval shorter since.
      if (group.failures === 0 && group.nextAt - now > everyMs()) group.nextAt = nextSlot(group.key, now);
      if (group.nextAt <= now && !group.looking && (onHost.get(hostOf(group)) ?? 0) < perHost) look(group);
    }
  }

  function look(group: Group): void {
    const host = hostOf(group);
    onHost.set(host, (onHost.get(host) ?? 0) + 1);
    group.looking = visit(group).finally(() => {
      group.looking = undefined;
      onHost.set(host, (onHost.get(host) ?? 1) - 1);
      tick(); // the next one of a busy host does not wait for the clock
    });
  }

  async function visit(group: Group): Promise<void> {
    const now = clock.now();
    const slot = nextSlot(group.key, now);
    try {
      const mine = await queue.claim(`${group.key} every ${everyMs()}`, Math.max(1, Math.floor((slot - now) * 0.9)));
      group.nextAt = slot;
      if (!mine && !group.fresh) {
        group.lookedAt = now;
        return;
      }
      const heads = await ask(group);
      group.lookedAt = clock.now();
      group.fresh = false;
      if (heads) await compare(group, heads, now);
      if (heads) await askForGroups(group, heads);
    } catch (error) {
      // Redis is away: whoever watches over it says so. What was found is found again.
      log.debug({ error: (error as Error).message }, "sweep postponed");
      group.nextAt = now + Math.min(everyMs(), 5_000);
    }
  }

  async function ask(group: Group): Promise<Heads | undefined> {
    const [first] = group.members;
    if (first === undefined) return undefined;
    const startedAt = clock.now();
    try {
      const timeout = AbortSignal.timeout(lookTimeoutMs);
      const heads = await deps.heads(first, AbortSignal.any([stopped.signal, timeout]));
      if (group.failures > 0) log.info({ repo: first.repo }, "remote reachable again");
      group.failures = 0;
      observe?.looked(true, (clock.now() - startedAt) / 1_000);
      return heads;
    } catch (error) {
      if (stopped.signal.aborted) return undefined;
      if (group.failures === 0) {
        log.warn({ repo: first.repo, error: (error as Error).message }, "remote unreachable; checking less often");
      }
      group.failures++;
      group.nextAt = clock.now() + Math.min(everyMs() * 2 ** group.failures, longestBackoffMs);
      observe?.looked(false, (clock.now() - startedAt) / 1_000);
      return undefined;
    }
  }

  /** A required check that is never reported holds up the whole merge queue. */
  async function askForGroups({ members: [first] }: Group, heads: Heads): Promise<void> {
    const found = (first && (await deps.groups?.(first.repo, heads))) ?? [];
    if (found.length === 0) return;
    await queue.enqueue(found);
    log.info({ groups: found.map(({ group }) => commitText(group)) }, "found merge groups without a webhook");
  }

  async function compare(group: Group, heads: Heads, askedAt: number): Promise<void> {
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
      // Half a period early, so that the look in a period's time counts.
      const silenceMs = Math.min(everyMs() * (2 ** times - 0.5), longestSilenceMs);
      asked.set(key, { commit, times, againAt: now + silenceMs });
      if (commit !== undefined) gone.delete(key);
      // Its status is to say that it is not deployed: nobody missed anything.
      if (deployment.spec.suspend) continue;
      log.info(
        { ...deployment.key, ref: describeRef(deployment.spec.source.ref), commit },
        "found new commits without a webhook",
      );
    }
    observe?.found(concerned.length);
  }

  /** Without those that read nothing of what changed. */
  async function findConcerned(moved: readonly GitDeployment[], heads: Heads, at: number): Promise<GitDeployment[]> {
    const limit = createLimit(sparedAtOnce);
    const answers = moved.map((deployment) =>
      limit.run(async () => {
        const commit = commitOf(deployment.spec.source.ref, heads);
        const answer = commit === undefined ? undefined : await deps.spare?.(deployment, { commit, at });
        return answer === undefined || answer === "wanted" ? [deployment] : [];
      }),
    );
    return (await Promise.all(answers)).flat();
  }

  /** The open pull requests whose merge is another one now. */
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

  /** Whether it has to be looked at. One that stays behind, since it fails, is asked for less and less often. */
  function differs({ key, spec, status }: GitDeployment, heads: Heads, now: number): boolean {
    const commit = commitOf(spec.source.ref, heads);
    if (commit === undefined) gone.add(keyText(key));
    // At the commit that is recorded, which says nothing of the error.
    else if (gone.has(keyText(key)) && status.lastPrepareError !== undefined && !spec.suspend) return true;
    const pending = pendingCommitOf({ spec, status });
    const isGone = commit === undefined && spec.suspend && pending === undefined; // there is nothing to tell
    if (isGone || (commit !== undefined && commit === (pending ?? status.observedCommit))) {
      asked.delete(keyText(key));
      gone.delete(keyText(key));
      return false;
    }
    if (commit === undefined && status.lastPrepareError !== undefined) return false; // its status says so
    const before = asked.get(keyText(key));
    return before === undefined || before.commit !== commit || now >= before.againAt;
  }

  return {
    tick,
    async runAll() {
      regroup(clock.now());
      for (const group of groups.values()) {
        group.fresh = true;
        group.nextAt = -Infinity;
      }
      tick();
      const looking = () => [...groups.values()].flatMap(({ looking }) => looking ?? []);
      while (looking().length > 0) await Promise.race(looking());
    },
    age() {
      const looks = [...groups.values()].map(({ lookedAt }) => lookedAt);
      return looks.length === 0 ? 0 : Math.max(0, clock.now() - Math.min(...looks)) / 1_000;
    },
    async stop() {
      stopped.abort();
      await Promise.all([...groups.values()].map(async ({ looking }) => looking));
    },
  };
}

/** Whether a move of its remote can concern it. One that was never looked at is due anyway. */
function isTracked(deployment: Deployment | MalformedDeployment): deployment is GitDeployment {
  if (!followsGit(deployment) || deployment.deletionTimestamp !== undefined) return false;
  const { spec, status, apiVersion } = deployment;
  if (spec.suspend && apiVersion !== undefined) return false; // the legacy API has no place for the newer commit
  return spec.source.ref.commit === undefined && status.observedGeneration !== undefined;
}

function hostOf({ members: [first] }: Group): string {
  return first?.repo.split("/", 1)[0] ?? "";
}
