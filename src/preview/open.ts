/** The preview of an open pull request: reads from top to bottom. */
import { QueueUnavailableError } from "../errors.ts";
import type { Logger } from "../log.ts";
import {
  type AnyDeployment,
  type Attempt,
  type Deployment,
  followsGit,
  type GitDeployment,
  keyText,
  type Outcome,
  type PreviewRequest,
  type PullRequest,
  pullRequestText,
  type RepoId,
} from "../model.ts";
import { toFailure } from "../reconcile/failures.ts";
import { dependenciesOf } from "../guards/depends-on.ts";
import type { DeploymentManifests } from "../model/manifests.ts";
import type { Preview, Report } from "../model/report.ts";
import { findAllowance } from "./allowances.ts";
import { compare, type CompareDeps, type PreviewTarget, toWorking } from "./compare.ts";
import { redactVisibly } from "./visible-text.ts";
import { addChildren } from "./children/add-children.ts";
import type { ParentDeployment } from "./children/compare-children.ts";
import { withhold, type FluxCandidates } from "./flux/candidates.ts";
import { compareBranch } from "./flux/compare-branch.ts";
import type { FluxPreviewsDeps } from "./flux/compare-flux.ts";
import { type Early, earlyAfterMs, startEarly } from "./early.ts";
import { describeFindings, type Findings, toReport } from "./findings.ts";
import { compareIsolated } from "./isolated.ts";
import { matchPullRequest } from "./match.ts";
import { matchConsumers, mostConsumers } from "./match-consumers.ts";
import { HeadNotProposed, HeadOnNoBranch, mergeForEachLogin, type MergedOrNot, type MergesDeps } from "./merges.ts";
import { findDependencies } from "./order.ts";
import { findBase, findConflict, release, toTargets } from "./targets.ts";

export interface OpenDeps extends MergesDeps, CompareDeps {
  /** Absent: what Flux applies is not previewed. */
  readonly flux?: FluxPreviewsDeps | undefined;
  /** The name of the cluster for users. */
  readonly clusterName: () => Promise<string>;
  /** From the watch's cache. Absent: dependencies are only followed from the deployments that are shown. */
  readonly allDeployments?: (() => readonly AnyDeployment[]) | undefined;
  /** Called before an allowed commit of a fork is rendered. */
  readonly audit?: ((rendered: AllowedFork) => void) | undefined;
}

/** Code from a fork that is rendered with the full access of a branch, because this commit was allowed. */
export interface AllowedFork {
  readonly action: "preview-fork";
  readonly pullRequest: string;
  readonly commit: string;
  /** The deployments whose annotations allow it. */
  readonly deployments: readonly string[];
}

export interface OpenPullRequest extends Attempt {
  readonly pullRequest: PullRequest;
  readonly cause?: PreviewRequest["cause"] | undefined;
  readonly previous: Report | undefined;
  /** The deployments that follow its base repository, on any branch. */
  readonly deployments: readonly GitDeployment[];
  /** Those that include it, at any ref. */
  readonly including: readonly Deployment[];
  readonly repo: RepoId | undefined;
  /** What Flux applies from its base branch. */
  readonly flux?: FluxCandidates | undefined;
  readonly wantsManifests?: boolean | undefined;
  readonly log: Logger;
  /** `manifests`: those of the finished report. */
  readonly save: (report: Report, manifests?: readonly DeploymentManifests[]) => Promise<void>;
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<unknown>;
}

export async function previewOpen(open: OpenPullRequest, deps: OpenDeps): Promise<Outcome> {
  const { pullRequest, signal, log } = open;
  const startedAt = deps.clock.now();
  const matched = matchPullRequest(pullRequest, open.deployments);
  const followers = new Set(matched.concerned);
  const others = open.including.filter((one) => !followsGit(one) || !followers.has(one));
  const included = matchConsumers(pullRequest, others);
  const { forks } = deps.settings;
  const consumers = included.concerned.slice(0, mostConsumers);
  const concerned = [...matched.concerned, ...consumers];
  const { allowed, isolated, withheld } = pullRequest.fork
    ? sortFork(pullRequest, concerned, forks, startedAt)
    : { allowed: concerned, isolated: [], withheld: [] };
  const candidates = [...allowed, ...isolated];
  const ignored = [...matched.ignored, ...included.ignored, ...withheld];
  const byFlux = open.flux !== undefined && open.flux.kustomizations.length > 0 ? open.flux : undefined;
  const ofForks = byFlux && pullRequest.fork ? withhold(byFlux) : [];
  const unshown = [...included.unshown, ...ofForks];
  const beyond = included.concerned.length - consumers.length;
  const findings: Findings = { previews: [], ignored, unshown, beyond, secrets: deps.settings.serverSecrets ?? [] };
  const why = withheld.length > 0 ? forks?.refusal : ofForks[0]?.reason;
  const notRendered = { kind: "fork", agit: pullRequest.agit, why } as const;

  let comparedAt: number | undefined;

  async function finish(finishedAt = comparedAt ?? deps.clock.now()): Promise<void> {
    await open.save(toReport(open, findings, { startedAt, finishedAt }), findings.manifests);
    log.info({ ...describeFindings(findings), ms: finishedAt - startedAt }, "previewed");
  }

  const fluxToCompare = pullRequest.fork ? undefined : byFlux;
  if (candidates.length === 0 && fluxToCompare === undefined) {
    if (withheld.length + ofForks.length > 0) {
      findings.obstacle = notRendered;
      if (withheld.length > 0 && notRendered.why !== undefined) findings.mendable = true;
    }
    await finish();
    return { kind: "done" };
  }

  const unchanged = findUnchanged(open);
  const announce = async () => {
    if (unchanged !== undefined) return;
    await open.save(toReport(open, findings, { startedAt })).catch((error: unknown) => {
      log.debug({ err: error }, "could not post the early status; the final one will follow");
    });
  };
  const early = startEarly({ afterMs: earlyAfterMs, sleep: open.sleep, announce }, signal);
  let comparingFlux: Promise<number> | undefined;
  const whenCompared = async (parents: readonly ParentDeployment[], cluster: string) => {
    // What it saves is final, and then nothing of Flux's may be missing.
    const [fluxes] = await Promise.allSettled([comparingFlux]);
    if (fluxes.status === "rejected" || ((fluxes.value ?? 0) > 0 && !open.lastAttempt)) return;
    await early.stop();
    const finishedAt = (comparedAt = deps.clock.now());
    const save = () => open.save(toReport(open, findings, { startedAt, finishedAt }), findings.manifests);
    await addChildren({ ...open, parents, cluster, findings, save }, deps);
  };
  try {
    const sorted = {
      followers: candidates.filter((one) => followers.has(one)),
      consumers: candidates.filter((one) => !followers.has(one)),
    };
    const merges = await mergeForEachLogin(pullRequest, sorted, deps, signal);
    if (pullRequest.fork && allowed.length > 0 && merges.some(({ kind }) => kind === "merged")) {
      deps.audit?.({
        action: "preview-fork",
        pullRequest: pullRequestText(pullRequest.key),
        commit: pullRequest.head,
        deployments: allowed.map(({ key }) => keyText(key)),
      });
    }
    const isOnly = candidates.length === 0;
    comparingFlux = fluxToCompare && compareBranch({ ...open, flux: fluxToCompare, isOnly }, findings, early, deps);
    const [kluctls, fluxes] = await Promise.allSettled([
      compareMerges({ ...open, merges, isolated, whenCompared }, findings, early, deps),
      comparingFlux,
    ]);
    const unsure = valueOf(kluctls) + (valueOf(fluxes) ?? 0);
    await early.stop();
    signal.throwIfAborted();
    await finish();
    if (unsure === 0) return { kind: "done" };
    const all = findings.previews.length + (findings.flux?.length ?? 0);
    return { kind: "failed", retry: "soon", message: `${unsure} of ${all} previews failed` };
  } catch (error) {
    await early.stop();
    if (signal.aborted || error instanceof QueueUnavailableError) throw error;
    const { message, retry } = toFailure(error);
    const words = await redactVisibly(message, findings.secrets);
    log.warn({ retry, error: words }, "pull request preview failed");
    findings.mendable = retry === "soon";
    if (error instanceof HeadOnNoBranch && (unchanged ?? open.lastAttempt)) {
      findings.obstacle = { kind: "no-branch" };
      await finish(unchanged?.finishedAt);
      return { kind: "done" };
    }
    if (error instanceof HeadNotProposed && open.lastAttempt) {
      findings.obstacle = notRendered;
      await finish();
      return { kind: "done" };
    }
    if (retry === "person" || open.lastAttempt) {
      findings.obstacle = { kind: "failed", message: words };
      [findings.previews, findings.flux] = [[], []];
      await finish();
    }
    return { kind: "failed", retry, message: words };
  }
}

function valueOf<T>(settled: PromiseSettledResult<T>): T {
  if (settled.status === "rejected") throw settled.reason;
  return settled.value;
}

/**
 * A fork gets the full access of a branch in deployments that allow exactly this commit; in the others it is rendered
 * in isolation, or not at all.
 */
function sortFork(
  pullRequest: PullRequest,
  concerned: readonly GitDeployment[],
  forks: OpenDeps["settings"]["forks"],
  now: number,
) {
  const isAllowed = (deployment: GitDeployment) => findAllowance(deployment, pullRequest, now) !== undefined;
  const allowed = concerned.filter(isAllowed);
  const others = concerned.filter((deployment) => !isAllowed(deployment));
  if (forks !== undefined && forks.refusal === undefined) return { allowed, isolated: others, withheld: [] };
  const reason = "it comes from a fork, and this commit has not been allowed";
  return { allowed, isolated: [], withheld: others.map(({ key }) => ({ deployment: keyText(key), reason })) };
}

/**
 * Returns the report on a head that was on no branch, when the sweep requests it again. Most likely that is unchanged:
 * one check is enough, and the report is neither withdrawn meanwhile nor gets a new date.
 */
function findUnchanged({ cause, previous, pullRequest: { head } }: OpenPullRequest): Report | undefined {
  const isKnown = cause === "sweep" && previous?.obstacle?.kind === "no-branch" && previous.head === head;
  return isKnown ? previous : undefined;
}

/** What is compared with the cluster: the merges, and the deployments they affect. */
export interface ComparisonInput extends Pick<Attempt, "lastAttempt" | "signal"> {
  readonly merges: readonly MergedOrNot[];
  readonly pullRequest: Pick<PullRequest, "repoUrls" | "baseBranch">;
  /** The deployments that are rendered without the cluster instead. */
  readonly isolated?: readonly GitDeployment[] | undefined;
  /** Whether the manifests of what changes are wanted as well. */
  readonly wantsManifests?: boolean | undefined;
  /**
   * Called before the merges are released, with the deployments whose objects include KluctlDeployments that the merge
   * changes, if there are any. Rejects only if the signal aborts.
   */
  readonly whenCompared?: ((parents: readonly ParentDeployment[], cluster: string) => Promise<void>) | undefined;
  readonly log: Logger;
}

/**
 * Resolves when all processes have ended and the merges have been released. Returns how many previews failed that a
 * retry may fix.
 */
export async function compareMerges(
  { merges, pullRequest, isolated = [], wantsManifests, whenCompared, lastAttempt, log, signal }: ComparisonInput,
  findings: Findings,
  early: Pick<Early, "again">,
  deps: OpenDeps,
): Promise<number> {
  try {
    signal.throwIfAborted();
    findings.base = findBase(merges);
    const paths = findConflict(merges);
    if (paths !== undefined) {
      findings.obstacle = { kind: "conflict", paths };
      return 0;
    }
    const { targets, ignored, unshown, secrets, unreadable } = toTargets(pullRequest, merges);
    findings.ignored = [...findings.ignored, ...ignored];
    findings.unshown = [...(findings.unshown ?? []), ...unshown];
    findings.secrets = [...findings.secrets, ...secrets];
    if (unreadable && (unreadable.everywhere || !lastAttempt)) throw unreadable.error;

    const cluster = await deps.clusterName();
    const isIsolated = (deployment: GitDeployment) => isolated.includes(deployment);
    const withDependencies = dependenciesIn(targets, deps);
    const previews = targets.map(({ deployment, consumer }) =>
      withDependencies(
        deployment,
        toWorking(deployment, cluster, { isolated: isIsolated(deployment), includes: consumer !== undefined }),
      ),
    );
    findings.previews = previews;
    early.again();
    const compared = await Promise.all(
      targets.map(async (target, at) => {
        const compareIt = isIsolated(target.deployment) ? compareIsolated : compare;
        // Who reads a library need not read what includes it: its readers see what changes there, and no more.
        const isOwn = target.consumer === undefined;
        const result = await compareIt(
          { ...target, wantsManifests: wantsManifests && isOwn },
          cluster,
          deps,
          log,
          signal,
        );
        previews[at] = withDependencies(target.deployment, result.preview);
        if (result.mendable) findings.mendable = true;
        return { ...result, target };
      }),
    );
    findings.manifests = compared.flatMap(({ target, manifests }) =>
      manifests === undefined ? [] : [{ deployment: keyText(target.deployment.key), ...manifests }],
    );
    const unsure = compared.filter(({ retry }) => retry === "soon").length;
    if (unsure > 0) findings.mendable = true;
    const parents = compared.flatMap(({ target, children }) => (children ? [{ target, changed: children }] : []));
    const isFinal = unsure === 0 || lastAttempt;
    if (parents.length > 0 && isFinal) await whenCompared?.(parents, cluster);
    return unsure;
  } finally {
    await release(merges);
  }
}

function dependenciesIn(targets: readonly PreviewTarget[], { allDeployments }: OpenDeps) {
  const shown = new Set(targets.map(({ deployment }) => keyText(deployment.key)));
  const depends = targets.some(({ deployment }) => dependenciesOf(deployment).keys.length > 0);
  const all = depends ? (allDeployments?.() ?? []) : [];
  const byName = new Map(all.map((deployment) => [keyText(deployment.key), deployment]));
  return (deployment: GitDeployment, preview: Preview): Preview => {
    const dependsOn = findDependencies(deployment, shown, (name) => byName.get(name));
    return dependsOn.length === 0 ? preview : { ...preview, dependsOn: [...dependsOn] };
  };
}
