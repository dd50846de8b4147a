/** Explains how the server would handle a delivery, by the server's own intake with a queue that only records requests. */
import type { Config } from "../config.ts";
import { createSpeaksFor } from "../forge/forge-hosts.ts";
import type { Verification } from "../forge/webhook-source.ts";
import { createOnFluxPush } from "../flux/on-push.ts";
import { createIntake } from "../intake/intake.ts";
import { describePushed } from "../intake/match.ts";
import { createLogger } from "../log.ts";
import type { FluxReceipt, Ignored } from "../model/receipt.ts";
import {
  type AnyDeployment,
  type Deployment,
  type FluxSource,
  followsGit,
  isMalformed,
  type GitDeployment,
  type GitEvent,
  keyText,
  type RepoId,
  type Request,
} from "../model.ts";
import { findAllowance } from "../preview/allowances.ts";
import { matchPullRequest } from "../preview/match.ts";
import { repoId } from "../model/repo-url.ts";
import { includedBy } from "../model/includes.ts";

export interface ExplainerDeps {
  readonly deployments: readonly AnyDeployment[];
  /** Flux's GitRepositories, if the server makes Flux fetch. */
  readonly fluxSources?: readonly FluxSource[] | undefined;
  readonly config: Pick<Config, "forges" | "preview">;
}

export interface GivenEvent {
  readonly event: GitEvent;
  /** `undefined`: there is only the payload, so that its sender cannot be verified. */
  readonly verdict: Verification | undefined;
  /** The event comes from the server's record, which has no paths. */
  readonly remembered?: true;
}

export interface Explanation {
  readonly forge: string;
  readonly genuine: boolean | "unknown";
  /** Why the delivery is not genuine, with advice. */
  readonly refused?: string | undefined;
  readonly event: GitEvent;
  readonly remembered?: true | undefined;
  /** The number of jobs that the server would queue. */
  readonly jobs: number;
  /** `namespace/name` of the deployments that would be reconciled, also of those that only include the repository. */
  readonly matched: readonly string[];
  /** `namespace/name` of the deployments that would be previewed for a pull request. */
  readonly previews: readonly string[];
  /** Those among them that do not follow the branch, with why they are affected. */
  readonly including: readonly { readonly deployment: string; readonly reason: string }[];
  /** Absent if no GitRepository of Flux is of this repository, or the server does not make Flux fetch. */
  readonly flux?: FluxReceipt | undefined;
  readonly ignored: readonly Ignored[];
  /** Why no deployment is affected, unless `ignored` says it. */
  readonly reason?: string | undefined;
  /** Repository names in the payload, to compare spellings. */
  readonly repos: readonly string[];
  /** Sources that other deployments follow, with the number of deployments. */
  readonly others: readonly { readonly follows: string; readonly count: number }[];
}

/** Explains any number of deliveries with the same configuration and deployments. */
export function createExplainer({ deployments, fluxSources = [], config }: ExplainerDeps) {
  const followers = Map.groupBy(deployments.filter(followsGit), ({ repo }) => repo);
  const consumers = new Map<RepoId, Deployment[]>();
  for (const one of deployments) {
    if (isMalformed(one)) continue;
    for (const repo of includedBy(one)) consumers.set(repo, [...(consumers.get(repo) ?? []), one]);
  }
  const sources = countSources(deployments);
  const tracking = (repo: RepoId) => followers.get(repo) ?? [];
  const including = (repo: RepoId) => consumers.get(repo) ?? [];
  let requests: Request[] = [];
  const accept = createIntake({
    tracking,
    including,
    onFluxPush: createOnFluxPush({ fetched: (repo) => fluxSources.filter((source) => source.repo === repo) }),
    queue: {
      enqueue(wanted) {
        requests.push(...wanted);
        return Promise.resolve({ queued: wanted.length });
      },
    },
    forges: new Set(config.forges.filter(({ token, app }) => token ?? app).map(({ id }) => id)),
    speaksFor: createSpeaksFor(config.forges),
    reports: () =>
      config.preview.enabled
        ? {
            open: () => Promise.resolve([]),
            openInto: () => Promise.resolve([]),
            proposing: () => Promise.resolve([]),
          }
        : undefined,
    log: createLogger({ level: "silent", format: "json" }),
  });

  /** One at a time. */
  return async function explain({ event, verdict, remembered }: GivenEvent): Promise<Explanation> {
    requests = [];
    const receipt = await accept(event);
    const repos = "repoUrls" in event ? [...new Set(event.repoUrls.map((url) => repoId(url) ?? url))] : [];
    const candidates = repos.flatMap((repo) => tracking(repo as RepoId));
    const consumers = (repos as RepoId[]).flatMap(including);
    const pull =
      event.kind === "pull-request" && requests.some(({ kind }) => kind === "preview")
        ? matchPullRequest(event, candidates)
        : undefined;
    const shown = consumers.filter(followsGit).filter(({ key }) => receipt.including?.includes(keyText(key)));
    const concerned = pull === undefined ? [] : [...pull.concerned, ...new Set(shown)];
    const previewed = concerned
      .filter((deployment) => mayBePreviewed(event, deployment, config))
      .map(({ key }) => keyText(key));
    return {
      forge: event.forge,
      genuine: verdict?.genuine ?? "unknown",
      refused: verdict?.genuine === false ? verdict.reason : undefined,
      event,
      remembered,
      jobs: requests.length,
      matched: requests.flatMap((request) => (request.kind === "reconcile" ? keyText(request.deployment) : [])),
      previews: previewed,
      including: [...includedOnly(requests), ...(pull ? (receipt.including ?? []) : [])].map((deployment) => ({
        deployment,
        reason: reasonOfInclude(event),
      })),
      ...(receipt.flux && { flux: receipt.flux }),
      ignored: [...receipt.ignored, ...(pull?.ignored ?? [])],
      reason:
        receipt.reason ?? (pull && reasonWithoutPreview(event, candidates.length + consumers.length, previewed.length)),
      repos,
      others: withoutCandidates(sources, [...candidates, ...consumers]),
    };
  };
}

/** The deployments that a push only affects because their projects include the repository. */
function includedOnly(requests: readonly Request[]): string[] {
  return requests.flatMap((one) =>
    one.kind === "reconcile" && one.cause === "include" ? [keyText(one.deployment)] : [],
  );
}

function reasonOfInclude(event: GitEvent): string {
  const at = event.kind === "push" ? describePushed(event) : "baseBranch" in event && `branch ${event.baseBranch}`;
  return `includes this repository${at ? ` at ${at}` : ""}`;
}

/** For a fork: whether its commit is allowed, unless forks are rendered in isolation. */
function mayBePreviewed(event: GitEvent, deployment: GitDeployment, { preview }: Pick<Config, "preview">): boolean {
  if (event.kind !== "pull-request" || !event.fork || preview.forks === "isolated") return true;
  const { forge, repoName, number, head } = event;
  return findAllowance(deployment, { key: { forge, repoName, number }, head }, Date.now()) !== undefined;
}

function reasonWithoutPreview(event: GitEvent, candidates: number, previewed: number): string | undefined {
  if (candidates === 0) return "no deployment follows this repository";
  const isWithheld = event.kind === "pull-request" && event.fork && previewed === 0;
  return isWithheld ? "the pull request comes from a fork, whose code is not run" : undefined;
}

function sourceOf(deployment: AnyDeployment): string {
  return isMalformed(deployment) ? "an invalid source" : (deployment.repo ?? deployment.spec.source.url);
}

function countSources(deployments: readonly AnyDeployment[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const source of deployments.map(sourceOf)) counts.set(source, (counts.get(source) ?? 0) + 1);
  return counts;
}

/** The sources without those of the candidates, most deployments first. */
function withoutCandidates(
  sources: ReadonlyMap<string, number>,
  candidates: readonly Deployment[],
): Explanation["others"] {
  const counts = new Map(sources);
  for (const source of [...new Set(candidates)].map(sourceOf)) counts.set(source, (counts.get(source) ?? 0) - 1);
  const others = [...counts].map(([follows, count]) => ({ follows, count }));
  return others.filter(({ count }) => count > 0).sort((a, b) => b.count - a.count);
}
