/**
 * What takes the place of variables whose values are in Secrets. They are valid in names of objects and hosts, and random, so
 * that nothing else is taken for one. Pure, except that they are random.
 */
import { randomBytes } from "node:crypto";
import type { JsonObject } from "../../kit/json.ts";
import { decodedData, isNotSubstituted, mapTexts, someText } from "./manifests.ts";

export interface Placeholders {
  /** The same for the same name. */
  of(variable: string): string;
  isIn(object: JsonObject): boolean;
  /** The object with `${NAME}` in place of each. */
  named(object: JsonObject): JsonObject;
  namedText(text: string): string;
}

export function createPlaceholders(): Placeholders {
  const start = `v${randomBytes(5).toString("hex")}`;
  const names: string[] = [];
  const known = new Map<string, string>();
  // Substitution may change their case.
  const pattern = new RegExp(`${start}(\\d{1,6})z`, "gi");
  const namedText = (text: string) =>
    text.replaceAll(pattern, (whole, at: string) => {
      const name = names[Number(at)];
      return name === undefined ? whole : `\${${name}}`;
    });
  return {
    of(variable) {
      let made = known.get(variable);
      if (made === undefined) {
        made = `${start}${names.length}z`;
        names.push(variable);
        known.set(variable, made);
      }
      return made;
    },
    isIn(object) {
      const has = (text: string) => text.toLowerCase().includes(start);
      return names.length > 0 && (someText(object, has) || decodedData(object).some(has));
    },
    named: (object) => mapTexts(object, namedText) as JsonObject,
    namedText,
  };
}

/** The names of the variables in objects to which substitution has not been applied. */
export function variablesIn(objects: readonly JsonObject[]): ReadonlySet<string> {
  const substituted = objects.filter((object) => !isNotSubstituted(object));
  const texts = substituted.flatMap((object) => [JSON.stringify(object), ...decodedData(object)]);
  return new Set(texts.flatMap((text) => [...text.matchAll(/\$\{#?([A-Za-z_]\w*)/g)].map(([, name = ""]) => name)));
}
