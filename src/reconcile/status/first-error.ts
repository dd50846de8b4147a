/** Summarizes errors in one line. Pure. */
import type { DeploymentStatus } from "../../model.ts";
import { showStatusProblems } from "../../views/show-result.ts";

type Results = Pick<DeploymentStatus, "lastDeployResult" | "lastValidateResult">;

/** Appends the first known error to a message that only counts errors. */
export function withFirstError(message: string, results: Results): string {
  const first = errorCount.test(message) && !message.includes(firstWords) ? firstError(results) : undefined;
  return first === undefined ? message : `${message}${firstWords}${first}`;
}

/** A shorter form with the error only: `deploy failed: ConfigMap shop/settings: …`. */
export function withFirstErrorOnly(message: string, results: Results): string {
  const [, failed] = errorCount.exec(message) ?? [];
  const first = failed && firstError(results);
  return first ? `${failed}: ${first}` : inOneLine(message);
}

const errorCount = /\b(\w+ failed) with \d+ errors\b/;
const firstWords = " First error: ";

/** The first error with its object; errors of the deploy come before those of the validation. */
function firstError({ lastDeployResult, lastValidateResult }: Results): string | undefined {
  const [first] = [lastDeployResult, lastValidateResult].flatMap((one) => showStatusProblems(one?.document, "errors"));
  if (first === undefined) return undefined;
  const { object, message } = first;
  const isNamed = object === undefined || message.includes(object.slice(object.search(/[^ /]*$/)));
  return `${isNamed ? "" : `${object}: `}${inOneLine(message)}`;
}

/** The first of several errors in a kluctl list; for a template error, its position and its reason. */
export function inOneLine(text: string): string {
  const whole = text.trim();
  const [, count] = /^(\d+) errors? occurred:\n/.exec(whole) ?? [];
  const first = (count === undefined ? undefined : whole.split(/^\s*\* /m)[1]?.trim()) ?? whole;
  const more = first !== whole && count !== "1" ? ` (and ${Number(count) - 1} more)` : "";
  return (templateError(first) ?? first.split("\n", 1)[0] ?? "") + more;
}

/** The last lines of Jinja's traceback are the relevant ones: the innermost file and the exception. */
function templateError(text: string): string | undefined {
  const [, file, line] = [...text.matchAll(/\bFile "([^"\n]+)", line (\d+)/g)].at(-1) ?? [];
  const reason = [...text.matchAll(/^(?:\w+\.)*\w*(?:Error|Exception|NotFound): .+$/gm)].at(-1)?.[0];
  return file === undefined || reason === undefined ? undefined : `${file}:${line}: ${reason}`;
}
