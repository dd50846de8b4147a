/** What became of a pushed commit in one of the resources that Flux applies. Pure. */
import { type CommitStatus, type FluxDeployment, type FluxSource, keyText } from "../model.ts";
import { inOneLine } from "../reconcile/status/first-error.ts";
import { beingApplied, lineIn, queued, type StatusLine, superseded } from "./deploy-statuses.ts";

/** A resource that applies what a GitRepository has, and what git says about the pushed commit. */
export interface FluxFollower {
  readonly deployment: FluxDeployment;
  readonly source: FluxSource;
  /** Whether the GitRepository is to have the commit now; `undefined`: git could not be asked. */
  readonly isHead: boolean | undefined;
  /** Whether what was applied last is later than the commit, by git. */
  readonly isInApplied: boolean;
}

const suspended: StatusLine = { state: "success", description: "suspended: Flux applies nothing", neutral: true };

/**
 * `known`: the status that was written last. `undefined`: the resource has nothing to do with the commit, as far as is
 * known. Never a success because of what is true of an earlier commit, or of an earlier spec.
 */
export function fluxLine(
  commit: string,
  follower: FluxFollower,
  known: CommitStatus | undefined,
): StatusLine | undefined {
  const { deployment, source, isHead, isInApplied } = follower;
  if (reportsOn(deployment, source) === commit)
    return keepResult(commit, deployment, known) ?? resultOf(commit, deployment);
  if (source.commit === commit || isHead === true) return waitingOf(commit, follower);
  if (known === undefined || known.state === "success" || known.state === "failure") return known && lineIn(known);
  if (isInApplied && isApplied(deployment)) {
    return { state: "success", description: `applied with ${deployment.applied?.slice(0, 7)}` };
  }
  // It may not have been fetched yet: then it is not known which of the two commits is the newer one.
  return isHead === undefined ? lineIn(known) : superseded(known);
}

/** The commit that the resource's status is about; `undefined`: none. */
export function reportsOn(
  { ready, isStalled, attempting, attempted }: FluxDeployment,
  { commit }: Pick<FluxSource, "commit">,
): string | undefined {
  // These are found before an attempt begins.
  if (ready?.status === "False" && (ready.reason === "DependencyNotReady" || isStalled)) return commit;
  if (ready?.status === "False" && ready.reason === "ArtifactFailed") return attempting;
  return attempting ?? attempted;
}

/** Whether what was applied last is what its spec asks for now. */
export function isApplied({ ready, generation, observedGeneration }: FluxDeployment): boolean {
  return ready?.status === "True" && isOfSpec(ready, generation) && observedGeneration === generation;
}

function isOfSpec({ observedGeneration }: { observedGeneration?: number | undefined }, generation: number): boolean {
  return observedGeneration === undefined || observedGeneration >= generation;
}

function resultOf(commit: string, deployment: FluxDeployment): StatusLine {
  const { ready, generation, applied } = deployment;
  if (isApplied(deployment) && applied === commit) return { state: "success", description: "applied" };
  if (ready?.status !== "False" || !isOfSpec(ready, generation)) return unlessSuspended(deployment, beingApplied);
  if (ready.reason === "DependencyNotReady") return unlessSuspended(deployment, waitsFor(ready.message));
  if (ready.reason === "HealthCheckCanceled") return unlessSuspended(deployment, beingApplied);
  return { state: "failure", description: inOneLine(ready.message) || ready.reason };
}

function unlessSuspended({ suspended: is }: FluxDeployment, line: StatusLine): StatusLine {
  return is ? suspended : line;
}

/** "dependency 'flux-system/infrastructure' is not ready" */
function waitsFor(message: string): StatusLine {
  const [, name] = /\bdependency '([^']+)'/.exec(message) ?? [];
  return { state: "pending", description: name ? `waits for ${name}` : `waits: ${inOneLine(message)}` };
}

function waitingOf(commit: string, { deployment, source }: FluxFollower): StatusLine {
  if (deployment.suspended) return suspended;
  if (!source.suspended || source.commit === commit) return queued;
  return { ...suspended, description: `suspended: Flux does not fetch GitRepository ${keyText(source.key)}` };
}

/**
 * Flux checks and retries what has not changed. While it does, the last result stays: hosts limit how often a status may
 * be written.
 */
function keepResult(
  commit: string,
  { ready, applied, generation, observedGeneration }: FluxDeployment,
  known: CommitStatus | undefined,
): StatusLine | undefined {
  const isCheck = ready?.status === "Unknown";
  const isWaiting = ready?.status === "False" && ready.reason === "DependencyNotReady";
  const wasApplied = applied === commit && observedGeneration === generation;
  if (known?.state === "success" && !known.neutral && wasApplied && (isCheck || isWaiting)) return lineIn(known);
  return known?.state === "failure" && isCheck ? lineIn(known) : undefined;
}
