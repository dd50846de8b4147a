/** Keeps secret values out of status, events and logs. */
import { diffLines } from "../kit/line-diff.ts";
import type { Logger } from "../log.ts";
import type { FieldChange, CommandResult, ResultError, ResultObject } from "../model.ts";
import { redactorOf, type Redactor } from "./redactor.ts";
import { isSecret } from "./secrets-of.ts";
import { mask } from "./shapes.ts";
import { weightOf, weightOfSecrets, withoutPlainObjects } from "./weight.ts";
import { inThread, largeText } from "../kit/in-thread.ts";

/** A result whose changes, errors and warnings are safe to show to anyone. The objects' own JSON is not. */
export type MaskedResult = CommandResult & { readonly __brand: "masked" };

/** The parts that masking replaces; `changes` has one entry per object. */
interface MaskedParts extends Pick<CommandResult, "errors" | "warnings"> {
  readonly changes: readonly (readonly FieldChange[])[];
}

/** How much text of changes is searched for secrets; the rest is hidden entirely. No status has room for this much. */
const maxSearchedLength = 2_000_000;

interface MaskOptions {
  /** Secrets besides the values of the result's Secret objects. */
  readonly known: readonly string[];
  readonly signal?: AbortSignal | undefined;
  readonly log?: Pick<Logger, "warn"> | undefined;
}

/** Takes about a second for a few megabytes. */
export function maskResult(result: CommandResult, known: readonly string[] = []): MaskedResult {
  return withParts(result, maskParts(result, known));
}

/**
 * Like `maskResult`, without blocking the event loop. On failure it hides everything that may be secret; rejects only
 * if the signal aborts.
 */
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

export interface MaskedStored {
  readonly result: MaskedResult;
  /** The given texts, masked; empty if the secrets are unknown. */
  readonly texts: readonly string[];
}

/**
 * Like `maskResult`, for a stored result and for other texts from it. A large one may have been shortened so much that its
 * secrets are unknown: then only the names of the changes are shown.
 */
export function maskStored(
  result: CommandResult,
  known: readonly string[] = [],
  texts: readonly string[] = [],
): MaskedStored {
  const shortened = result.warnings.some(({ message }) => message.startsWith("The result was too large to be stored"));
  const concealed = (): MaskedStored => ({ result: withParts(result, conceal(result)), texts: [] });
  if (shortened) return concealed();
  const redactor = redactorOf(result, known);
  const masked = { result: withParts(result, maskWith(result, redactor)), texts: texts.map(redactor.text) };
  return redactor.whyIncomplete() === undefined ? masked : concealed(); // known once everything was searched
}

/**
 * Computes the parts that `maskResult` replaces.
 *
 * @inThread
 */
export function maskParts(result: CommandResult, known: readonly string[]): MaskedParts {
  const redactor = redactorOf(result, known);
  const masked = maskWith(result, redactor);
  return redactor.whyIncomplete() === undefined ? masked : conceal(result);
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

/** For a result whose secrets are unknown: shows only which fields changed and which objects have errors. */
function conceal(result: CommandResult): MaskedParts {
  const silence = (errors: readonly ResultError[]) =>
    errors.map(({ ref }) => ({ ref, message: "(not shown, because it may hold a secret)" }));
  return {
    changes: result.objects.map((object) => object.changes.map(hideChange)),
    errors: silence(result.errors),
    warnings: silence(result.warnings),
  };
}

function maskObjects(objects: readonly ResultObject[], redactor: Redactor): FieldChange[][] {
  let searched = 0;
  return objects.map((object) => {
    searched += JSON.stringify(object.changes).length;
    if (searched <= maxSearchedLength) return maskChanges(object, redactor);
    return object.changes.map((change) => ({ ...hideChange(change), jsonPath: redactor.text(change.jsonPath) }));
  });
}

function maskChanges(object: ResultObject, redactor: Redactor): FieldChange[] {
  return object.changes.map((change) =>
    isSecret(object.ref) && holdsData(change) ? hideChange(change) : maskChange(change, redactor),
  );
}

/** `data…`, `stringData…`, and anything that is not clearly somewhere else (a whole object, an odd path). */
function holdsData({ jsonPath }: FieldChange): boolean {
  return !/^(metadata\.(labels|name|namespace)|type|immutable)\b/.test(jsonPath);
}

function hideChange({ type, jsonPath, oldValue, newValue, unifiedDiff }: FieldChange): FieldChange {
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

/** Masks each text separately: strictly parsed fields, such as the type, must not be mistaken for a secret. */
function maskChange(change: FieldChange, redactor: Redactor): FieldChange {
  const [oldValue, newValue] = [maskValue(change.oldValue, redactor), maskValue(change.newValue, redactor)];
  const hidden = oldValue !== change.oldValue || newValue !== change.newValue;
  const unifiedDiff = hidden
    ? // kluctl's own diff interleaves old and new lines and may thereby split a secret.
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

/** Returns the same value if it contains no secret. */
function maskValue(value: unknown, redactor: Redactor): unknown {
  const masked = maskTexts(value, redactor);
  if (typeof masked === "string") return masked;
  const text = JSON.stringify(masked);
  // A secret that spans JSON's own syntax: hide the whole value.
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
