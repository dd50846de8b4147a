/** What a push means for Flux: which GitRepositories are to be fetched, and whether what Flux applies is reported. Pure. */
import { mostNamed } from "../intake/requested.ts";
import {
  type CommitStatusRequest,
  type FluxFetchRequest,
  type FluxReceipt,
  keyText,
  type PushEvent,
  type RepoId,
} from "../model.ts";
import type { FluxSources } from "../ports.ts";
import { follows, matchSources } from "./match-sources.ts";

export interface FluxPushDeps {
  /** Absent: Flux is never made to fetch. */
  readonly fetched?: FluxSources["following"] | undefined;
  /** Absent: what Flux applies is not reported. */
  readonly reported?: FluxSources["following"] | undefined;
}

export interface FluxPush {
  readonly fetches: readonly FluxFetchRequest[];
  /** `undefined`: there is no GitRepository of this repository that could be fetched. */
  readonly receipt?: FluxReceipt | undefined;
  /** `undefined`: no GitRepository follows what was pushed. */
  readonly reported?: Pick<CommitStatusRequest, "pushedTo" | "repo"> | undefined;
}

/** `repos`: the pushed repository in every spelling. */
export type OnFluxPush = (event: PushEvent, repos: ReadonlySet<RepoId>) => FluxPush;

export function createOnFluxPush({ fetched = () => [], reported = () => [] }: FluxPushDeps): OnFluxPush {
  return (event, repos) => {
    const follower = [...repos].flatMap((repo) => reported(repo)).find((source) => follows(source, event.ref));
    return { ...toFetch(event, repos), reported: follower && { repo: follower.repo, pushedTo: event.ref } };
  };

  function toFetch(event: PushEvent, repos: ReadonlySet<RepoId>): Pick<FluxPush, "fetches" | "receipt"> {
    const candidates = [...repos].flatMap((repo) => fetched(repo));
    if (candidates.length === 0) return { fetches: [] };
    const { sources, ignored } = matchSources(event, candidates, repos);
    const { after: commit, delivery } = event;
    const cause = "push";
    const fetches = sources.map(({ key }) => ({ kind: "flux-fetch", source: key, cause, commit, delivery }) as const);
    const named = sources.slice(0, mostNamed).map(({ key }) => keyText(key));
    const receipt = { matched: sources.length, sources: named, ignored: ignored.slice(0, mostNamed) };
    return { fetches, receipt };
  }
}
