/** What went wrong, in the one line that there is room for. Pure. */
import type { DeploymentStatus } from "../model.ts";
import { showStatusProblems } from "./show-result.ts";

type Results = Pick<DeploymentStatus, "lastDeployResult" | "lastValidateResult">;

/** That there are errors says too little, where they are known. */
export function withFirstError(message: string, results: Results): string {
  const first = errorCount.test(message) && !message.includes(firstWords) ? firstError(results) : undefined;
  return first === undefined ? message : `${message}${firstWords}${first}`;
}

/** The same with the error alone, where there is little room: `deploy failed: ConfigMap shop/settings: …`. */
export function withFirstErrorOnly(message: string, results: Results): string {
  const [, failed] = errorCount.exec(message) ?? [];
  const first = failed && firstError(results);
  return first ? `${failed}: ${first}` : inOneLine(message);
}

const errorCount = /\b(\w+ failed) with \d+ errors\b/;
const firstWords = " First error: ";

/** With its object, of the deploy before the validation. */
function firstError({ lastDeployResult, lastValidateResult }: Results): string | undefined {
  const [first] = [lastDeployResult, lastValidateResult].flatMap((one) => showStatusProblems(one?.document, "errors"));
  if (first === undefined) return undefined;
  const { object, message } = first;
  const isNamed = object === undefined || message.includes(object.slice(object.search(/[^ /]*$/)));
  return `${isNamed ? "" : `${object}: `}${inOneLine(message)}`;
}

/** Where kluctl counts its errors, the first; of a template's, where it is and what is wrong there. */
export function inOneLine(text: string): string {
  const whole = text.trim();
  const [, count] = /^(\d+) errors? occurred:\n/.exec(whole) ?? [];
  const first = (count === undefined ? undefined : whole.split(/^\s*\* /m)[1]?.trim()) ?? whole;
  const more = first !== whole && count !== "1" ? ` (and ${Number(count) - 1} more)` : "";
  return (templateError(first) ?? first.split("\n", 1)[0] ?? "") + more;
}

/** Jinja's last lines say most, after the way that led there: the innermost file, and the exception. */
function templateError(text: string): string | undefined {
  const [, file, line] = [...text.matchAll(/\bFile "([^"\n]+)", line (\d+)/g)].at(-1) ?? [];
  const reason = [...text.matchAll(/^(?:\w+\.)*\w*(?:Error|Exception|NotFound): .+$/gm)].at(-1)?.[0];
  return file === undefined || reason === undefined ? undefined : `${file}:${line}: ${reason}`;
}
