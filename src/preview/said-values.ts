/**
 * Values of Secrets that kluctl received only as masks, so that a project cannot reveal one by accident. If the project
 * itself contains such a value, its author has guessed it, and replacing it by stars would confirm which of many
 * guesses is right. So these values are hidden only in text that is not the project's own: live objects and messages of
 * the API server. Pure.
 */
import { parseJson } from "../kit/json.ts";
import type { ResultObject } from "../model.ts";
import { createRedactor, type Redactor } from "../redact/redactor.ts";
import { piecesOf } from "../redact/secret-pieces.ts";
import { isSecret } from "../redact/secrets-of.ts";
import { toYamlLines } from "./yaml-lines.ts";

/**
 * Approximate limit, in microseconds, for finding out which values the project contains. Values that are not resolved
 * by then count as contained: nobody includes so many in so much text by chance.
 */
const mostWork = 2_000_000;
const [workOfValue, workOfCharacter] = [50, 1];
/** For names of objects and keys; longer texts are not names. */
const longestName = 253;

/** If the project contains only a part of a value, the other parts remain hidden. */
export function withoutSaid(values: readonly string[], objects: readonly ResultObject[]): string[] {
  if (createRedactor(values).whyIncomplete() !== undefined) return [...values]; // then nothing is shown anyway
  const texts = [...new Set(objects.flatMap(textsOf))].map(withoutShapes);
  const work = { left: mostWork };
  const said = new Set(saidAmong(values, texts, work));
  const parts = [...new Set([...said].flatMap(partsOf))];
  const saidParts = new Set(saidAmong(parts, texts, work));
  return [...values.filter((value) => !said.has(value)), ...parts.filter((part) => !saidParts.has(part))];
}

function partsOf(value: string): string[] {
  const parts = Array.from(piecesOf(Buffer.from(value)), (piece) =>
    piece.everywhere ? piece.value.toString("utf8") : "",
  );
  return parts.filter((part) => part !== "" && part !== value);
}

/**
 * All texts of the project about an object, and the object as a comment would show it. Of Secrets a comment shows only
 * keys.
 */
function textsOf({ ref, rendered }: ResultObject): string[] {
  if (rendered === undefined || isSecret(ref)) return [];
  const texts: string[] = [];
  const note = (text: string): string => {
    texts.push(text);
    return text;
  };
  const lines = toYamlLines(parseJson(rendered), { leaf: note, key: note, deep: note });
  return [...texts, lines.join("\n")];
}

const unknowing = createRedactor([]);

/** A text, and how it is shown if there are no known values. */
interface Said {
  readonly text: string;
  readonly shown: string;
  /** `undefined` if the text is not a name. */
  readonly shownAsName: string | undefined;
}

function withoutShapes(text: string): Said {
  const isName = text.length <= longestName;
  return { text, shown: unknowing.text(text), shownAsName: isName ? unknowing.name(text) : undefined };
}

/** Bisects the values, and searches each half only in the texts where the whole matched. */
function saidAmong(values: readonly string[], texts: readonly Said[], work: { left: number }): readonly string[] {
  if (values.length === 0 || texts.length === 0) return [];
  if (work.left < 0) return values;
  const length = texts.reduce((sum, { text }) => sum + text.length, 0);
  work.left -= values.length * workOfValue + length * workOfCharacter;
  const redactor = createRedactor(values);
  const touched = texts.filter((said) => hides(redactor, said));
  if (touched.length === 0) return [];
  if (values.length === 1) return values;
  const middle = Math.ceil(values.length / 2);
  return [values.slice(0, middle), values.slice(middle)].flatMap((half) => saidAmong(half, touched, work));
}

function hides(redactor: Redactor, { text, shown, shownAsName }: Said): boolean {
  if (redactor.text(redactor.leaf(text)) !== shown) return true;
  return shownAsName !== undefined && redactor.name(text) !== shownAsName;
}
