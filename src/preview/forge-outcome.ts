/** What a forge's failure means for the job that met it. Pure. */
import { ForgeError } from "../errors.ts";
import type { Outcome } from "../model.ts";

/** For a forge that does not say how long it needs. */
const restMs = { unreachable: 15_000, "rate-limited": 60_000 } as const;

/** Throws what is not a forge's. A forge that needs time gets it; what a person has to mend is not tried again. */
export function toForgeOutcome(error: unknown): Outcome {
  if (!(error instanceof ForgeError)) throw error;
  const { problem, message, retryAfterMs } = error;
  if (problem === "unreachable" || problem === "rate-limited") {
    return { kind: "later", afterMs: retryAfterMs ?? restMs[problem], why: message };
  }
  return { kind: "failed", retry: "person", message };
}
