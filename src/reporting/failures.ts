/** What a forge's failure means for the job that met it. Pure. */
import { ForgeError } from "../errors.ts";
import type { Outcome } from "../model.ts";

/** For a forge that does not say how long it needs. */
const restMs = 15_000;

/** Throws what is not a forge's. A forge that needs time gets it; what a person has to mend is not tried again. */
export function toForgeOutcome(error: unknown): Outcome {
  if (!(error instanceof ForgeError)) throw error;
  const { problem, message, retryAfterMs } = error;
  if (problem === "unreachable" || problem === "rate-limited") {
    return { kind: "later", afterMs: retryAfterMs ?? restMs, why: message };
  }
  return { kind: "failed", retry: "person", message };
}

/** Of several parts of one job: who waits for a forge comes back and does the rest as well. */
export function worstOf(outcomes: readonly Outcome[]): Outcome {
  const waiting = outcomes.filter((outcome) => outcome.kind === "later");
  if (waiting.length > 0) return waiting.reduce((one, other) => (one.afterMs >= other.afterMs ? one : other));
  return outcomes.find(({ kind }) => kind === "failed") ?? outcomes[0] ?? { kind: "done" };
}
