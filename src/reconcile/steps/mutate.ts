/** Runs a command that changes the cluster. */
import { PrepareError, SpecChangedError } from "../../errors.ts";
import type { CommandResult } from "../../model.ts";
import { audited, type Doing } from "../auditing.ts";
import { inProgress, verdictIn } from "../status/conditions.ts";
import type { StepContext } from "./context.ts";

/**
 * Before anything starts, the status is set to say that the applied state is unknown, so that the next reconciliation
 * deploys whatever it renders if this one is interrupted. Callers that know the outcome set the hash again. The answer
 * to that write is the last look at the spec: if it has changed since it was read, to `suspend: true` for example,
 * nothing starts, and SpecChangedError is thrown. What a user requests is carried out as it was requested.
 */
export async function mutate(
  { work, options, checkout, targetKeyOf }: StepContext,
  message: string,
  doing: Omit<Doing, "commit" | "dryRun">,
  act: () => Promise<CommandResult>,
): Promise<CommandResult> {
  const { status, deployment } = work;
  const { dryRun } = options;
  const { lastDeployResult, lastObjectsHash, targetKey, observedCommit, lastPrepareError } = deployment.status;
  const known = lastDeployResult ? { lastObjectsHash: status.current.lastObjectsHash } : { lastObjectsHash, targetKey }; // without the claim of its first deploy
  if (dryRun) status.progress(message, inProgress);
  else {
    status.set({ lastObjectsHash: undefined });
    const generation = await status.save(message, inProgress);
    if (work.asked === undefined && generation !== undefined && generation !== deployment.generation) {
      status.set({ ...known, observedCommit, lastPrepareError });
      await status.save("Initializing", verdictIn(deployment.status));
      throw new SpecChangedError("the spec changed before anything was applied");
    }
  }
  try {
    return await audited(work, { ...doing, commit: checkout.commit, dryRun }, targetKeyOf, act);
  } catch (error) {
    if (error instanceof PrepareError) status.set(known); // nothing was applied
    throw error;
  }
}
