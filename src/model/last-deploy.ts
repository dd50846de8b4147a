/** What the summary of a deployment's last deploy says about it. */
import type { CommandSummary } from "./result.ts";

/** `undefined`: there was none, or the result does not say. */
export function deployedCommitOf(last: CommandSummary | undefined): string | undefined {
  const { commit } = (last?.document["gitInfo"] ?? {}) as { commit?: unknown };
  return typeof commit === "string" && commit !== "" ? commit : undefined;
}

/** Whether nothing was applied. */
export function wasDryRun(last: CommandSummary | undefined): boolean {
  const { dryRun } = (last?.document["commandInfo"] ?? {}) as { dryRun?: unknown };
  return dryRun === true;
}
