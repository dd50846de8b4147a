/** The doctor's checks are data: what runs them, in which order and at the same time as what, is decided here. */
import { type Finding, problem, type Section } from "./finding.ts";

export interface Check {
  /** What findings are grouped under. */
  readonly group: string;
  /** What it is called where it could not be made. */
  readonly subject: string;
  /** What is said while it runs, of those that take long. `tell` says how far it is. */
  readonly progress?: string | undefined;
  readonly run: (tell: (done: string) => void) => Promise<readonly Finding[]>;
}

export interface ExamineOptions {
  /** If it finds a problem, the others have nothing to look at. */
  readonly first: Check;
  readonly checks: readonly Check[];
  /** What is being done at the moment, for people who wait. */
  readonly onProgress?: ((text: string) => void) | undefined;
}

/** Makes all checks, and returns what they found in the order in which they are listed. */
export async function examine({ first, checks, onProgress }: ExamineOptions): Promise<readonly Section[]> {
  const make = async (check: Check): Promise<readonly Finding[]> => {
    const { subject, progress, run } = check;
    const tell = (done: string) => {
      if (progress !== undefined) onProgress?.(`${progress}: ${done}`);
    };
    if (progress !== undefined) onProgress?.(progress);
    try {
      return await run(tell);
    } catch (error) {
      return [problem(subject, `could not be checked: ${error instanceof Error ? error.message : String(error)}`)];
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
