/** What became of a pushed commit in one of the resources that Flux applies. Pure. */
import { type CommitStatus, type FluxDeployment, keyText } from "../model.ts";
import { inOneLine } from "../reconcile/status/first-error.ts";
import { beingApplied, lineIn, queued, type StatusLine, superseded } from "./deploy-statuses.ts";
import type { FluxMember } from "./flux-members.ts";

/** A resource, and what git says about the pushed commit. */
export interface FluxFollower extends FluxMember {
  /** Whether the GitRepository is to have the commit now; `undefined`: git could not be asked, or did not have to be. */
  readonly isHead: boolean | undefined;
  /** Whether what was applied last is later than the commit, by git; `undefined`: git could not be asked. */
  readonly isInApplied: boolean | undefined;
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
  const { deployment, source, about, applied, isHead, isInApplied } = follower;
  if (about === commit) return keepResult(commit, follower, known) ?? resultOf(commit, follower);
  if (source.commit === commit || isHead === true) return waitingOf(commit, follower);
  if (known === undefined || known.state === "success" || known.state === "failure") return known && lineIn(known);
  if (isInApplied && isApplied(deployment)) {
    return { state: "success", description: `applied with ${applied?.slice(0, 7)}` };
  }
  // It may not have been fetched yet: then it is not known which of the two commits is the newer one.
  return isHead === undefined || isInApplied === undefined ? lineIn(known) : superseded(known);
}

/** Whether Flux is done with what its source has, so that an earlier commit that is not in it is never applied. */
export function isDone({ deployment, source, applied }: FluxMember): boolean {
  return isApplied(deployment) && applied === source.commit;
}

/** Whether what was applied last is what its spec asks for now. */
export function isApplied({ ready, generation, observedGeneration }: FluxDeployment): boolean {
  return ready?.status === "True" && isOfSpec(ready, generation) && observedGeneration === generation;
}

function isOfSpec({ observedGeneration }: { observedGeneration?: number | undefined }, generation: number): boolean {
  return observedGeneration === undefined || observedGeneration >= generation;
}

function resultOf(commit: string, { deployment, applied }: FluxMember): StatusLine {
  const { ready, generation } = deployment;
  if (isApplied(deployment) && applied === commit) return { state: "success", description: "applied" };
  if (ready?.status !== "False" || !isOfSpec(ready, generation)) return unlessSuspended(deployment, beingApplied);
  if (waiting.has(ready.reason)) return unlessSuspended(deployment, waitsFor(ready.message));
  if (ready.reason === "HealthCheckCanceled") return unlessSuspended(deployment, beingApplied);
  return { state: "failure", description: inOneLine(ready.message) || ready.reason };
}

/** Flux itself counts none of these as a failure. */
const waiting: ReadonlySet<string> = new Set(["DependencyNotReady", "SourceNotReady"]);

function unlessSuspended({ suspended: is }: FluxDeployment, line: StatusLine): StatusLine {
  return is ? suspended : line;
}

/** "dependency 'flux-system/infrastructure' is not ready" */
function waitsFor(message: string): StatusLine {
  const [, name] = /\bdependency '([^']+)'/.exec(message) ?? [];
  return { state: "pending", description: name ? `waits for ${name}` : `waits: ${inOneLine(message)}` };
}

function waitingOf(commit: string, { deployment, source, owner }: FluxMember): StatusLine {
  if (deployment.suspended) return suspended;
  if (source.suspended && source.commit !== commit) {
    return { ...suspended, description: `suspended: Flux does not fetch GitRepository ${keyText(source.key)}` };
  }
  const isNext = owner === undefined || owner.applied === commit;
  return isNext ? queued : { state: "pending", description: `waits for ${owner.name}` };
}

/**
 * Flux checks and retries what has not changed. While it does, the last result stays: hosts limit how often a status may
 * be written.
 */
function keepResult(
  commit: string,
  { deployment, applied }: FluxMember,
  known: CommitStatus | undefined,
): StatusLine | undefined {
  const { ready, generation, observedGeneration } = deployment;
  const isCheck = ready?.status === "Unknown";
  const isWaiting = ready?.status === "False" && waiting.has(ready.reason);
  const wasApplied = applied === commit && observedGeneration === generation;
  if (known?.state === "success" && !known.neutral && wasApplied && (isCheck || isWaiting)) return lineIn(known);
  return known?.state === "failure" && isCheck ? lineIn(known) : undefined;
}
