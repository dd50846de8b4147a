/** Converts a forge's failure to the outcome of the job. Pure. */
import { ForgeError } from "../errors.ts";
import type { Outcome } from "../model.ts";

/** For a forge that does not say how long to wait. */
const restMs = { unreachable: 15_000, "rate-limited": 60_000 } as const;

/** Rethrows errors that are not a forge's. A temporary failure postpones the job; a permanent one is not retried. */
export function toForgeOutcome(error: unknown): Outcome {
  if (!(error instanceof ForgeError)) throw error;
  const { problem, message, retryAfterMs } = error;
  if (problem === "unreachable" || problem === "rate-limited") {
    return { kind: "later", afterMs: retryAfterMs ?? restMs[problem], why: message };
  }
  return { kind: "failed", retry: "person", message };
}
