/** Values that a chart makes anew each time that it is rendered: found by rendering the same commit twice. Pure. */
import { isDeepStrictEqual } from "node:util";
import { isRecord, type JsonObject } from "../../../kit/json.ts";

export interface FoldedObject {
  /** The merge's object, with the values of the base where they are random. */
  readonly object: JsonObject;
  /** The fields with such values. */
  readonly paths: readonly string[];
}

/** `base` and `again` are the same object, rendered twice. */
export function foldRandom(base: JsonObject, again: JsonObject, merged: JsonObject): FoldedObject {
  const paths: string[] = [];
  const object = fold([base, again, merged], "", paths) as JsonObject;
  return { object, paths };
}

function fold([base, again, merged]: readonly [unknown, unknown, unknown], path: string, paths: string[]): unknown {
  if (isDeepStrictEqual(base, again)) return merged;
  if (isRecord(base) && isRecord(again) && isRecord(merged)) {
    const entries = Object.entries(merged).map(([key, value]): [string, unknown] => {
      const isKnown = Object.hasOwn(base, key) && Object.hasOwn(again, key);
      const at = path === "" ? key : `${path}.${key}`;
      return [key, isKnown ? fold([base[key], again[key], value], at, paths) : value];
    });
    return Object.fromEntries(entries);
  }
  const all = [base, again, merged];
  if (all.every(Array.isArray) && all.every((list) => list.length === all[0]?.length)) {
    const [one = [], other = [], list = []] = all as unknown[][];
    return list.map((value, at) => fold([one[at], other[at], value], `${path}[${at}]`, paths));
  }
  if (isDeepStrictEqual(base, merged)) return merged;
  if (typeof base !== typeof merged || typeof base === "object") return merged;
  paths.push(path);
  return base;
}
