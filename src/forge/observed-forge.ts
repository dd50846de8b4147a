/** Wraps a forge to report each request with its result and duration. */
import { ForgeError, type ForgeProblem } from "../errors.ts";
import { aroundEach } from "../kit/around.ts";
import type { Forge } from "../ports.ts";
import { forgeRequests, type ForgeOperation } from "./operations.ts";

export type ForgeResult = "ok" | "aborted" | "error" | ForgeProblem;

export function createObservedForge(
  forge: Forge,
  asked: (operation: ForgeOperation, result: ForgeResult, seconds: number) => void,
): Forge {
  return aroundEach(forge, forgeRequests, async (next, operation, args) => {
    const from = performance.now();
    let result: ForgeResult = "ok";
    try {
      return await next();
    } catch (error) {
      const isAborted = args.some((argument) => argument instanceof AbortSignal && argument.aborted);
      result = error instanceof ForgeError ? error.problem : isAborted ? "aborted" : "error";
      throw error;
    } finally {
      asked(operation, result, (performance.now() - from) / 1_000);
    }
  });
}
