/** Redacts any text that is about to be shown or sent, such as an error of git or kluctl. */
import { inThread, largeText } from "../kit/in-thread.ts";
import { createRedactor } from "./redactor.ts";
import { maskLines } from "./shapes.ts";
import { weightOfSecrets } from "./weight.ts";

/** Keeps the number of lines. Masks all of them if the text cannot be searched for the secrets. */
export async function redactText(text: string, known: readonly string[]): Promise<string> {
  if (text.length + weightOfSecrets(known) <= largeText) return redactNow(text, known);
  // Without a signal: the error message of a cancelled run must be redacted too.
  return inThread(import.meta.url, redactNow, [text, known]).catch(() => maskLines(text));
}

/**
 * Takes a second for some megabytes.
 *
 * @inThread
 */
export function redactNow(text: string, known: readonly string[]): string {
  return createRedactor(known).text(text);
}
