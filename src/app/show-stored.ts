/** Prepares a stored result for the page. */
import { toCommandResult } from "../kluctl/result.ts";
import type { StoredTexts } from "../kube/stored-results.ts";
import { maskStored } from "../redact/mask-result.ts";
import { showResult, type ShownResult } from "../views/show-result.ts";
import { inThread, largeText } from "../kit/in-thread.ts";

/** Does not block the event loop. */
export function showStored(texts: StoredTexts, known: readonly string[]): ShownResult | Promise<ShownResult> {
  return texts.reducedResult.length + texts.compactedObjects.length > largeText
    ? inThread(import.meta.url, showNow, [texts, known])
    : showNow(texts, known);
}

/**
 * Takes about a second for a few megabytes.
 *
 * @inThread
 */
export function showNow({ reducedResult, compactedObjects }: StoredTexts, known: readonly string[]): ShownResult {
  const document = { ...(parse(reducedResult) as object), compactedObjects: parse(compactedObjects) };
  return showResult(maskStored(toCommandResult(document), known));
}

function parse(json: Uint8Array): unknown {
  return JSON.parse(Buffer.from(json).toString("utf8"));
}
