/** Keeps secret values out of what people read: status, events, logs. Pure. */
import type { Change, CommandResult, ResultError, ResultObject } from "../model.ts";

const masked = "*****";
/** Shorter values ("1", "true", "admin") would blacken half of every text and protect nothing. */
const minSecretLength = 6;

/** A copy in which no value of a Secret is readable, wherever it stands in changes, errors and warnings. */
export function maskResult(result: CommandResult): CommandResult {
  const secrets = secretValues(result.objects);
  const maskErrors = (errors: readonly ResultError[]) =>
    errors.map((error) => ({ ...error, message: scrub(error.message, secrets) }));
  return {
    ...result,
    objects: result.objects.map((object) => ({ ...object, changes: maskChanges(object, secrets) })),
    errors: maskErrors(result.errors),
    warnings: maskErrors(result.warnings),
  };
}

/** Every known secret value in the text becomes stars. */
export function scrub(text: string, secrets: readonly string[]): string {
  return secrets.reduce((scrubbed, secret) => scrubbed.replaceAll(secret, masked), text);
}

/** The values of all Secrets in a result, as they are and in the encodings they are likely to be seen in; longest first. */
function secretValues(objects: readonly ResultObject[]): string[] {
  const values = new Set<string>();
  for (const object of objects.filter(isSecret)) {
    for (const json of [object.rendered, object.remote, object.applied]) {
      if (json !== undefined) for (const value of valuesOf(json)) values.add(value);
    }
  }
  return [...values].filter((value) => value.length >= minSecretLength).sort((a, b) => b.length - a.length);
}

function isSecret({ ref }: ResultObject): boolean {
  return ref.kind === "Secret" && (ref.group ?? "") === "";
}

function* valuesOf(json: string): Generator<string> {
  const { data, stringData } = JSON.parse(json) as {
    data?: Record<string, unknown>;
    stringData?: Record<string, unknown>;
  };
  for (const encoded of Object.values(data ?? {})) {
    if (typeof encoded !== "string") continue;
    yield encoded;
    yield* spellings(Buffer.from(encoded, "base64").toString("utf8"));
  }
  for (const value of Object.values(stringData ?? {})) {
    if (typeof value !== "string") continue;
    yield Buffer.from(value).toString("base64");
    yield* spellings(value);
  }
}

/** A value as it appears raw, in a URL, inside JSON, and line by line (keys and certificates are shown by line). */
function* spellings(value: string): Generator<string> {
  yield value;
  yield encodeURIComponent(value.toWellFormed());
  yield JSON.stringify(value).slice(1, -1);
  if (value.includes("\n")) yield* value.split("\n").map((line) => line.trim());
}

function maskChanges(object: ResultObject, secrets: readonly string[]): Change[] {
  return object.changes.map((change) =>
    isSecret(object) && holdsData(change) ? hideChange(change) : scrubChange(change, secrets),
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
    ...(oldValue !== undefined && { oldValue: masked }),
    ...(newValue !== undefined && { newValue: masked }),
    ...(unifiedDiff !== undefined && {
      unifiedDiff: [oldValue !== undefined && `-${masked}`, newValue !== undefined && `+${masked}`]
        .filter(Boolean)
        .join("\n"),
    }),
  };
}

/** Each text by itself: what other tools read strictly, such as the type, must not be taken for somebody's secret. */
function scrubChange(change: Change, secrets: readonly string[]): Change {
  if (secrets.length === 0) return change;
  const { jsonPath, oldValue, newValue, unifiedDiff } = change;
  return {
    ...change,
    jsonPath: scrub(jsonPath, secrets),
    ...(oldValue !== undefined && { oldValue: scrubValue(oldValue, secrets) }),
    ...(newValue !== undefined && { newValue: scrubValue(newValue, secrets) }),
    ...(unifiedDiff !== undefined && { unifiedDiff: scrub(unifiedDiff, secrets) }),
  };
}

function scrubValue(value: unknown, secrets: readonly string[]): unknown {
  const text = JSON.stringify(value);
  const scrubbed = scrub(text, secrets);
  if (scrubbed === text) return value;
  try {
    return JSON.parse(scrubbed);
  } catch {
    return masked; // a secret that spans JSON's own syntax: show nothing of it
  }
}
