import type { Logger } from "../log.ts";
import type { Run } from "../ports.ts";
import type { Call } from "./arguments.ts";
import { isOfWorkingCopy, isProgress } from "./progress.ts";

/**
 * Logs what kluctl says while it works, in words without what is secret. `kluctl gitops` follows a request by the fields `name`, `namespace` and
 * `reconcileID` of log lines. Progress of what changes nothing is for debugging only: it is the same in each loop.
 */
export function createLineLogger(
  log: Logger,
  command: Call["command"],
  { deployment, reconcileId, localOverrides = [] }: Pick<Run, "deployment" | "reconcileId" | "localOverrides">,
): (line: string, words: string) => void {
  const lines = log.child({ ...deployment, reconcileID: reconcileId, command });
  const progress = command === "diff" || command === "validate" ? "debug" : "info";
  // How we learn what a project includes; the client that offers it is asked next.
  const isQuestion = (line: string) => localOverrides.length > 0 && line.includes("can not override repo ");
  const isNoise = (line: string) => isOfWorkingCopy(line) || isQuestion(line);
  const levelOf = (line: string) => (isNoise(line) ? "debug" : isProgress(line) ? progress : "info");
  return (line, words) => lines[levelOf(line)](words);
}
