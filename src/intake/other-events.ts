/** Turns events other than pushes into requests: pull requests, groups of a merge queue, and the button that runs checks again. */
import { matchPullRequest } from "../preview/match.ts";
import { matchConsumers } from "../preview/match-consumers.ts";
import {
  type CommitKey,
  type Deployment,
  keyText,
  type MergeGroupEvent,
  type PullRequestEvent,
  type PullRequestKey,
  type Receipt,
  type RepoId,
  type Request,
  type RerunEvent,
} from "../model.ts";
import type { Deployments, FluxSources, Reports } from "../ports.ts";
import { reposOf } from "./match.ts";
import { consumersOf, distinct, mostNamed, toPreview } from "./requested.ts";

export interface OtherEventsDeps {
  readonly tracking: Deployments["tracking"];
  readonly including: Deployments["including"];
  /** The GitRepositories of Flux whose commits get statuses. */
  readonly reportedByFlux: FluxSources["following"];
  /** Those whose pull requests are previewed. */
  readonly previewedByFlux: FluxSources["following"];
  /** Ids of the forges whose API the server can log in to. */
  readonly forges: { has(id: string): boolean };
  /** Without it, pull requests are not previewed. */
  readonly reports: () => Pick<Reports, "proposing"> | undefined;
  readonly written: Pick<Reports, "addRerun"> | undefined;
  /** Returns how many jobs were created. */
  readonly enqueue: (requests: readonly Request[]) => Promise<number>;
}

/** Each function resolves once Redis has stored everything, and rejects with the queue's error. */
export function createOtherEvents(deps: OtherEventsDeps) {
  const { tracking, including, reportedByFlux, previewedByFlux, forges, reports, written, enqueue } = deps;

  /** The deployments that include the repository and do not follow the pull request's base. */
  function onlyConsumersOf(event: Pick<PullRequestEvent, "repoUrls" | "baseBranch">): Deployment[] {
    const spelled = reposOf(event);
    const candidates = [...spelled].flatMap((repo) => tracking(repo));
    const followers = new Set(matchPullRequest(event, candidates).concerned.map(({ uid }) => uid));
    return consumersOf(spelled, including).consumers.filter(({ uid }) => !followers.has(uid));
  }

  /** Also if no deployment follows the repository: its status may be required and has to resolve. */
  async function acceptPullRequest(event: PullRequestEvent, receivedAt: number): Promise<Receipt> {
    const { forge, repoName, number, delivery } = event;
    const reason = reasonNotToPreview(event);
    if (reason !== undefined) return { delivery, matched: 0, queued: 0, ignored: [], reason };
    const queued = await enqueue([toPreview({ forge, repoName, number }, "pull-request", delivery, receivedAt)]);
    const { concerned, unshown, ignored } = matchConsumers(event, onlyConsumersOf(event));
    const named = concerned.slice(0, mostNamed).map(({ key }) => keyText(key));
    const more = named.length > 0 ? { including: named } : {};
    return { delivery, matched: 0, previews: 1, ...more, queued, ignored: [...unshown, ...ignored] };
  }

  /** Also if nothing is previewed: the merge queue waits for a required check. */
  async function acceptMergeGroup(event: MergeGroupEvent, receivedAt: number): Promise<Receipt> {
    const { forge, repoName, commit, branch, base, ended, delivery } = event;
    const nothing = { delivery, matched: 0, ignored: [] };
    if (!forges.has(forge)) return { ...nothing, queued: 0, reason: noLogin(forge) };
    const group = { forge, repoName, commit, branch, base };
    const queued = await enqueue([{ kind: "merge-group", group, ended, delivery, receivedAt }]);
    return { ...nothing, queued };
  }

  /**
   * Shows again what the commit's checks say, and previews the pull requests whose head it still is: each user who may
   * open a pull request may also have it previewed. It never deploys: that needs more rights than a button proves.
   */
  async function acceptRerun(event: RerunEvent, receivedAt: number): Promise<Receipt> {
    const { forge, repoName, commit, delivery } = event;
    const nothing = { delivery, matched: 0, queued: 0, ignored: [] };
    if (!forges.has(forge)) return { ...nothing, reason: noLogin(forge) };
    const spelled = reposOf(event);
    const followers = [...spelled].flatMap((repo) => [...tracking(repo), ...reportedByFlux(repo)]);
    const followed = distinct(followers.map(({ repo }) => repo));
    const previewed = [...spelled].flatMap((repo) => previewedByFlux(repo)).map(({ repo }) => repo);
    const repos = distinct([...followed, ...consumersOf(spelled, including).libraries, ...previewed]);
    const [first] = followed;
    if (repos.length === 0) return { ...nothing, reason: "no deployment follows this repository" };
    const key = { forge, repoName, commit };
    // First, so that the jobs write even what is there already: the host waits for a new run.
    await written?.addRerun(key);
    const proposing = await findProposing(key, repos);
    const previews = proposing.map((one) => toPreview(one, "pull-request", delivery, receivedAt));
    const statuses = first === undefined ? [] : [{ kind: "commit-status", commit: key, repo: first } as const];
    const queued = await enqueue([...previews, ...statuses]);
    return { ...nothing, previews: previews.length, queued };
  }

  /** The open pull requests whose head is the commit. */
  async function findProposing({ forge, commit }: CommitKey, repos: readonly RepoId[]): Promise<PullRequestKey[]> {
    const known = reports();
    if (known === undefined) return [];
    const found = await Promise.all(repos.map((repo) => known.proposing(repo, commit)));
    return found.flat().flatMap(({ pullRequest }) => (pullRequest.forge === forge ? [pullRequest] : []));
  }

  function reasonNotToPreview({ action, forge }: PullRequestEvent): string | undefined {
    if (reports() === undefined) return "previews of pull requests are disabled (preview.enabled)";
    if (!forges.has(forge)) {
      return noLogin(forge);
    }
    return action === "other" ? "no change that affects a preview" : undefined;
  }

  return { acceptPullRequest, acceptMergeGroup, acceptRerun };
}

function noLogin(forge: string): string {
  return `no preview: forge ${forge} has no login for its API, set its token (or appId and appPrivateKey)`;
}
