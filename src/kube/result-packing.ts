/** Packs results into Secrets without blocking the event loop. */
import type { CommandResult } from "../model.ts";
import { obfuscate } from "../redact/obfuscate.ts";
import { lengthOfTexts, weightOf, weightOfSecrets } from "../redact/weight.ts";
import { inThread, largeText } from "../kit/in-thread.ts";
import { type Document, type ResultKind, type SecretObject, sizeProblem, Summary, toSecret } from "./result-secret.ts";
import { shorterAndShorter } from "./result-shortening.ts";

export interface Packed {
  readonly known: Summary;
  /** The first version that fits the API server's limits; absent if none does. */
  readonly secret?: SecretObject | undefined;
  /** Why the API server would not accept the whole result. */
  readonly tooLarge?: string | undefined;
}

/** Secret values are obfuscated: those in the result's Secrets and vars, and other known ones. */
export async function packCommand(
  namespace: string,
  result: CommandResult,
  summary: Document,
  knownSecrets: readonly string[],
): Promise<Packed> {
  const args = [namespace, result, summary, knownSecrets] as const;
  const isLarge = lengthOfTexts(result) + weightOf(result) + weightOfSecrets(knownSecrets) > largeText;
  return isLarge ? inThread(import.meta.url, packCommandNow, [...args]) : packCommandNow(...args);
}

/**
 * Takes about a second for a few megabytes.
 *
 * @inThread
 */
export async function packCommandNow(
  namespace: string,
  result: CommandResult,
  summary: Document,
  knownSecrets: readonly string[],
): Promise<Packed> {
  return pack("command", namespace, commandVersions(obfuscate(result, knownSecrets), summary));
}

export async function packValidate(namespace: string, document: Document, summary: Document): Promise<Packed> {
  return pack("validate", namespace, validateVersions(document, summary));
}

interface Version {
  readonly summary: Document;
  readonly data: Document;
}

async function pack(kind: ResultKind, namespace: string, versions: Iterable<Version>): Promise<Packed> {
  let known: Summary | undefined;
  let tooLarge: string | undefined;
  for (const { summary, data } of versions) {
    known = Summary.parse(summary);
    const secret = await toSecret(kind, namespace, known, summary, data);
    const problem = sizeProblem(secret);
    if (problem === undefined) return { known, secret, tooLarge };
    tooLarge ??= problem;
  }
  if (known === undefined) throw new Error("nothing to store");
  return { known, tooLarge };
}

function* commandVersions(result: CommandResult, whole: Document): Generator<Version> {
  for (const { summary, ...data } of shorterAndShorter(result, whole)) yield { summary, data };
}

/** Errors and warnings are cut where the result is created; what remains are the results of its hooks and checks. */
function* validateVersions(document: Document, summary: Document): Generator<Version> {
  yield { summary, data: { result: document } };
  const { results } = document;
  let some = Array.isArray(results) ? (results as unknown[]) : [];
  const total = some.length;
  const known = Array.isArray(document["warnings"]) ? (document["warnings"] as unknown[]) : [];
  while (some.length > 1) {
    some = some.slice(0, Math.ceil(some.length / 2));
    const message = `The result was too large to be stored completely: only the first ${some.length} of its ${total} findings are listed.`;
    const warnings = [...known, { ref: { kind: "", name: "" }, message }];
    yield {
      summary: { ...summary, warnings: warnings.length },
      data: { result: { ...document, results: some, warnings } },
    };
  }
}
