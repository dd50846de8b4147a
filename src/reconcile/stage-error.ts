/** How a stage of a reconciliation fails. */
import { RemoteBusyError } from "../errors.ts";

/** What a reconciliation does, one after the other. Reading and rendering the project belong to `prepare`. */
export type Stage = "prepare" | "diff" | "deploy" | "prune" | "validate";

/** The only error that a stage throws, besides RemoteBusyError; the cause is the failure itself. */
export class StageError extends Error {
  override name = "StageError";
  readonly stage: Stage;
  /** Must not appear in any message about this failure. */
  readonly secrets: readonly string[];

  constructor(stage: Stage, secrets: readonly string[], cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.stage = stage;
    this.secrets = secrets;
  }
}

/** Runs a stage. An error of a stage within it stays as it is. */
export async function inStage<T>(stage: Stage, secrets: readonly string[], run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    // Nothing failed: the job is queued again.
    if (error instanceof StageError || error instanceof RemoteBusyError) throw error;
    throw new StageError(stage, secrets, error);
  }
}

/** Errors that are not of a stage are bugs; they count as failures of the preparation, after which nothing is unknown. */
export function toStageError(error: unknown): StageError {
  return error instanceof StageError ? error : new StageError("prepare", [], error);
}
