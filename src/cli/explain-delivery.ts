/** Explains how the server would handle a delivery, by the server's own intake with a queue that only records requests. */
import type { Config } from "../config.ts";
import { createSpeaksFor } from "../forge/forge-hosts.ts";
import type { Verification } from "../forge/webhook-source.ts";
import { createIntake } from "../intake/intake.ts";
import { createLogger } from "../log.ts";
import type { Ignored } from "../model/receipt.ts";
import {
  type Deployment,
  followsGit,
  isMalformed,
  type GitDeployment,
  type GitEvent,
  keyText,
  type MalformedDeployment,
  type RepoId,
  type Request,
} from "../model.ts";
import { findAllowance } from "../preview/allowances.ts";
import { matchPullRequest } from "../preview/match.ts";
import { repoId } from "../model/repo-url.ts";
import { includedBy } from "../model/includes.ts";

export interface ExplainDeps {
  readonly event: GitEvent;
  /** `undefined`: there is only the payload, so that its sender cannot be verified. */
  readonly verdict: Verification | undefined;
  /** The event comes from the server's record, which has no paths. */
  readonly remembered?: true;
  readonly deployments: readonly (Deployment | MalformedDeployment)[];
  readonly config: Pick<Config, "forges" | "preview">;
}

export interface Explanation {
  readonly forge: string;
  readonly genuine: boolean | "unknown";
  /** Why the delivery is not genuine, with advice. */
  readonly refused?: string | undefined;
  readonly event: GitEvent;
  readonly remembered?: true | undefined;
  /** `namespace/name` of the deployments that would be reconciled. */
  readonly matched: readonly string[];
  /** `namespace/name` of the deployments that would be previewed for a pull request. */
  readonly previews: readonly string[];
  readonly ignored: readonly Ignored[];
  /** Why no deployment is affected, unless `ignored` says it. */
  readonly reason?: string | undefined;
  /** Repository names in the payload, to compare spellings. */
  readonly repos: readonly string[];
  /** Sources that other deployments follow, with the number of deployments. */
  readonly others: readonly { readonly follows: string; readonly count: number }[];
}

export async function explainDelivery(deps: ExplainDeps): Promise<Explanation> {
  const { event, verdict, deployments, config } = deps;
  const following = deployments.filter(followsGit);
  const tracking = (repo: RepoId) => following.filter((deployment) => deployment.repo === repo);
  const including = (repo: RepoId) =>
    deployments.filter((one): one is Deployment => !isMalformed(one) && includedBy(one).has(repo));
  const requests: Request[] = [];
  const receipt = await createIntake({
    tracking,
    including,
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
        ? { openInto: () => Promise.resolve([]), proposing: () => Promise.resolve([]) }
        : undefined,
    log: createLogger({ level: "silent", format: "json" }),
  })(event);

  const repos = "repoUrls" in event ? [...new Set(event.repoUrls.map((url) => repoId(url) ?? url))] : [];
  const candidates = repos.flatMap((repo) => tracking(repo as RepoId));
  const pull =
    event.kind === "pull-request" && requests.some(({ kind }) => kind === "preview")
      ? matchPullRequest(event, candidates)
      : undefined;
  const previewed = (pull?.concerned ?? []).filter((deployment) => mayBePreviewed(event, deployment, config));
  return {
    forge: event.forge,
    genuine: verdict?.genuine ?? "unknown",
    refused: verdict?.genuine === false ? verdict.reason : undefined,
    event,
    remembered: deps.remembered,
    matched: requests.flatMap((request) => (request.kind === "reconcile" ? keyText(request.deployment) : [])),
    previews: previewed.map(({ key }) => keyText(key)),
    ignored: [...receipt.ignored, ...(pull?.ignored ?? [])],
    reason: receipt.reason ?? (pull && reasonWithoutPreview(event, candidates.length, previewed.length)),
    repos,
    others: countOthers(deployments, [...candidates, ...(repos as RepoId[]).flatMap(including)]),
  };
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

function countOthers(
  deployments: readonly (Deployment | MalformedDeployment)[],
  candidates: readonly Deployment[],
): Explanation["others"] {
  const concerned = new Set(candidates.map(({ uid, key }) => uid + keyText(key)));
  const counts = new Map<string, number>();
  for (const deployment of deployments) {
    if (concerned.has(deployment.uid + keyText(deployment.key))) continue;
    const follows = "problem" in deployment ? "an invalid source" : (deployment.repo ?? deployment.spec.source.url);
    counts.set(follows, (counts.get(follows) ?? 0) + 1);
  }
  return [...counts].map(([follows, count]) => ({ follows, count })).sort((a, b) => b.count - a.count);
}
