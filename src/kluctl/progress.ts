/**
 * Splits kluctl's stderr: progress lines, warnings, and finally its error, without a marker in between. Everything
 * after the last progress line is taken as the error. Pure.
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
/** The name of a deployment item may precede each of them. */
const itemSteps =
  /^(.+: )?(Initializing|Waiting on barrier.*|Finished waiting.*|(Still w|W)aiting for .+ to get ready\.\.\..*|\.\.\.applied \d+ of \d+ objects|(Applying|Deleting) (\d+ (objects|hooks)|hook ).*)$/;

/** Long enough for Kubernetes' longest names; on a line of megabytes the patterns would run for minutes. */
const longestProgress = 1_000;

/**
 * Recognizes the warning that kluctl prints for each of our working copies, which hold a commit's files without a
 * repository. Users can do nothing about it.
 */
export function isOfWorkingCopy(line: string): boolean {
  return line === "Failed to detect git project root. This might cause follow-up errors";
}

/** Whether kluctl only reports progress. */
export function isProgress(line: string): boolean {
  if (line.length > longestProgress) return false;
  if (isOfWorkingCopy(line)) return true;
  return steps.has(line) || remoteObjects.test(line) || fetches.test(line) || itemSteps.test(line);
}

const longest = 10_000;

/** Returns kluctl's own error message. Its length is bounded, because conditions and events show it. */
export function lastWords(stderr: string): string {
  const lines = toPlainText(stderr).split("\n");
  const words = lines
    .slice(lines.findLastIndex((line) => isProgress(line.trim())) + 1)
    .join("\n")
    .trim();
  return words.length > longest ? `${words.slice(0, longest)}\n… (cut)` : words;
}
