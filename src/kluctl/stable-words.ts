/** Pure. */

/**
 * Takes the paths out of kluctl's words that are others in each run: the same error has to be the same text each time, or
 * every loop would look like news. What is left is relative to the project.
 */
export function toStableWords(text: string, { jobDir, projectDir }: { jobDir: string; projectDir: string }): string {
  return text
    .replaceAll(`${projectDir}/`, "")
    .replaceAll(projectDir, "the project")
    .replaceAll(`${jobDir}/`, "")
    .replace(/base\/\d+\/project-\d+\/rendered\d+\/(\d+\/)?/g, "")
    .replace(/base\/\d+\/git-cloned\/([^/\s:]+)-\d+/g, "$1");
}
