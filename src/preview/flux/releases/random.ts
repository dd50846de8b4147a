/** Values that a chart makes again each time that it is rendered: found by rendering both commits twice. Pure. */
import { isDeepStrictEqual } from "node:util";
import { isRecord, type JsonObject } from "../../../kit/json.ts";

export interface FoldedObject {
  /** The merge's object, with the values of the base where they are random in both commits. */
  readonly object: JsonObject;
  /** The fields with such values. */
  readonly paths: readonly string[];
}

/** The same thing of each commit, rendered twice. */
export interface Twice<T> {
  readonly base: readonly [T, T];
  readonly merged: readonly [T, T];
}

export function foldRandom(twice: Twice<JsonObject>): FoldedObject {
  const paths: string[] = [];
  const object = fold(twice, "", paths) as JsonObject;
  return { object, paths };
}

function fold(twice: Twice<unknown>, path: string, paths: string[]): unknown {
  const { base, merged } = twice;
  if (isDeepStrictEqual(...base) || isDeepStrictEqual(base[0], merged[0])) return merged[0];
  const all = [...base, ...merged];
  if (all.every(isRecord)) {
    const entries = Object.entries(all[2] ?? {}).map(([key, value]): [string, unknown] => {
      const isKnown = all.every((one) => Object.hasOwn(one, key));
      return [key, isKnown ? fold(mapTwice(twice, (one) => (one as JsonObject)[key]), path === "" ? key : `${path}.${key}`, paths) : value]; // prettier-ignore
    });
    return Object.fromEntries(entries);
  }
  if (all.every(Array.isArray) && all.every((list) => list.length === all[0]?.length)) {
    const list: readonly unknown[] = all[2] ?? [];
    return list.map((_, at) => fold(mapTwice(twice, (one) => (one as readonly unknown[])[at]), `${path}[${at}]`, paths)); // prettier-ignore
  }
  const folded = foldValue(twice);
  if (!isDeepStrictEqual(folded, merged[0])) paths.push(path);
  return folded;
}

function foldValue(twice: Twice<unknown>): unknown {
  const { base, merged } = twice;
  // The time may be the same in both renders of the merge, because the second render of the base was between them.
  if (isDeepStrictEqual(base[1], merged[0])) return base[0];
  const all = [...base, ...merged];
  if (isDeepStrictEqual(...merged) || typeof base[0] !== typeof merged[0] || all.some((one) => typeof one === "object"))
    return merged[0];
  return all.every((one) => typeof one === "string") ? foldText(twice as Twice<string>) : base[0];
}

const line = /(\n)/;
const word = /([^A-Za-z0-9+/]+)/;

/** By line and by word, so that it hides no other change of the text. */
function foldText(twice: Twice<string>): string {
  const hasLines = [...twice.base, ...twice.merged].some((text) => text.includes("\n"));
  // Of a text with another number of lines each time, it is not known which of them are random.
  return foldParts(twice, line, foldLine) ?? (hasLines ? twice.merged[0] : foldLine(twice));
}

/** A line that has other punctuation each time is random as a whole. */
function foldLine(twice: Twice<string>): string {
  return foldParts(twice, word, ({ base }) => base[0]) ?? (isStable(twice) ? twice.merged[0] : twice.base[0]);
}

/** Whether the words that are not random can be told from the others. */
function isStable(twice: Twice<string>): boolean {
  const { base, merged } = mapTwice(twice, (text) => text.split(word).length);
  return base[0] === base[1] && merged[0] === merged[1];
}

/** `undefined` if the random parts of the one commit are not those of the other. */
function foldParts(
  twice: Twice<string>,
  separator: RegExp,
  foldPart: (part: Twice<string>) => string,
): string | undefined {
  const { base, merged } = mapTwice(twice, (text) => text.split(separator));
  const [old, now] = [base, merged].map(randomParts) as [Positions, Positions];
  if (old === undefined || now === undefined || old.length !== now.length) return undefined;
  const folded = [...merged[0]];
  for (const [nth, at] of now.entries()) {
    const was = old[nth] ?? 0;
    const part = { base: pick(base, was), merged: pick(merged, at) };
    folded[at] = foldPart(part);
  }
  return folded.join("");
}

type Positions = readonly number[] | undefined;

function randomParts([one, other]: readonly [readonly string[], readonly string[]]): Positions {
  if (one.length !== other.length) return undefined;
  return one.flatMap((part, at) => (part === other[at] ? [] : [at]));
}

function pick([one, other]: readonly [readonly string[], readonly string[]], at: number): readonly [string, string] {
  return [one[at] ?? "", other[at] ?? ""];
}

function mapTwice<T, R>({ base, merged }: Twice<T>, map: (one: T) => R): Twice<R> {
  return { base: [map(base[0]), map(base[1])], merged: [map(merged[0]), map(merged[1])] };
}
