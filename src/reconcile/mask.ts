/** Keeps secret values out of what people read: status, events, logs. */
import { diffLines } from "../line-diff.ts";
import type { Logger } from "../log.ts";
import type { Change, CommandResult, ResultError, ResultObject } from "../model.ts";
import { redactorOf, type Redactor } from "../redact/redactor.ts";
import { isSecret } from "../redact/secrets-of.ts";
import { mask } from "../redact/shapes.ts";
import { weightOf, weightOfSecrets, withoutPlainObjects } from "../redact/weight.ts";
import { inThread, largeText } from "../thread/in-thread.ts";

/** A result of which changes, errors and warnings may be read by everybody. The objects' own JSON may not. */
export type MaskedResult = CommandResult & { readonly __brand: "masked" };

/** What masking replaces; `changes` are those of each object. */
interface MaskedParts extends Pick<CommandResult, "errors" | "warnings"> {
  readonly changes: readonly (readonly Change[])[];
}

/** How much text of changes is searched for secrets; the rest is hidden as a whole. No status has room for so much. */
const maxSearchedLength = 2_000_000;

interface MaskOptions {
  /** What must not be read besides the values of the result's Secrets. */
  readonly known: readonly string[];
  readonly signal?: AbortSignal | undefined;
  readonly log?: Pick<Logger, "warn"> | undefined;
}

/** Takes a second for some megabytes. */
export function maskResult(result: CommandResult, known: readonly string[] = []): MaskedResult {
  return withParts(result, maskParts(result, known));
}

/** The same without stopping the event loop. Hides all that may be secret if it fails; rejects only when the signal aborts. */
export async function maskSafely(result: CommandResult, { known, signal, log }: MaskOptions): Promise<MaskedResult> {
  if (
    result.errors.length + result.warnings.length === 0 &&
    result.objects.every(({ changes }) => changes.length === 0)
  )
    return result as MaskedResult;
  const isLarge = weightOf(result) + weightOfSecrets(known) > largeText;
  try {
    const parts = isLarge
      ? await inThread(import.meta.url, maskParts, [withoutPlainObjects(result), known], signal)
      : maskParts(result, known);
    return withParts(result, parts);
  } catch (error) {
    signal?.throwIfAborted();
    log?.warn({ err: error }, "could not find the secrets in a result: its changes and errors are hidden");
    return withParts(result, conceal(result));
  }
}

/**
 * The same of a result that comes from the store, which may have kept too little of a large one to know its secrets: then
 * only what changed is told.
 */
export function maskStored(result: CommandResult, known: readonly string[] = []): MaskedResult {
  const shortened = result.warnings.some(({ message }) => message.startsWith("The result was too large to be stored"));
  return shortened ? withParts(result, conceal(result)) : maskResult(result, known);
}

/**
 * What `maskResult` replaces.
 *
 * @inThread
 */
export function maskParts(result: CommandResult, known: readonly string[]): MaskedParts {
  const redactor = redactorOf(result, known);
  const masked = maskWith(result, redactor);
  return redactor.doubt() === undefined ? masked : conceal(result);
}

function withParts(result: CommandResult, { changes, errors, warnings }: MaskedParts): MaskedResult {
  const objects = result.objects.map((object, i) => ({ ...object, changes: changes[i] ?? [] }));
  return { ...result, objects, errors, warnings } as CommandResult as MaskedResult;
}

function maskWith(result: CommandResult, redactor: Redactor): MaskedParts {
  const maskErrors = (errors: readonly ResultError[]) =>
    errors.map((error) => ({ ...error, message: redactor.text(error.message) }));
  return {
    changes: maskObjects(result.objects, redactor),
    errors: maskErrors(result.errors),
    warnings: maskErrors(result.warnings),
  };
}

/** For a result whose secrets are not known: only what changed, and where something is wrong. */
function conceal(result: CommandResult): MaskedParts {
  const silence = (errors: readonly ResultError[]) =>
    errors.map(({ ref }) => ({ ref, message: "(not shown, because it may hold a secret)" }));
  return {
    changes: result.objects.map((object) => object.changes.map(hideChange)),
    errors: silence(result.errors),
    warnings: silence(result.warnings),
  };
}

function maskObjects(objects: readonly ResultObject[], redactor: Redactor): Change[][] {
  let searched = 0;
  return objects.map((object) => {
    searched += JSON.stringify(object.changes).length;
    if (searched <= maxSearchedLength) return maskChanges(object, redactor);
    return object.changes.map((change) => ({ ...hideChange(change), jsonPath: redactor.text(change.jsonPath) }));
  });
}

function maskChanges(object: ResultObject, redactor: Redactor): Change[] {
  return object.changes.map((change) =>
    isSecret(object.ref) && holdsData(change) ? hideChange(change) : maskChange(change, redactor),
  );
}

/** `data…`, `stringData…`, and anything that is not clearly somewhere else (a whole object, an odd path). */
function holdsData({ jsonPath }: Change): boolean {
  return !/^(metadata\.(labels|name|namespace)|type|immutable)\b/.test(jsonPath);
}

function hideChange({ type, jsonPath, oldValue, newValue, unifiedDiff }: Change): Change {
  return {
    type,
    jsonPath,
    ...(oldValue !== undefined && { oldValue: mask }),
    ...(newValue !== undefined && { newValue: mask }),
    ...(unifiedDiff !== undefined && {
      unifiedDiff: [oldValue !== undefined && `-${mask}`, newValue !== undefined && `+${mask}`]
        .filter(Boolean)
        .join("\n"),
    }),
  };
}

/** Each text by itself: what other tools read strictly, such as the type, must not be taken for somebody's secret. */
function maskChange(change: Change, redactor: Redactor): Change {
  const [oldValue, newValue] = [maskValue(change.oldValue, redactor), maskValue(change.newValue, redactor)];
  const hidden = oldValue !== change.oldValue || newValue !== change.newValue;
  const unifiedDiff = hidden
    ? // kluctl's own has the lines of old and new by turns, and so may tear apart what is to be found.
      unifiedDiffOf(oldValue, newValue)
    : change.unifiedDiff && redactor.text(change.unifiedDiff);
  return {
    ...change,
    jsonPath: redactor.text(change.jsonPath),
    ...(oldValue !== undefined && { oldValue }),
    ...(newValue !== undefined && { newValue }),
    ...(change.unifiedDiff !== undefined && { unifiedDiff }),
  };
}

/** The same value if nothing of it is secret. */
function maskValue(value: unknown, redactor: Redactor): unknown {
  const masked = maskTexts(value, redactor);
  if (typeof masked === "string") return masked;
  const text = JSON.stringify(masked);
  // A secret that spans JSON's own syntax: show nothing of it.
  if (text !== undefined && redactor.text(text) !== text) return mask;
  return text === JSON.stringify(value) ? value : masked;
}

function maskTexts(value: unknown, redactor: Redactor): unknown {
  if (typeof value === "string") return redactor.text(redactor.leaf(value));
  if (Array.isArray(value)) return value.map((item) => maskTexts(item, redactor));
  if (typeof value === "object" && value !== null) {
    const entries = Object.entries(value).map(([key, item]) => [redactor.text(key), maskTexts(item, redactor)]);
    return Object.fromEntries(entries) as unknown;
  }
  const text = String(value);
  return redactor.text(redactor.leaf(text)) === text ? value : mask;
}

/** As `-` and `+` lines. */
export function unifiedDiffOf(oldValue: unknown, newValue: unknown): string {
  const [before, after] = [linesOf(oldValue), linesOf(newValue)];
  return diffLines(before, after)
    .map(({ sign, at }) => `${sign}${(sign === "-" ? before : after)[at]}`)
    .join("\n");
}

function linesOf(value: unknown): string[] {
  if (value === undefined) return [];
  return (typeof value === "string" ? value : JSON.stringify(value, undefined, 2)).split("\n");
}
