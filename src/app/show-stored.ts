/** Prepares a stored result for the page. */
import { toCommandResult } from "../kluctl/result.ts";
import type { StoredTexts } from "../kube/stored-results.ts";
import { maskStored } from "../redact/mask-result.ts";
import { namesInputs } from "../views/rendered-from.ts";
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
  const { result, texts: renderedFrom } = maskStored(toCommandResult(document), known, namesInputs(document));
  const shown = showResult(result);
  return renderedFrom.length === 0 ? shown : { ...shown, renderedFrom };
}

function parse(json: Uint8Array): unknown {
  return JSON.parse(Buffer.from(json).toString("utf8"));
}
