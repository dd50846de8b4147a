/** Makes kluctl's messages independent of the run's directories. Pure. */

export interface Places {
  readonly jobDir: string;
  readonly projectDir: string;
  /** Directories that override what the project includes, and what they are called. */
  readonly overrides?: readonly { readonly path: string; readonly name: string }[] | undefined;
}

/**
 * Removes the paths that differ in each run from kluctl's messages: the same error must have the same text every time,
 * or every reconciliation would report it as new. The remaining paths are relative to the project.
 */
export function toStableWords(text: string, { jobDir, projectDir, overrides = [] }: Places): string {
  return overrides
    .reduce((words, { path, name }) => words.replaceAll(path, name), text)
    .replaceAll(`${projectDir}/`, "")
    .replaceAll(projectDir, "the project")
    .replaceAll(`${jobDir}/`, "")
    .replace(/base\/\d+\/project-\d+\/rendered\d+\/(\d+\/)?/g, "")
    .replace(/base\/\d+\/git-cloned\/([^/\s:]+)-\d+/g, "$1");
}
