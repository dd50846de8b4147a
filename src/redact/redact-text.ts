/** Any text that is about to be shown or sent, such as an error of git's or kluctl's. */
import { inThread, largeText } from "../thread/in-thread.ts";
import { createRedactor } from "./redactor.ts";
import { maskLines } from "./shapes.ts";
import { weightOfSecrets } from "./weight.ts";

/** Keeps its lines. Hides all of them if the secrets cannot be searched for. */
export async function redactText(text: string, known: readonly string[]): Promise<string> {
  if (text.length + weightOfSecrets(known) <= largeText) return redactNow(text, known);
  // No signal: even the message of what was broken off has to be redacted.
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
