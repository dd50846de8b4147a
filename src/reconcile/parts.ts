/**
 * The parts of a reconciliation that others may wrap (see kit/around.ts), to save work that is not needed. Each does the
 * whole work by itself, so that the server is correct without any wrapper.
 */
import type { Freshness, Cause, Deployment, MalformedDeployment, ManualCommand, Outcome } from "../model.ts";
import { runCommand } from "../requests/commands.ts";
import type { PendingRequest } from "../requests/requests.ts";
import { bringUpToDate, type LoopReport, runLoop, settleProject } from "./loop.ts";
import type { Project } from "./project.ts";
import { createSteps, type Steps, type StepsContext } from "./steps/steps.ts";
import type { Loop, LoopDeps, Work } from "./work.ts";

/** What may have been requested of a deployment. */
export interface RequestedCheck {
  readonly cause: Cause;
  readonly deployment: Deployment | MalformedDeployment;
  readonly freshness: Freshness | undefined;
  readonly signal: AbortSignal;
}

export interface Fulfilled {
  /** Why there is nothing to do; `undefined`: there may be something to do. */
  readonly why?: string | undefined;
  /** Where its source is, if that was queried. */
  readonly head?: Head | undefined;
}

/** The commit of a deployment's source, according to an answer requested at this time (epoch milliseconds). */
export interface Head {
  readonly commit: string;
  readonly at: number;
}

export interface Parts {
  /** Finds out without a lease and without kluctl whether a request is already fulfilled. */
  findFulfilled(check: RequestedCheck, find: (check: RequestedCheck) => Promise<Fulfilled>): Promise<Fulfilled>;
  /** One reconciliation, from the request to the written status. */
  runLoop(loop: Loop, deps: LoopDeps): Promise<Outcome | "again">;
  /** One command that a user requested. */
  runCommand(pending: PendingRequest<ManualCommand>, loop: Loop, deps: LoopDeps): Promise<void>;
  /** The part of a reconciliation that reads and changes the cluster. */
  bringUpToDate(work: Work): Promise<LoopReport>;
  /** The part of it for which the project's files exist. */
  settleProject(work: Work, project: Project): Promise<LoopReport>;
  createSteps(work: Work, context: StepsContext): Steps;
  /** Whether a new commit is compared with the cluster before it is deployed. */
  comparesFirst(work: Work, commit: string): Promise<boolean>;
}

export const parts: Parts = {
  findFulfilled: (check, find) => find(check),
  runLoop,
  runCommand,
  bringUpToDate,
  settleProject,
  createSteps,
  comparesFirst: () => Promise.resolve(true),
};
