/** What git says about a pushed commit of a repository that Flux follows. */
import { headOf, unusualRefOf } from "../flux/head-of.ts";
import { createBoundedMap } from "../kit/bounded-map.ts";
import { SourceError } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { CommitStatusRequest, FluxSource, Heads } from "../model.ts";
import type { Queue, Sources } from "../ports.ts";
import { lasting } from "./consumers.ts";
import { isApplied } from "./flux-line.ts";
import type { FluxMember } from "./flux-members.ts";

export interface FluxGitDeps {
  readonly sources: Pick<Sources, "heads" | "commitsAt" | "contains">;
  readonly lastMove: Queue["lastMove"];
  /** How long a repository is not asked again that could not be read. */
  readonly restMs?: number | undefined;
  readonly log: Logger;
}

/** Answers for one commit: git is asked for the refs at most once, and only with the logins that the server itself has. */
export interface FluxGit {
  /** The commit that the source should have; `undefined`: git cannot be asked, or only Flux can decide it. */
  headOf(source: FluxSource): Promise<string | undefined>;
  /** Whether what was applied last, with success, is later than the commit; `undefined`: git cannot be asked. */
  isInApplied(member: FluxMember): Promise<boolean | undefined>;
}

/** `members`: all that are asked about. `missed`: called with the reason for each answer that git may give later. */
export type AskFluxGit = (
  request: CommitStatusRequest,
  members: readonly FluxMember[],
  missed: (why: string) => void,
  signal: AbortSignal | undefined,
) => FluxGit;

/** For this long, an answer counts if neither a webhook nor Flux shows that the repository has moved. */
export const keptMs = 60_000;
const queryMs = 60_000;
const mostRepositories = 1_000;

export function createAskFluxGit({ sources, lastMove, restMs = 60_000, log }: FluxGitDeps): AskFluxGit {
  /** By repository: whether only a person can change it. */
  const unreadable = createBoundedMap<{ readonly isLasting: boolean }>({ entries: mostRepositories, maxAgeMs: restMs });

  return function askFluxGit({ commit: { commit }, repo }, members, missed, signal) {
    let asked: Promise<Heads | undefined> | undefined;
    const contained = new Map<string, Promise<boolean | undefined>>();

    /** What Flux fetches is a move of the repository, too: an answer from before it may be older than what Flux has. */
    async function nameMove(): Promise<string | undefined> {
      const reported = await lastMove(repo);
      const fetched = new Set(members.flatMap(({ source }) => source.commit ?? []));
      return reported && [reported, ...[...fetched].toSorted()].join(" ");
    }

    async function readHeads({ url }: FluxSource): Promise<Heads | undefined> {
      const known = unreadable.get(repo);
      if (known !== undefined) return giveUp(known.isLasting);
      try {
        const since = await nameMove();
        const repository = { url, credentials: [] };
        const freshness = since === undefined ? undefined : { since, maxAgeMs: keptMs };
        const heads = await sources.heads(repository, freshness, signal);
        const unusual = [...new Set(members.flatMap(({ source }) => unusualRefOf(source.ref) ?? []))];
        if (unusual.length === 0) return heads;
        const more = await sources.commitsAt(repository, unusual, signal ?? AbortSignal.timeout(queryMs));
        return { ...heads, commits: new Map([...heads.commits, ...more]) };
      } catch (error) {
        signal?.throwIfAborted();
        log.debug({ repo, error: (error as Error).message }, "could not read a repository of Flux");
        const isLasting = lastsUntilChanged(error);
        unreadable.set(repo, { isLasting });
        return giveUp(isLasting);
      }
    }

    async function contains({ url }: FluxSource, applied: string): Promise<boolean | undefined> {
      try {
        return await sources.contains({ url, credentials: [] }, applied, commit, signal);
      } catch (error) {
        signal?.throwIfAborted();
        log.debug({ repo, error: (error as Error).message }, "could not compare two commits of a repository of Flux");
        return giveUp(lastsUntilChanged(error));
      }
    }

    function giveUp(isLasting: boolean): undefined {
      if (!isLasting) missed("a repository of Flux could not be read");
    }

    return {
      async headOf(source) {
        const heads = await (asked ??= readHeads(source));
        return heads && headOf(source.ref, heads);
      },
      async isInApplied({ deployment, source, applied }) {
        if (applied === undefined || !isApplied(deployment)) return false;
        const answer = contained.get(applied) ?? contains(source, applied);
        contained.set(applied, answer);
        return answer;
      },
    };
  };
}

function lastsUntilChanged(error: unknown): boolean {
  return error instanceof SourceError && lasting.has(error.problem);
}
