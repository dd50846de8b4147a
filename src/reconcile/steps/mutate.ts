/** Runs a command that changes the cluster. */
import { PrepareError } from "../../errors.ts";
import type { CommandResult } from "../../model.ts";
import { audited, type Doing } from "../auditing.ts";
import { inProgress } from "../status/conditions.ts";
import type { StepContext } from "./context.ts";

/**
 * Before anything starts, the status is set to say that the applied state is unknown, so that the next reconciliation
 * deploys whatever it renders if this one is interrupted. Callers that know the outcome set the hash again.
 */
export async function mutate(
  { work, options, checkout, targetKeyOf }: StepContext,
  message: string,
  doing: Omit<Doing, "commit" | "dryRun">,
  act: () => Promise<CommandResult>,
): Promise<CommandResult> {
  const { status } = work;
  const { dryRun } = options;
  const known = status.current.lastObjectsHash;
  if (dryRun) status.progress(message, inProgress);
  else {
    status.set({ lastObjectsHash: undefined });
    await status.save(message, inProgress);
  }
  try {
    return await audited(work, { ...doing, commit: checkout.commit, dryRun }, targetKeyOf, act);
  } catch (error) {
    if (error instanceof PrepareError) status.set({ lastObjectsHash: known }); // nothing was applied
    throw error;
  }
}
