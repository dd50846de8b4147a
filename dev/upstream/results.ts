/** Parses the output of a verbose run of Go tests. Pure. */

export interface TestResult {
  readonly name: string;
  readonly outcome: "passed" | "failed" | "skipped";
  readonly seconds: number;
}

const outcomes = { PASS: "passed", FAIL: "failed", SKIP: "skipped" } as const;

/** Returns the result that a line reports, if any. */
export function parseResult(line: string): TestResult | undefined {
  const [, word, name, seconds] = /^\s*--- (PASS|FAIL|SKIP): (\S+) \(([\d.]+)s\)/.exec(line) ?? [];
  if (word === undefined || name === undefined) return undefined;
  return { name, outcome: outcomes[word as keyof typeof outcomes], seconds: Number(seconds) };
}

/** Returns the name of the test that a line reports as started, if any. */
export function parseStart(line: string): string | undefined {
  return /^=== RUN\s+(\S+)/.exec(line)?.[1];
}

export interface Summary {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  /** Tests that failed, and tests that started but never ended. */
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
