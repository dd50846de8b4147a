/**
 * Values of Secrets that kluctl got masks of only, so that a project cannot show one by accident. Where it says one all the same,
 * somebody has guessed it, and stars in its place would tell which of many guesses is right. So these values are hidden in what a
 * project does not say itself: what is live, and what the API server says. Pure.
 */
import { parseJson } from "../json.ts";
import type { ResultObject } from "../model.ts";
import { createRedactor, type Redactor } from "../redact/redactor.ts";
import { piecesOf } from "../redact/secret-pieces.ts";
import { isSecret } from "../redact/secrets-of.ts";
import { toYamlLines } from "./yaml-lines.ts";

/** Of looking for a half of the values. What is not found by then counts as said: nobody guesses that many by chance. */
const mostLooks = 400;

/** Of a value that is said in part, the other parts stay. */
export function withoutSaid(values: readonly string[], objects: readonly ResultObject[]): string[] {
  const texts = [...new Set(objects.flatMap(textsOf))];
  const said = new Set(saidAmong(values, texts, { left: mostLooks }));
  const parts = [...new Set([...said].flatMap(partsOf))];
  const saidParts = new Set(saidAmong(parts, texts, { left: mostLooks }));
  return [...values.filter((value) => !said.has(value)), ...parts.filter((part) => !saidParts.has(part))];
}

function partsOf(value: string): string[] {
  const parts = Array.from(piecesOf(Buffer.from(value)), (piece) =>
    piece.everywhere ? piece.value.toString("utf8") : "",
  );
  return parts.filter((part) => part !== "" && part !== value);
}

/** All that a project says of an object, and as a comment would show it. Of Secrets it shows nothing but keys. */
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

/** By halves, and each in what the whole was found in. */
function saidAmong(values: readonly string[], texts: readonly string[], looks: { left: number }): readonly string[] {
  if (values.length === 0 || texts.length === 0) return [];
  const redactor = createRedactor(values);
  const touched = texts.filter((text) => hides(redactor, text));
  if (touched.length === 0) return [];
  if (values.length === 1 || --looks.left <= 0) return values;
  const middle = Math.ceil(values.length / 2);
  return [values.slice(0, middle), values.slice(middle)].flatMap((half) => saidAmong(half, touched, looks));
}

function hides({ text: inText, leaf, name }: Redactor, text: string): boolean {
  return inText(leaf(text)) !== unknowing.text(text) || name(text) !== unknowing.name(text);
}
