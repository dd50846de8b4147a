/** What keeps objects from being deployed or pruned, and how it is announced: by an event each time it is new. */
import { setTimeout as sleep } from "node:timers/promises";
import { ApiError } from "../../errors.ts";
import {
  findFirst,
  findRivals,
  findSharing,
  hasClaimed,
  isNewcomer,
  isOlder,
  notDeployed,
  refusal,
  sharingNote,
} from "../../guards/discriminators.ts";
import { findWaiting } from "../../guards/pruning.ts";
import { annotation, type CommandResult, type Deployment, keyText, type TargetKey } from "../../model.ts";
import { renderedHash } from "../decide.ts";
import { eventReason, inProgress, readyCondition } from "../status/conditions.ts";
import type { StepContext } from "./context.ts";

/** Why orphans are not pruned. The message is part of `Ready` while it lasts. */
export type Obstacle =
  | {
      readonly kind: "shared";
      readonly message: string;
      readonly discriminator: string;
      readonly others: readonly Deployment[];
    }
  | { readonly kind: "unconfirmed"; readonly message: string; readonly hash: string };

/** `isAsked`: the user requested this prune, so it needs no confirmation. */
export function findObstacle(
  { work, options, targetKeyOf }: StepContext,
  result: CommandResult,
  { isAsked = false }: { isAsked?: boolean } = {},
): Obstacle | undefined {
  const { deployment, deps } = work;
  const { spec, annotations } = deployment;
  if (options.dryRun) return undefined;
  const key = targetKeyOf(result);
  const { discriminator = "" } = key;
  const others = findSharing(deployment, key, deps.deployments.all());
  if (others.length > 0) return { kind: "shared", message: sharingNote(discriminator, others), discriminator, others };
  const { pruneGuard } = deps.settings;
  if (isAsked || pruneGuard === undefined || !spec.prune || spec.deployMode !== "full-deploy") return undefined;
  const waiting = findWaiting(result, pruneGuard, annotations[annotation.confirmPrune]);
  return waiting && { kind: "unconfirmed", ...waiting };
}

export function announceObstacle({ work }: StepContext, obstacle: Obstacle): void {
  const { deployment, deps, log } = work;
  const { deployments } = deps;
  const { message } = obstacle;
  if (readyCondition(deployment.status)?.message.includes(message)) return;
  if (obstacle.kind === "unconfirmed") {
    log.warn({ prune: obstacle.hash }, "prune blocked: it needs confirmation");
    deployments.event(deployment, "Warning", eventReason.pruneWaits, message);
    return;
  }
  const { discriminator, others } = obstacle;
  const names = others.map(({ key }) => keyText(key));
  log.warn({ discriminator, with: names }, "discriminator shared with another deployment");
  deployments.event(deployment, "Warning", eventReason.sharedDiscriminator, message);
  for (const other of others) {
    deployments.event(other, "Warning", eventReason.sharedDiscriminator, sharingNote(discriminator, [deployment]));
  }
}

/**
 * The deployments with the same discriminator that were there first: while there are any, this one is not deployed. The
 * first deploy of a project that others deploy for the first time as well is claimed before: of two that claim one
 * discriminator at the same moment, at least one sees the other's claim, and does not deploy.
 */
export async function findEarlier(context: StepContext, compared: CommandResult) {
  const { work, options, targetKeyOf } = context;
  const { deployment, deps, signal } = work;
  const key = targetKeyOf(compared);
  if (options.dryRun || !isNewcomer(deployment, key)) return undefined;
  await deps.deployments.whenSynced(signal);
  let others = findFirst(deployment, key, deps.deployments.all());
  if (others.length === 0 && claims(deployment, key) && findRivals(deployment, deps.deployments.all()).length > 0) {
    await claim(context, key);
    others = findFirst(deployment, key, deps.deployments.all());
  }
  const { discriminator = "" } = key;
  // The younger of two that claimed at the same moment has withdrawn by the next attempt of the older.
  const retry: "soon" | "person" = isOlder(deployment, others) ? "soon" : "person";
  return others.length === 0 ? undefined : { discriminator, others, message: refusal(discriminator, others), retry };
}

/** The status of a deployment of the legacy API has no place for a claim. */
function claims({ status, recordsChecks }: Deployment, { clusterId, discriminator }: TargetKey): boolean {
  return status.lastDeployResult === undefined && recordsChecks !== false && clusterId !== "" && !!discriminator;
}

const claimVisibleMs = 10_000;
const claimEveryMs = 20;

/**
 * Resolves once the watch shows the claim: then it shows all claims that were written before. It is withdrawn by recording
 * the state without a deploy, see `recordState`. If it throws, nothing was claimed: the end of the reconciliation
 * withdraws what may have been written.
 */
async function claim({ work }: StepContext, targetKey: TargetKey): Promise<void> {
  const { deployment, deps, status, signal } = work;
  const { targetKey: before, lastObjectsHash } = deployment.status;
  status.set({ targetKey, lastObjectsHash: undefined });
  try {
    await status.save("Checking the discriminator", inProgress);
    const until = performance.now() + claimVisibleMs;
    while (!hasClaimed(deployment, targetKey, deps.deployments.all())) {
      if (performance.now() > until) {
        throw new ApiError(0, `${notDeployed}the watch does not show which deployments use the discriminator`);
      }
      await sleep(claimEveryMs, undefined, { signal });
    }
  } catch (error) {
    status.set({ targetKey: before, lastObjectsHash });
    throw error;
  }
}

export type Earlier = NonNullable<Awaited<ReturnType<typeof findEarlier>>>;

export function announceEarlier({ work }: StepContext, { discriminator, others, message }: Earlier): void {
  const { deployment, deps, log } = work;
  if (readyCondition(deployment.status)?.message === message) return;
  log.warn({ discriminator, with: others.map((other) => keyText(other.key)) }, "not deployed");
  deps.deployments.event(deployment, "Warning", eventReason.sharedDiscriminator, message);
  for (const other of others) {
    const words = `${keyText(deployment.key)} has the same discriminator ${JSON.stringify(discriminator)} and is not deployed.`;
    deps.deployments.event(other, "Warning", eventReason.sharedDiscriminator, words);
  }
}

/** Emits one event per change that needs approval. */
export function announceApproval({ work }: StepContext, { objectsHash }: CommandResult): void {
  const { deployment, deps, log } = work;
  log.info({ objectsHash }, "waiting for approval");
  if (renderedHash(deployment.status) === objectsHash) return;
  const message = `The changes need approval: set spec.manualObjectsHash to ${objectsHash}.`;
  deps.deployments.event(deployment, "Normal", eventReason.waitingForApproval, message);
}
