/** Finds what became of a pushed commit in what Flux applies, from the cluster, and from git as far as it is needed. */
import { headOf, unusualRefOf } from "../flux/head-of.ts";
import { follows } from "../flux/match-sources.ts";
import { createBoundedMap } from "../kit/bounded-map.ts";
import type { Logger } from "../log.ts";
import {
  type CommitStatus,
  type CommitStatusRequest,
  type FluxSource,
  followedBy,
  type Heads,
  type RepoId,
} from "../model.ts";
import type { FluxDeployments, FluxSources, Queue, Sources } from "../ports.ts";
import { lineIn } from "./deploy-statuses.ts";
import { fluxLine, isApplied } from "./flux-line.ts";
import { type FluxMember, memberOf } from "./flux-members.ts";
import { aggregateContext, fluxContextOf, isFluxContext } from "./statuses.ts";

export interface FluxStatusesDeps {
  readonly fluxSources: Pick<FluxSources, "find" | "following" | "synced">;
  readonly fluxDeployments: Pick<FluxDeployments, "all" | "find" | "read" | "synced">;
  readonly sources: Pick<Sources, "heads" | "commitsAt" | "contains">;
  readonly lastMove: Queue["lastMove"];
  /** Returns a function that masks secrets in what a controller reports. Takes some milliseconds. */
  readonly createMask: () => (text: string) => string;
  /** How long a repository is not asked again that could not be read. */
  readonly restMs?: number | undefined;
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
  /** Whether the existing summary stays: whether its commit is still to be applied is not known. */
  readonly isUncertain: boolean;
}

export function createFluxStatuses(deps: FluxStatusesDeps): FluxStatuses {
  const { fluxSources, fluxDeployments, sources, restMs = 60_000, log } = deps;
  const unreadable = createBoundedMap<true>({ entries: mostRepositories, maxAgeMs: restMs });
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
      const askGit = createAskGit(request, members, signal);
      let mask: ReturnType<typeof deps.createMask> | undefined;
      let isUncertain = false;
      const lines: CommitStatus[] = [];
      for (const found of members) {
        const context = fluxContextOf(found.deployment);
        const before = known.get(context);
        const member = await toCurrent(found, commit, before, signal);
        const isCurrent = member.source.commit === commit || member.about === commit;
        const isHead = isCurrent ? undefined : await askGit.isHead(member.source);
        const isOpen = before?.state === "pending" || before?.state === "canceled";
        const isInApplied = !isCurrent && isHead !== true && isOpen && (await askGit.isInApplied(member));
        const line = fluxLine(commit, { ...member, isHead, isInApplied }, before);
        if (line === undefined) {
          isUncertain ||= isHead === undefined;
        } else if (line.state === "success") {
          lines.push({ context, ...line });
        } else {
          mask ??= deps.createMask();
          lines.push({ context, ...line, description: mask(line.description) });
        }
      }
      lines.push(...withoutMember(written, members));
      const isOpen = known.get(aggregateContext)?.state === "pending";
      return { lines, isUncertain: isUncertain && isOpen && lines.length === 0 };
    },
  };

  function findMembers(repo: RepoId): FluxMember[] {
    if (fluxSources.following(repo).length === 0) return [];
    const members = fluxDeployments.all().flatMap((deployment) => memberOf(deployment, deps) ?? []);
    // Like a deployment of a fixed commit, what applies one is not concerned by pushes.
    return members.filter(({ source }) => source.repo === repo && followedBy(source.ref).kind !== "commit");
  }

  /**
   * A HelmRelease may have been changed by the commit that its Kustomization has applied: the two watches do not show in
   * which order. So it is read once after the commit was applied; what the watch shows of an earlier spec is not believed.
   */
  async function toCurrent(
    member: FluxMember,
    commit: string,
    before: CommitStatus | undefined,
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
      return unknown;
    }
  }

  /** At most one query for refs per commit, and only with the logins that the server itself has. */
  function createAskGit(
    { commit: { commit }, repo, pushedTo }: CommitStatusRequest,
    members: readonly FluxMember[],
    signal: AbortSignal | undefined,
  ) {
    let asked: Promise<Heads | undefined> | undefined;
    const contained = new Map<string, Promise<boolean>>();

    async function readHeads({ url }: FluxSource): Promise<Heads | undefined> {
      if (unreadable.get(repo)) return undefined;
      try {
        const since = await deps.lastMove(repo);
        const repository = { url, credentials: [] };
        const heads = await sources.heads(repository, since === undefined ? undefined : { since }, signal);
        const unusual = [...new Set(members.flatMap(({ source }) => unusualRefOf(source.ref) ?? []))];
        if (unusual.length === 0) return heads;
        const more = await sources.commitsAt(repository, unusual, signal ?? AbortSignal.timeout(queryMs));
        return { ...heads, commits: new Map([...heads.commits, ...more]) };
      } catch (error) {
        signal?.throwIfAborted();
        log.debug({ repo, error: (error as Error).message }, "could not read a repository of Flux");
        unreadable.set(repo, true);
        return undefined;
      }
    }

    async function contains({ url }: FluxSource, applied: string): Promise<boolean> {
      try {
        return await sources.contains({ url, credentials: [] }, applied, commit, signal);
      } catch (error) {
        signal?.throwIfAborted();
        log.debug({ repo, error: (error as Error).message }, "could not compare two commits of a repository of Flux");
        return false;
      }
    }

    return {
      /** `undefined`: git cannot be asked, or only Flux can decide it. */
      async isHead(source: FluxSource): Promise<boolean | undefined> {
        const heads = await (asked ??= readHeads(source));
        const head = heads && headOf(source.ref, heads);
        if (head !== undefined) return head === commit;
        return pushedTo !== undefined && follows(source, pushedTo) ? true : undefined;
      },
      async isInApplied({ deployment, source, applied }: FluxMember): Promise<boolean> {
        if (applied === undefined || !isApplied(deployment)) return false;
        const answer = contained.get(applied) ?? contains(source, applied);
        contained.set(applied, answer);
        return answer;
      },
    };
  }
}

const queryMs = 60_000;
const mostReleases = 10_000;
const mostRepositories = 1_000;

/** Ends the statuses of what was deleted, or gets its content from elsewhere now. */
function withoutMember(written: readonly CommitStatus[], members: readonly FluxMember[]): CommitStatus[] {
  const contexts = new Set(members.map(({ deployment }) => fluxContextOf(deployment)));
  const left = written.filter(({ context }) => isFluxContext(context) && !contexts.has(context));
  return left.map(({ context, ...status }) =>
    status.state === "pending"
      ? { context, state: "canceled", description: "Flux does not apply it any more" }
      : { context, ...lineIn({ context, ...status }) },
  );
}
