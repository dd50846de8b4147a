/** Says in words why `towline-flux` failed. Pure. */

/** Returns which Kustomization a line of its log says that it renders. */
export function findRendering(line: string): string | undefined {
  return /^rendering ([a-z0-9.-]{1,253}\/[a-z0-9.-]{1,253})$/.exec(line)?.[1];
}

/** The runtime of Go prints these before the state of all goroutines. */
const fatal: readonly (readonly [RegExp, (memoryBytes: number) => string])[] = [
  [/^(?:fatal error: )?runtime: (?:out of memory|cannot allocate memory)|^fatal error: (?:out of memory|runtime: cannot)/m, (bytes) => `needs more than ${bytes / 1024 ** 2} MiB of memory`], // prettier-ignore
  [/goroutine stack exceeds|^fatal error: stack overflow/m, () => "recurses too deeply"],
];

export function explainExit(
  { exitCode, stderr }: { readonly exitCode: number; readonly stderr: string },
  { memoryBytes }: { readonly memoryBytes: number },
): string {
  for (const [words, explain] of fatal) {
    if (words.test(stderr)) return `towline-flux ${explain(memoryBytes)}`;
  }
  // Its own last word, without its log.
  const last = stderr.split("\n").findLast((line) => line.trim() !== "" && findRendering(line) === undefined);
  return `towline-flux failed (exit status ${exitCode}): ${last?.trim().slice(0, 500) ?? "without a message"}`;
}
