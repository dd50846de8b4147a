/** Merges a pull request for what Flux applies, and adds what it would change to the findings. */
import { compareText } from "../../kit/compare-text.ts";
import type { Logger } from "../../log.ts";
import { annotation, isSwitchedOff, keyText, type PullRequest } from "../../model.ts";
import type { Preview } from "../../model/report.ts";
import type { Sources } from "../../ports.ts";
import { toFailure } from "../../reconcile/failures.ts";
import type { CompareDeps } from "../compare.ts";
import type { Early } from "../early.ts";
import type { Findings } from "../findings.ts";
import { HeadOnNoBranch, mergeBranch } from "../merges.ts";
import { redactVisibly } from "../visible-text.ts";
import type { FluxCandidates } from "./candidates.ts";
import { compareFlux, type FluxPreviewsDeps } from "./compare-flux.ts";
import { toFailedFlux } from "./compare-kustomization.ts";

export interface BranchInput {
  readonly pullRequest: PullRequest;
  readonly flux: FluxCandidates;
  /** There is nothing else to compare: what fails here fails the whole preview. */
  readonly isOnly: boolean;
  readonly lastAttempt: boolean;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

interface BranchDeps extends Pick<CompareDeps, "limit" | "party" | "settings"> {
  readonly sources: Pick<Sources, "heads" | "merge">;
  readonly clusterName: () => Promise<string>;
  readonly flux?: FluxPreviewsDeps | undefined;
}

/**
 * Returns how many previews failed that a retry may fix. Rejects if nothing could be compared and there is nothing else, or
 * if that may be better after a retry.
 */
export async function compareBranch(
  input: BranchInput,
  findings: Findings,
  early: Pick<Early, "again">,
  deps: BranchDeps,
): Promise<number> {
  const { flux: candidates, isOnly, lastAttempt, log, signal } = input;
  const [source] = candidates.sources;
  if (source === undefined || deps.flux === undefined) return 0;
  const clusterName = await deps.clusterName();
  try {
    return await compare(input, { url: source.url, clusterName }, findings, early, { ...deps, flux: deps.flux });
  } catch (error) {
    signal.throwIfAborted();
    const { message, retry } = toFailure(error);
    if (isOnly || error instanceof HeadOnNoBranch || (retry === "soon" && !lastAttempt)) throw error;
    const reason = await redactVisibly(message, findings.secrets);
    log.warn({ retry, error: reason }, "Kustomizations could not be compared");
    // Nobody knows what the merge does to them: without a failure, the status would be the one of a harmless change.
    findings.flux = candidates.kustomizations
      .filter(({ annotations = {} }) => !isSwitchedOff({ annotations }, annotation.preview))
      .map((one) => toFailedFlux(one, clusterName, reason))
      .toSorted(byName);
    if (retry === "soon") findings.mendable = true;
    return 0;
  }
}

async function compare(
  { pullRequest, flux: candidates, log, signal }: BranchInput,
  { url, clusterName }: { readonly url: string; readonly clusterName: string },
  findings: Findings,
  early: Pick<Early, "again">,
  deps: BranchDeps & { readonly flux: FluxPreviewsDeps },
): Promise<number> {
  const { base, merge } = await mergeBranch(pullRequest, url, deps.sources, signal);
  findings.base ??= base;
  if (merge.kind === "conflict") {
    findings.obstacle = { kind: "conflict", paths: [...merge.paths] };
    return 0;
  }
  try {
    const onPreviews = (previews: Findings["flux"]) => {
      findings.flux = previews;
      early.again();
    };
    const found = await compareFlux({ candidates, merge, clusterName, onPreviews, log, signal }, deps);
    findings.flux = found.previews.toSorted(byName);
    findings.ignored = [...findings.ignored, ...found.ignored];
    findings.unshown = [...(findings.unshown ?? []), ...found.unshown];
    if (found.mendable || found.unsure > 0) findings.mendable = true;
    return found.unsure;
  } finally {
    await merge.release();
  }
}

function byName(one: Pick<Preview, "deployment">, other: Pick<Preview, "deployment">): number {
  return compareText(keyText(one.deployment), keyText(other.deployment));
}
