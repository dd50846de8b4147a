/** Runs the doctor's checks concurrently and groups their findings. */
import { type Finding, problem, type Section } from "./finding.ts";

export interface Check {
  /** Title of the section for its findings. */
  readonly group: string;
  /** Subject of the finding if the check itself fails. */
  readonly subject: string;
  /** Progress message of a check that takes long; `report` adds how far it is. */
  readonly progress?: string | undefined;
  readonly run: (report: (done: string) => void) => Promise<readonly Finding[]>;
}

export interface ExamineOptions {
  /** If it finds a problem, the other checks are skipped. */
  readonly first: Check;
  readonly checks: readonly Check[];
  /** Receives the current step. */
  readonly onProgress?: ((text: string) => void) | undefined;
}

/** Runs all checks and returns their findings in the order of the checks. */
export async function examine({ first, checks, onProgress }: ExamineOptions): Promise<readonly Section[]> {
  const make = async (check: Check): Promise<readonly Finding[]> => {
    const { subject, progress, run } = check;
    const report = (done: string) => {
      if (progress !== undefined) onProgress?.(`${progress}: ${done}`);
    };
    if (progress !== undefined) onProgress?.(progress);
    try {
      return await run(report);
    } catch (error) {
      return [problem(subject, `cannot be checked: ${error instanceof Error ? error.message : String(error)}`)];
    }
  };
  const begun = await make(first);
  const reachable = begun.every(({ level }) => level !== "problem");
  const made = reachable
    ? await Promise.all(checks.map(async (check) => [check.group, await make(check)] as const))
    : [];
  const sections = Map.groupBy([[first.group, begun] as const, ...made], ([group]) => group);
  return [...sections]
    .map(([title, parts]) => ({ title, findings: parts.flatMap(([, findings]) => findings) }))
    .filter(({ findings }) => findings.length > 0);
}
