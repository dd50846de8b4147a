/**
 * Step 3 of a push: turns the event into requests, one for each deployment that it affects, and gives them to the
 * queue. The sender gets its answer when this resolves. Next: src/intake/match.ts, then jobs/queue.ts.
 */
import type { Logger } from "../log.ts";
import { findRendered } from "./find-rendered.ts";
import { includesPushed, matchIncludes } from "./match-includes.ts";
import { describeIgnored, match, reposOf } from "./match.ts";
import { consumersOf, distinct, mostNamed, toPreview } from "./requested.ts";
import { createOtherEvents } from "./other-events.ts";
import type { FluxPush, OnFluxPush } from "../flux/on-push.ts";
import {
  type CommitStatusRequest,
  type Deployment,
  type GitEvent,
  keyText,
  type MergeGroupEvent,
  type PullRequestEvent,
  type PullRequestKey,
  pullRequestText,
  type PushEvent,
  type Receipt,
  type ReconcileRequest,
  type RepoId,
  type Request,
  type RerunEvent,
} from "../model.ts";
import { includedBy } from "../model/includes.ts";
import type { Clock, Deployments, FluxSources, Queue, Reports } from "../ports.ts";

export type Accept = (event: GitEvent) => Promise<Receipt>;

export interface IntakeDeps {
  readonly tracking: Deployments["tracking"];
  readonly including: Deployments["including"];
  /** Absent: nothing is done for Flux. */
  readonly onFluxPush?: OnFluxPush | undefined;
  /** Absent: what Flux applies is not reported. */
  readonly reportedByFlux?: FluxSources["following"] | undefined;
  /** Absent: what Flux applies is not previewed. */
  readonly previewedByFlux?: FluxSources["following"] | undefined;
  readonly queue: Pick<Queue, "enqueue">;
  /** Ids of the forges whose API the server can log in to: these get commit statuses and pull request reports. */
  readonly forges?: { has(id: string): boolean } | undefined;
  /** Whether a forge may report events for the repository at this URL. */
  readonly speaksFor?: ((forge: string, url: string) => boolean) | undefined;
  /** Without it, pull requests are not previewed. */
  readonly reports?: () => Pick<Reports, "open" | "openInto" | "proposing"> | undefined;
  /** Counts reruns; without it, what is written already is not written again. */
  readonly written?: Pick<Reports, "addRerun"> | undefined;
  readonly log: Logger;
  readonly clock?: Clock;
  /** Called for each authentic delivery of a forge with the number of affected deployments and pull requests. */
  readonly onTaken?: ((forge: string, matched: Pick<Receipt, "matched" | "previews" | "flux">) => void) | undefined;
}

/**
 * Resolves once Redis has stored everything; otherwise rejects with the queue's error.
 *
 * Deliveries are not deduplicated by id. A duplicate creates at most one more job per deployment, which finds that the
 * commit is already observed and ends; while the first job still waits, it creates none. Deduplication would depend on
 * the host's delivery id, which no host signs and some reuse for several deliveries, and it would reject redeliveries
 * that Redis or a user needs. So a delivery that never finished is taken whenever it comes, and the server requests none
 * again that it has a record of (redeliveries.ts).
 */
export function createIntake(deps: IntakeDeps): Accept {
  const {
    tracking,
    including,
    reportedByFlux = () => [],
    previewedByFlux = () => [],
    queue,
    forges = new Set<string>(),
    speaksFor = () => true,
    reports = () => undefined,
    written,
    log,
    clock = { now: () => Date.now() },
  } = deps;

  const byFlux = { reportedByFlux, previewedByFlux };
  const others = createOtherEvents({ tracking, including, ...byFlux, forges, reports, written, enqueue });

  async function acceptPush(event: PushEvent, receivedAt: number): Promise<Receipt> {
    const spelled = reposOf(event);
    // The index lists each deployment under a single spelling, so there are no duplicates.
    const candidates = [...spelled].flatMap((repo) => tracking(repo));
    const { consumers, libraries } = consumersOf(spelled, including);
    const followed = match(event, candidates, spelled);
    const { requests, ignored } = matchIncludes(event, consumers, spelled, followed);
    const followedRepos = distinct(candidates.map(({ repo }) => repo));
    // A job for an include gets no earlier answer for its own repository either: there is one record for both.
    // The job also asks which commit of the library it includes, and gets no earlier answer for that either. Nor do previews
    // reuse what they have rendered with an earlier one.
    const rendering = consumers.filter((one) => includesPushed(event, one, spelled));
    const included = rendering.flatMap((one) => [...includedBy(one)].filter((repo) => spelled.has(repo)));
    const ownRepos = requests.flatMap(({ repo }) => repo ?? []);
    const repos = distinct([...followedRepos, ...libraries, ...ownRepos, ...included]);
    const previewed = [...spelled].flatMap((repo) => previewedByFlux(repo)).map(({ repo }) => repo);
    const based = await findBased(event, distinct([...followedRepos, ...libraries, ...previewed]));
    const related = await findRelated(rendering, based);
    const { delivery } = event;
    const { fetches, receipt: flux, reported } = deps.onFluxPush?.(event, spelled) ?? { fetches: [] };
    const wanted = [
      ...requests.map((request) => ({ ...request, receivedAt })),
      ...based.map((pullRequest) => toPreview(pullRequest, "base", delivery, receivedAt)),
      ...related.map((pullRequest) => toPreview(pullRequest, "library", delivery, receivedAt)),
      ...fetches,
    ];
    // The moves are recorded first, so that no job of this push gets an older answer of git. They are recorded even if
    // every deployment ignores the push: one of them may be reconciled for another reason and has to see the current
    // commit.
    const status = findStatus(event, followed.requests, reported);
    const [queued] = await Promise.all([enqueue(wanted, repos), enqueue(status, reported ? [reported.repo] : [])]);
    const isFollowed =
      candidates.length + consumers.length + previewed.length > 0 || flux !== undefined || reported !== undefined;
    const reason = isFollowed ? undefined : "no deployment follows this repository";
    const previews = reports() && forges.has(event.forge) ? based.length + related.length : undefined;
    const matched = requests.length;
    const deployments = matched > 0 ? requests.slice(0, mostNamed).map((one) => keyText(one.deployment)) : undefined;
    const named = requests.slice(0, mostNamed).filter(({ cause }) => cause === "include");
    const more = named.length > 0 ? { including: named.map((one) => keyText(one.deployment)) } : {};
    return { delivery, matched, deployments, ...more, ...(flux && { flux }), previews, queued, ignored, reason };
  }

  /** The open pull requests based on the pushed branch: what merging them would change is different now. */
  async function findBased({ forge, ref }: PushEvent, repos: readonly RepoId[]): Promise<PullRequestKey[]> {
    const known = reports();
    if (known === undefined || !forges.has(forge) || !ref.startsWith("refs/heads/")) return [];
    const branch = ref.slice("refs/heads/".length);
    return (await Promise.all(repos.map((repo) => known.openInto(repo, branch)))).flat();
  }

  /** The other open pull requests that show these deployments. */
  async function findRelated(
    rendering: readonly Deployment[],
    based: readonly PullRequestKey[],
  ): Promise<PullRequestKey[]> {
    const known = reports();
    if (known === undefined || rendering.length === 0) return [];
    const texts = new Set(based.map(pullRequestText));
    const rendered = await findRendered(rendering, known);
    return rendered.filter((one) => forges.has(one.forge) && !texts.has(pullRequestText(one)));
  }

  /** The status of the pushed commit shows its state in the cluster. */
  function findStatus(
    { forge, repoName, after, change }: PushEvent,
    [first]: readonly ReconcileRequest[],
    reported: FluxPush["reported"],
  ): CommitStatusRequest[] {
    const repo = first?.repo ?? reported?.repo;
    if (!forges.has(forge) || repo === undefined || after === undefined || change === "deleted") return [];
    return [{ kind: "commit-status", commit: { forge, repoName, commit: after }, ...reported, repo }];
  }

  async function enqueue(requests: readonly Request[], moved: readonly RepoId[] = []): Promise<number> {
    return requests.length + moved.length === 0 ? 0 : (await queue.enqueue(requests, moved)).queued;
  }

  /**
   * Ignores repositories that belong to another forge: otherwise, anyone with the secret of one forge could report
   * events for any repository.
   */
  async function acceptOwn(
    event: PushEvent | PullRequestEvent | MergeGroupEvent | RerunEvent,
    receivedAt: number,
  ): Promise<Receipt> {
    const repoUrls = event.repoUrls.filter((url) => speaksFor(event.forge, url));
    if (repoUrls.length === 0 && event.repoUrls.length > 0) {
      const reason = `the repository is on a host of another forge, which ${event.forge} is not allowed to report`;
      return { delivery: event.delivery, matched: 0, queued: 0, ignored: [], reason };
    }
    switch (event.kind) {
      case "push":
        return acceptPush({ ...event, repoUrls }, receivedAt);
      case "pull-request":
        return others.acceptPullRequest({ ...event, repoUrls }, receivedAt);
      case "merge-group":
        return others.acceptMergeGroup({ ...event, repoUrls }, receivedAt);
      case "rerun":
        return others.acceptRerun({ ...event, repoUrls }, receivedAt);
    }
  }

  async function acceptAny(event: GitEvent, receivedAt: number): Promise<Receipt> {
    switch (event.kind) {
      case "push":
      case "pull-request":
      case "merge-group":
      case "rerun":
        return acceptOwn(event, receivedAt);
      case "ping":
        return { delivery: event.delivery, matched: 0, queued: 0, ignored: [], reason: "the webhook is set up" };
      case "irrelevant":
        return { delivery: event.delivery, matched: 0, queued: 0, ignored: [], reason: event.reason };
    }
  }

  return async function accept(event) {
    const receivedAt = clock.now();
    const receipt = await acceptAny(event, receivedAt);
    const ms = Math.round(clock.now() - receivedAt);
    log.info({ ...describeEvent(event), ...describeReceipt(receipt), ms }, messageFor(event));
    deps.onTaken?.(event.forge, receipt);
    return receipt;
  };
}

function describeEvent(event: GitEvent) {
  const { delivery, forge, kind } = event;
  const repo = "repoName" in event ? event.repoName : undefined;
  const ref = event.kind === "push" ? event.ref : event.kind === "merge-group" ? event.branch : undefined;
  return { delivery, forge, event: kind, repo, ref, number: event.kind === "pull-request" ? event.number : undefined };
}

function describeReceipt({ matched, previews, flux, queued, ignored, reason }: Receipt) {
  const fluxSources = flux?.matched;
  return { matched, previews, fluxSources, queued, ...describeIgnored(ignored), reason };
}

function messageFor(event: GitEvent): string {
  return event.kind === "irrelevant" ? "delivery ignored" : `${event.kind} accepted`;
}
