/** Requests the preview of a pull request once its commit has been allowed. */
import type { Logger } from "../log.ts";
import {
  annotation,
  type DeploymentChange,
  followsGit,
  type GitDeployment,
  keyText,
  parsePullRequestText,
  type PreviewRequest,
} from "../model.ts";
import type { Clock, Queue, Reports } from "../ports.ts";
import { type Allowance, allowancesOf } from "./allowances.ts";

export interface WakeAllowedDeps {
  readonly deployments: { onChange(callback: (change: DeploymentChange) => void): void };
  readonly forges: ReadonlyMap<string, unknown>;
  readonly reports: Pick<Reports, "find">;
  readonly queue: Pick<Queue, "enqueue">;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Returns a function that stops it. A request that Redis does not accept is made again when the annotation changes, or
 * a server starts.
 */
export function startAllowedWaking({ deployments, forges, reports, queue, clock, log }: WakeAllowedDeps): () => void {
  let isStopped = false;
  deployments.onChange(({ kind, deployment, previous }) => {
    if (isStopped || kind === "removed" || !followsGit(deployment)) return;
    const said = deployment.annotations[annotation.allowPreview];
    if (said === undefined || said === previous?.annotations[annotation.allowPreview]) return;
    wake(deployment, kind === "added").catch((error: unknown) => {
      log.warn({ ...deployment.key, error: (error as Error).message }, "could not queue an allowed preview");
    });
  });
  return () => (isStopped = true);

  /** `isFirstSeen`: it may have been allowed, and previewed, before this server started. */
  async function wake(deployment: GitDeployment, isFirstSeen: boolean): Promise<void> {
    const allowances = allowancesOf(deployment, clock.now());
    const requests = await Promise.all(allowances.map((allowance) => toRequest(allowance, deployment, isFirstSeen)));
    const asked = requests.filter((request) => request !== undefined);
    if (asked.length > 0) await queue.enqueue(asked);
  }

  async function toRequest(
    { pullRequest, head }: Allowance,
    { key: own }: GitDeployment,
    isFirstSeen: boolean,
  ): Promise<PreviewRequest | undefined> {
    const key = parsePullRequestText(pullRequest);
    if (key === undefined || !forges.has(key.forge)) return undefined;
    const report = isFirstSeen ? await reports.find(key) : undefined;
    const isInPart = report?.previews.some((one) => one.isolated && keyText(one.deployment) === keyText(own));
    const isDone = report?.head === head && report.obstacle?.kind !== "fork" && !isInPart;
    return isDone ? undefined : { kind: "preview", pullRequest: key, cause: "pull-request" };
  }
}
