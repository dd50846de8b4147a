/** What went wrong, in the one line that there is room for. Pure. */
import type { DeploymentStatus } from "../model.ts";
import { showStatusProblems } from "./show-result.ts";

/** That there are errors says too little, where they are known. */
export function withFirstError(
  message: string,
  { lastDeployResult, lastValidateResult }: Pick<DeploymentStatus, "lastDeployResult" | "lastValidateResult">,
): string {
  if (!/\bfailed with \d+ errors\b/.test(message)) return message;
  const [first] = [lastDeployResult, lastValidateResult].flatMap((one) => showStatusProblems(one?.document, "errors"));
  if (first === undefined) return message;
  const { object, message: words } = first;
  const isNamed = object === undefined || words.includes(object.slice(object.search(/[^ /]*$/)));
  return `${message} The first: ${isNamed ? "" : `${object}: `}${inOneLine(words)}`;
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
