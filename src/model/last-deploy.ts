/** What the summary of a deployment's last deploy says about it. */
import { isDeepStrictEqual } from "node:util";
import type { CommandSummary } from "./result.ts";

/** `undefined`: there was none, or the result does not say. */
export function deployedCommitOf(last: CommandSummary | undefined): string | undefined {
  const { commit } = (last?.document["gitInfo"] ?? {}) as { commit?: unknown };
  return typeof commit === "string" && commit !== "" ? commit : undefined;
}

/** Whether it was a requested prune, whose result takes the place of that of the deploy before it. */
export function wasPrune(last: CommandSummary | undefined): boolean {
  const { command } = (last?.document["commandInfo"] ?? {}) as { command?: unknown };
  return command === "prune";
}

/** Whether nothing was applied. */
export function wasDryRun(last: CommandSummary | undefined): boolean {
  const { dryRun } = (last?.document["commandInfo"] ?? {}) as { dryRun?: unknown };
  return dryRun === true;
}

/** Whether it changed objects in the cluster. A deploy that is only repeated, by an interval, usually changes none. */
export function changedObjects(last: CommandSummary): boolean {
  return !wasDryRun(last) && last.newObjects + last.changedObjects + last.deletedObjects > 0;
}

/**
 * Whether a preview from before the last deploy may show something else than one from after it: the deploy changed objects, or
 * it was of something else, so that drift and what is not deployed yet are told apart in another way.
 */
export function changedPreviews(now: CommandSummary | undefined, before: CommandSummary | undefined): boolean {
  if (now === undefined || now.id === before?.id) return false;
  return before === undefined || changedObjects(now) || !isDeepStrictEqual(contentOf(now), contentOf(before));
}

function contentOf(last: CommandSummary) {
  return [deployedCommitOf(last), last.document["renderedObjectsHash"], last.errors, wasDryRun(last)];
}
