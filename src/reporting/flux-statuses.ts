/** Finds what became of a pushed commit in what Flux applies, from the cluster, and from git as far as it is needed. */
import { follows } from "../flux/match-sources.ts";
import { createBoundedMap } from "../kit/bounded-map.ts";
import { createGrowingPauses } from "../kit/growing-pauses.ts";
import type { Logger } from "../log.ts";
import {
  type CommitStatus,
  type CommitStatusRequest,
  commitText,
  followedBy,
  keyText,
  type Outcome,
  type RepoId,
} from "../model.ts";
import type { FluxDeployments, FluxSources } from "../ports.ts";
import { lineIn } from "./deploy-statuses.ts";
import { createAskFluxGit, type FluxGit, type FluxGitDeps, keptMs } from "./flux-git.ts";
import { type FluxFollower, fluxLine, isDone } from "./flux-line.ts";
import { type FluxMember, memberOf } from "./flux-members.ts";
import { aggregateContext, fluxContextOf, isFluxContext } from "./statuses.ts";

export interface FluxStatusesDeps extends FluxGitDeps {
  readonly fluxSources: Pick<FluxSources, "find" | "following" | "synced">;
  readonly fluxDeployments: Pick<FluxDeployments, "all" | "find" | "read" | "synced">;
  /** Returns a function that masks secrets in what a controller reports. Takes some milliseconds. */
  readonly createMask: () => (text: string) => string;
  readonly log: Logger;
}

export interface FluxStatuses {
  /** Whether everything is known that applies commits of the repository. */
  isReady(repo: RepoId): boolean;
  /** The statuses of the commit. `written`: the existing ones. */
  of(request: CommitStatusRequest, written: readonly CommitStatus[], signal?: AbortSignal): Promise<FoundStatuses>;
}

interface FoundStatuses {
  readonly lines: readonly CommitStatus[];
  /** The contexts of all that applies the repository, also of what has no line. */
  readonly contexts: ReadonlySet<string>;
  /** Whether the existing summary stays if there are no lines: whether its commit is still to be applied is not known. */
  readonly isUncertain: boolean;
  /** Whether a line may change that is not pending. */
  readonly isOpen: boolean;
  /** Set if something could not be read, and nothing in the cluster would report that it can be. */
  readonly again?: Extract<Outcome, { kind: "later" }> | undefined;
}

const mostReleases = 10_000;
/** A commit whose state cannot be found is looked at for a day; then only when something of its repository changes. */
const againLimits = { leastMs: 15_000, mostMs: 3_600_000, forMs: 24 * 3_600_000, entries: 10_000 };

export function createFluxStatuses(deps: FluxStatusesDeps): FluxStatuses {
  const { fluxSources, fluxDeployments, log } = deps;
  const askGit = createAskFluxGit(deps);
  const pauses = createGrowingPauses(againLimits);
  /** By UID of a HelmRelease. */
  const lastRead = createBoundedMap<{ readonly commit: string; readonly generation: number }>({
    entries: mostReleases,
  });

  return {
    isReady: (repo) => fluxSources.synced() && (fluxSources.following(repo).length === 0 || fluxDeployments.synced()),
    async of(request, written, signal) {
      const { commit } = request.commit;
      const known = new Map(written.map((status) => [status.context, status]));
      const members = findMembers(request.repo);
      /** What may be answered later, and when to ask again at the earliest. */
      const missing = new Map<string, number>();
      const git = askGit(request, members, (why) => missing.set(why, 0), signal);
      let mask: ReturnType<typeof deps.createMask> | undefined;
      let isUncertain = false;
      let isOpen = false;
      const lines: CommitStatus[] = [];
      for (const found of members) {
        const context = fluxContextOf(found.deployment);
        const before = known.get(context);
        const member = await toCurrent(found, commit, before, (why) => missing.set(why, 0), signal);
        const follower = await follow(member, request, before, git);
        const line = fluxLine(commit, follower, before);
        if (line === undefined) {
          isUncertain ||= follower.isHead === undefined;
          continue;
        }
        // One of the two is behind: if it is Flux, its fetch is reported; if it is git, nothing is.
        if (line.state === "pending" && follower.isAhead)
          missing.set("git and Flux differ in the latest commit", keptMs);
        isOpen ||= line.state === "canceled" && !isDone(member);
        if (line.state === "success") {
          lines.push({ context, ...line });
        } else {
          mask ??= deps.createMask();
          lines.push({ context, ...line, description: mask(line.description) });
        }
      }
      const isSummaryOpen = known.get(aggregateContext)?.state === "pending";
      return {
        lines,
        contexts: new Set(members.map(({ deployment }) => fluxContextOf(deployment))),
        isUncertain: isUncertain && isSummaryOpen,
        isOpen: isOpen || missing.size > 0,
        again: whenAgain(`${commitText(request.commit)} ${request.repo}`, missing),
      };
    },
  };

  function findMembers(repo: RepoId): FluxMember[] {
    if (fluxSources.following(repo).length === 0) return [];
    const members = fluxDeployments.all().flatMap((deployment) => memberOf(deployment, deps) ?? []);
    // Like a deployment of a fixed commit, what applies one is not concerned by pushes.
    return members.filter(({ source }) => source.repo === repo && followedBy(source.ref).kind !== "commit");
  }

  /** Asks git only what the cluster does not answer. `isAhead`: git has the commit as the head, and Flux another one. */
  async function follow(
    member: FluxMember,
    { commit: { commit }, pushedTo }: CommitStatusRequest,
    before: CommitStatus | undefined,
    git: FluxGit,
  ): Promise<FluxFollower & { readonly isAhead: boolean }> {
    const { source, about } = member;
    if (source.commit === commit || about === commit || isResult(before)) {
      return { ...member, isHead: undefined, isInApplied: false, isAhead: false };
    }
    const head = await git.headOf(source);
    const isPushed = pushedTo !== undefined && follows(source, pushedTo) ? true : undefined;
    const isHead = head === undefined ? isPushed : head === commit;
    const mayBeIn = isHead !== true && (before?.state === "pending" || before?.state === "canceled");
    const isInApplied = mayBeIn && (await git.isInApplied(member));
    return { ...member, isHead, isInApplied, isAhead: head === commit && source.commit !== undefined };
  }

  function whenAgain(commit: string, missing: ReadonlyMap<string, number>): FoundStatuses["again"] {
    const [why] = missing.keys();
    if (why === undefined) {
      pauses.end(commit);
      return undefined;
    }
    const pauseMs = pauses.next(commit);
    return pauseMs === undefined
      ? undefined
      : { kind: "later", afterMs: Math.max(pauseMs, Math.min(...missing.values())), why };
  }

  /**
   * A HelmRelease may have been changed by the commit that its Kustomization has applied: the two watches do not show in
   * which order. So it is read once after the commit was applied; what the watch shows of an earlier spec is not believed.
   */
  async function toCurrent(
    member: FluxMember,
    commit: string,
    before: CommitStatus | undefined,
    missed: (why: string) => void,
    signal: AbortSignal | undefined,
  ): Promise<FluxMember> {
    const { kind, key, uid, generation } = member.deployment;
    const isReported = before?.state === "success" && !before.neutral;
    if (kind !== "HelmRelease" || member.about !== commit || isReported) return member;
    const unknown = { ...member, deployment: { ...member.deployment, ready: undefined } };
    const seen = lastRead.get(uid);
    if (seen?.commit === commit) return generation >= seen.generation ? member : unknown;
    try {
      const current = await fluxDeployments.read(member.deployment, signal);
      if (current === undefined) return unknown;
      lastRead.set(current.uid, { commit, generation: current.generation });
      return memberOf(current, deps) ?? unknown;
    } catch (error) {
      signal?.throwIfAborted();
      log.debug({ ...key, error: (error as Error).message }, "could not read a HelmRelease");
      missed(`HelmRelease ${keyText(key)} could not be read`);
      return unknown;
    }
  }
}

/** Whether the commit came to something: that stays, whatever git says, until Flux has fetched the commit again. */
function isResult(known: CommitStatus | undefined): boolean {
  return known?.state === "failure" || (known?.state === "success" && !known.neutral);
}

/** Ends the statuses of what was deleted, or gets its content from elsewhere now. `contexts`: of what applies the repository. */
export function withoutMember(written: readonly CommitStatus[], contexts: ReadonlySet<string>): CommitStatus[] {
  const left = written.filter(({ context }) => isFluxContext(context) && !contexts.has(context));
  return left.map(({ context, ...status }) =>
    status.state === "pending"
      ? { context, state: "canceled", description: "Flux does not apply it any more" }
      : { context, ...lineIn({ context, ...status }) },
  );
}
