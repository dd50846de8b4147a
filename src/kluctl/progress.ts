/**
 * kluctl's stderr: progress lines, warnings, and in the end its error, with nothing in between that marks it.
 * What follows the last line of progress is the error. Pure.
 */
import { toPlainText } from "./output.ts";

const steps = new Set([
  "Checking for new kluctl version",
  "Loading kluctl project",
  "Initializing k8s client",
  "Rendering templates",
  "Rendering Helm Charts",
  "Building kustomize objects",
  "Postprocessing objects",
  "Writing rendered objects",
  "Getting namespaces",
  "Running server-side apply for all objects",
  "Validation succeeded",
]);

const remoteObjects =
  /^Getting (\d+ additional remote objects|remote objects by discriminator)(: Failed with \d+ errors)?$/;
const fetches = /^(Updating git cache for|Pulling Helm Chart|Overriding (git|oci) repo) /;
/** Each may follow the name of the deployment item it is about. */
const itemSteps =
  /^(.+: )?(Initializing|Waiting on barrier.*|Finished waiting.*|(Still w|W)aiting for .+ to get ready\.\.\..*|\.\.\.applied \d+ of \d+ objects|(Applying|Deleting) (\d+ (objects|hooks)|hook ).*)$/;

/** Kubernetes' longest names fit; a line of megabytes would keep the patterns busy for minutes. */
const longestProgress = 1_000;

/** What it says of each of our working copies, which have a commit's files and no repository: nobody can do anything about it. */
export function isOfWorkingCopy(line: string): boolean {
  return line === "Failed to detect git project root. This might cause follow-up errors";
}

/** Whether kluctl only says how far it is. */
export function isProgress(line: string): boolean {
  if (line.length > longestProgress) return false;
  if (isOfWorkingCopy(line)) return true;
  return steps.has(line) || remoteObjects.test(line) || fetches.test(line) || itemSteps.test(line);
}

const longest = 10_000;

/** kluctl's own words about what went wrong: conditions and events show them, so they are bounded. */
export function lastWords(stderr: string): string {
  const lines = toPlainText(stderr).split("\n");
  const words = lines
    .slice(lines.findLastIndex((line) => isProgress(line.trim())) + 1)
    .join("\n")
    .trim();
  return words.length > longest ? `${words.slice(0, longest)}\n… (cut)` : words;
}
