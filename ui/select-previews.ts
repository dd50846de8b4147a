/** Searches the previews of a pull request. Pure. */
import type { ShownPreview, ShownPreviewObject, ShownPreviewObjects } from "../src/views/show-report.ts";
import { searchWords } from "./search-words.ts";

export interface PreviewChanges {
  readonly preview: ShownPreview;
  readonly changes: ShownPreviewObjects;
}

/**
 * Keeps the deployments that match: with all objects if the name, place or result does, otherwise with the objects whose
 * name or diff does. All words have to match.
 */
export function selectPreviews(all: readonly PreviewChanges[], text: string): readonly PreviewChanges[] {
  const words = searchWords(text);
  if (words.length === 0) return all;
  return all.flatMap((one) => {
    const { deployment, places, verdict, remarks, failure, errors, warnings } = one.preview;
    const messages = [...errors, ...warnings].map(({ object, message }) => `${object ?? ""} ${message}`);
    const about = [deployment, ...places, verdict, ...remarks, failure, ...messages].join("\n").toLowerCase();
    const rest = words.filter((word) => !about.includes(word));
    if (rest.length === 0) return [one];
    const objects = one.changes.objects.filter((object) => {
      const words = textOf(object);
      return rest.every((word) => words.includes(word));
    });
    return objects.length === 0 ? [] : [{ ...one, changes: { objects, objectsLeftOut: 0 } }];
  });
}

/** Searched again with every letter that is typed. */
const texts = new WeakMap<ShownPreviewObject, string>();

function textOf(object: ShownPreviewObject): string {
  const known = texts.get(object);
  if (known !== undefined) return known;
  const { object: name, action, changes, risks = [], keys = [] } = object;
  const parts = [name, action, ...changes.flatMap(({ path, diff }) => [path, diff]), ...risks];
  const text = [...parts, ...keys.map(({ key, change }) => `${key} ${change}`)].join("\n").toLowerCase();
  texts.set(object, text);
  return text;
}
