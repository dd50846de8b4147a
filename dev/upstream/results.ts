/** What a verbose run of Go's tests says about each of them. Pure. */

export interface TestResult {
  readonly name: string;
  readonly outcome: "passed" | "failed" | "skipped";
  readonly seconds: number;
}

const outcomes = { PASS: "passed", FAIL: "failed", SKIP: "skipped" } as const;

/** The result that a line tells, if it tells one. */
export function parseResult(line: string): TestResult | undefined {
  const [, word, name, seconds] = /^\s*--- (PASS|FAIL|SKIP): (\S+) \(([\d.]+)s\)/.exec(line) ?? [];
  if (word === undefined || name === undefined) return undefined;
  return { name, outcome: outcomes[word as keyof typeof outcomes], seconds: Number(seconds) };
}

/** The name of a test that begins, if the line says so. */
export function parseStart(line: string): string | undefined {
  return /^=== RUN\s+(\S+)/.exec(line)?.[1];
}

export interface Summary {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  /** Of those that failed, and those that began and never came to an end. */
  readonly failures: readonly string[];
}

export function summarize(started: Iterable<string>, results: readonly TestResult[]): Summary {
  const count = (outcome: TestResult["outcome"]) => results.filter((result) => result.outcome === outcome).length;
  const ended = new Set(results.map(({ name }) => name));
  const unfinished = [...started].filter((name) => !ended.has(name));
  const failures = results.filter(({ outcome }) => outcome === "failed").map(({ name }) => name);
  return {
    passed: count("passed"),
    failed: count("failed") + unfinished.length,
    skipped: count("skipped"),
    failures: [...failures, ...unfinished.map((name) => `${name} (did not end)`)],
  };
}
