/** Pure. */

export interface Places {
  readonly jobDir: string;
  readonly projectDir: string;
  /** Directories that are taken instead of what the project includes. */
  readonly overrides?: readonly string[] | undefined;
}

/**
 * Takes the paths out of kluctl's words that are others in each run: the same error has to be the same text each time, or
 * every loop would look like news. What is left is relative to the project.
 */
export function toStableWords(text: string, { jobDir, projectDir, overrides = [] }: Places): string {
  return overrides
    .reduce((words, path) => words.replaceAll(path, "a working copy"), text)
    .replaceAll(`${projectDir}/`, "")
    .replaceAll(projectDir, "the project")
    .replaceAll(`${jobDir}/`, "")
    .replace(/base\/\d+\/project-\d+\/rendered\d+\/(\d+\/)?/g, "")
    .replace(/base\/\d+\/git-cloned\/([^/\s:]+)-\d+/g, "$1");
}
