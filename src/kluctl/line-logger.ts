import type { Logger } from "../log.ts";
import type { Run } from "../model.ts";
import type { Call } from "./arguments.ts";
import { isOfWorkingCopy, isProgress } from "./progress.ts";

/**
 * Logs kluctl's output line by line, with secrets masked. `kluctl gitops` follows a request by the log fields `name`,
 * `namespace` and `reconcileID`. Progress of read-only commands is logged at debug level, because it repeats in every
 * reconciliation.
 */
export function createLineLogger(
  log: Logger,
  command: Call["command"],
  { deployment, reconcileId, localOverrides = [] }: Pick<Run, "deployment" | "reconcileId" | "localOverrides">,
): (line: string, words: string) => void {
  const lines = log.child({ ...deployment, reconcileID: reconcileId, command });
  const progress = command === "diff" || command === "validate" ? "debug" : "info";
  // Tells the server what a project includes; the server then asks the client that offered an override for it.
  const isQuestion = (line: string) => localOverrides.length > 0 && line.includes("can not override repo ");
  const isNoise = (line: string) => isOfWorkingCopy(line) || isQuestion(line);
  const levelOf = (line: string) => (isNoise(line) ? "debug" : isProgress(line) ? progress : "info");
  return (line, words) => lines[levelOf(line)](words);
}
