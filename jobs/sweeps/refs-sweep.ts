/**
 * Finds what lost webhooks missed: queries the refs of each remote once per period and compares them with what the deployments
 * that follow it, and those whose projects include it, have recorded.
 */
import {
  commitText,
  type FoundPush,
  type GitDeployment,
  type Heads,
  type MergeGroupRequest,
  type RepoId,
} from "../../src/model.ts";
import { describeRefName } from "../../src/model/git-ref.ts";
import { withTimeout } from "../../src/kit/deadline.ts";
import { createIncludeMoves } from "./include-moves.ts";
import { createRefMoves, type RefMovesDeps, toFoundPush } from "./ref-moves.ts";
import { type FollowedRemote, type IncludedRemote, remotesOf, type UsedRemote } from "./remotes.ts";
import { createRotation, fractionOf, type Group } from "./rotation.ts";
import type { JobQueue } from "../queue.ts";

export interface RefsSweepDeps extends RefMovesDeps {
  /** One `ls-remote` with the deployment's login. */
  readonly heads: (remote: UsedRemote, signal: AbortSignal) => Promise<Heads>;
  /** Equal for uses that share one `ls-remote`: same remote, same login. */
  readonly groupKey: (remote: UsedRemote) => string;
  readonly queue: Pick<JobQueue, "enqueue" | "markMoved" | "lastMove" | "claim">;
  /** The groups of the repository's merge queue that no webhook reported. Absent: no status is written. */
  readonly groups?: ((repo: RepoId, heads: Heads) => Promise<readonly MergeGroupRequest[]>) | undefined;
  readonly everyMs: () => number;
  /** The period of each repository, if it is not the same for all. */
  readonly paces?: RepositoryPaces | undefined;
  readonly observe?:
    (NonNullable<RefMovesDeps["observe"]> & { looked(ok: boolean, seconds: number): void }) | undefined;
}

/** Milliseconds; may differ from one call to the next. */
export interface RepositoryPaces {
  everyMs(repo: Pick<FoundPush, "repo" | "url">): number;
  /** The repository is left out for so long while nothing reports a move. */
  longestMs(repo: Pick<FoundPush, "repo" | "url">): number;
  /** Takes the refs that deployments follow or include, after each look at the repository. Returns at once and never throws. */
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
const lookTimeoutMs = 60_000;
const regroupMs = 5_000;
const longestBackoffMs = 600_000;

/** The uses that share a remote and a login. */
interface RemoteGroup extends Group<UsedRemote> {
  lookedAt: number;
  /** The last recorded move before that. */
  move?: string | undefined;
  /**
   * This process has not checked the remote yet: it does so even if another replica just did, because it may have
   * missed webhooks.
   */
  fresh: boolean;
}

export function createRefsSweep(deps: RefsSweepDeps): RefsSweep {
  const { deployments, queue, paces, clock, log, observe } = deps;
  const stopped = new AbortController();
  const moves = createRefMoves(deps);
  const includeMoves = createIncludeMoves(deps);
  const onHost = new Map<string, number>();
  const create = (): Pick<RemoteGroup, "lookedAt" | "fresh"> => ({ lookedAt: clock.now(), fresh: true });
  const everyMs = ([first]: readonly UsedRemote[]) => (paces && first ? paces.everyMs(first) : deps.everyMs());
  const rotation = createRotation({ everyMs, clock, keyOf: deps.groupKey, create });
  let groupedAt = -Infinity;

  /** The remote's next time slot: the same in replicas with the same period, and spread over it across remotes. */
  function nextSlot(key: string, periodMs: number, now: number): number {
    const offset = fractionOf(key) * periodMs;
    return Math.floor((now - offset) / periodMs + 1) * periodMs + offset;
  }

  function regroup(now: number): void {
    groupedAt = now;
    rotation.regroup(deployments.all().flatMap(remotesOf));
    const members = rotation.all().flatMap((group) => group.members);
    moves.forgetOthers(followersIn(members));
    includeMoves.forgetOthers(includersIn(members));
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
      if (heads) await request(group, heads, now);
    } catch (error) {
      // Redis is unavailable, which its monitoring reports. The next sweep finds the same again.
      log.debug({ error: (error as Error).message }, "sweep postponed");
      group.nextAt = now + Math.min(periodMs, 5_000);
    }
  }

  async function request({ members }: RemoteGroup, heads: Heads, askedAt: number): Promise<void> {
    const [followers, includers, periodMs] = [followersIn(members), includersIn(members), everyMs(members)];
    await moves.request(followers, heads, { askedAt, periodMs });
    await includeMoves.request(includers, heads, periodMs);
    await moves.requestOutdated([...new Set(members.map(({ repo }) => repo))], heads);
    const included = includers.flatMap((remote) => toFoundPushes(remote, heads));
    paces?.looked([...followers.map((one) => toFoundPush(one, heads)), ...included]);
    await askForGroups(followers, heads);
  }

  /** Whether webhooks are relied on, and none has reported a move since the last look. */
  function isQuiet(
    group: RemoteGroup,
    { periodMs, move, now }: { periodMs: number; move: string | undefined; now: number },
  ): boolean {
    const [first] = group.members;
    if (paces === undefined || first === undefined || group.fresh || move !== group.move) return false;
    const longestMs = paces.longestMs(first);
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
  async function askForGroups([first]: readonly GitDeployment[], heads: Heads): Promise<void> {
    const found = (first && (await deps.groups?.(first.repo, heads))) ?? [];
    if (found.length === 0) return;
    await queue.enqueue(found);
    log.info({ groups: found.map(({ group }) => commitText(group)) }, "found merge groups without a webhook");
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

function hostOf({ members: [first] }: RemoteGroup): string {
  return first?.repo.split("/", 1)[0] ?? "";
}

function followersIn(members: readonly UsedRemote[]): GitDeployment[] {
  return members.filter((one): one is FollowedRemote => one.use === "source").map(({ deployment }) => deployment);
}

function includersIn(members: readonly UsedRemote[]): IncludedRemote[] {
  return members.filter((one) => one.use === "include");
}

function toFoundPushes({ repo, url, recorded }: IncludedRemote, { commits }: Heads): FoundPush[] {
  return recorded.map(({ ref }) => ({ repo, url, ref: describeRefName(ref), commit: commits.get(ref) }));
}
