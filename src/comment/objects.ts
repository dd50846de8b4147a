/** Renders the objects of one deployment, equal changes once, with as many objects and diff lines as fit. */
import type { PreviewObject } from "../model/report.ts";
import { grouped, plural } from "../preview/summary.ts";
import { isComplete } from "./groups.ts";
import { diffOf, lineCount } from "./lines.ts";
import { code, fence, prose } from "./text.ts";

/** A rendered part of the comment, and what did not fit. */
export interface Part {
  readonly text: string;
  readonly objectsLeftOut: number;
  readonly linesLeftOut: number;
}

export interface ObjectsOptions {
  /** The longest text, in characters. */
  readonly room: number;
  /** The number of further objects that were not stored. */
  readonly leftOut: number;
  /** False if one object stands for several in different namespaces. */
  readonly withNamespace: boolean;
}

/** How many lines of each diff are shown: the first of these with which all objects fit; 0 is a list of names. */
const lineLimits = [Infinity, 200, 80, 40, 20, 10, 5, 0];
/** Room for the line that counts what is left out. */
const endingLength = 160;
const mostSecretKeys = 30;
/** From this many objects on, the same change is shown once. */
const leastAlike = 3;
/** In a title; the list of dangers has all of them. */
const mostRisks = 3;

/** One object, or several of a kind with the same change. */
type Item = readonly [PreviewObject, ...PreviewObject[]];

export function renderObjects(objects: readonly PreviewObject[], options: ObjectsOptions): Part {
  const room = options.room - endingLength;
  const items = toItems(objects);
  for (const limit of lineLimits) {
    const part = withLines(items, limit, room, options);
    if (part !== undefined) return part;
  }
  return cutList(items, room, options);
}

/** About the lines that these objects take if all is shown. */
export function linesOf(objects: readonly PreviewObject[]): number {
  return toItems(objects).reduce((lines, item) => lines + lineCount(item[0]) + 3 + Math.floor(item.length / 5), 0);
}

/** In the order of the objects. The keys of a Secret are its own. */
function toItems(objects: readonly PreviewObject[]): Item[] {
  const alike = Map.groupBy(objects, (object) => {
    const { ref, action, diff, risks, secretKeys } = object;
    const isComparable = isComplete(object) && secretKeys === undefined;
    return isComparable ? JSON.stringify([ref.group, ref.kind, action, diff, risks]) : object;
  });
  return [...alike.values()].flatMap((same): Item[] =>
    same.length >= leastAlike && isItem(same) ? [same] : same.map((object): Item => [object]),
  );
}

/** The title of an object. `withNamespace`: see ObjectsOptions. */
export function objectName(object: PreviewObject, withNamespace: boolean): string {
  return `${kindOf(object)} ${nameOf(object, withNamespace)}`;
}

const kindWord = /^[A-Za-z]{1,63}$/;

/** A kind is one word; anything else is shown as code. */
function kindOf({ ref }: PreviewObject): string {
  return kindWord.test(ref.kind) ? ref.kind : code(ref.kind);
}

/** `200 ConfigMaps`, `3 Ingresses`. */
function describeKinds(item: Item): string {
  const [first] = item;
  const { kind } = first.ref;
  if (!kindWord.test(kind)) return `${grouped(item.length)} of kind ${code(kind)}`;
  const kinds = /(?:s|x|ch|sh)$/.test(kind) ? `${kind}es` : kind.replace(/(?<=[^aeiou])y$/, "ie") + "s";
  return plural(item.length, kind, kinds);
}

function nameOf({ ref }: PreviewObject, withNamespace: boolean): string {
  return code(withNamespace && ref.namespace ? `${ref.namespace}/${ref.name}` : ref.name);
}

/** Renders all objects with this many lines of each diff; `undefined` if that does not fit. */
function withLines(
  items: readonly Item[],
  limit: number,
  room: number,
  { leftOut, withNamespace }: ObjectsOptions,
): Part | undefined {
  let text = "";
  let afterItem = false;
  let linesLeftOut = 0;
  for (const item of items) {
    const [object] = item;
    const { diff = "" } = object;
    const isListed = limit === 0 || diff === "";
    const title = titleOf(item, withNamespace, isListed);
    if (text !== "") text += afterItem && isListed ? "\n" : "\n\n";
    text += isListed ? `- ${title}` : title;
    if (isListed) {
      linesLeftOut += lineCount(object);
    } else {
      if (limit === Infinity && diff.length > room) return undefined;
      const { lines, leftOut: cutOff } = diffOf(object, limit);
      text += `\n${fence(lines, "diff")}`;
      linesLeftOut += cutOff;
    }
    if (text.length > room) return undefined;
    afterItem = isListed;
  }
  const ending = leftOut > 0 ? `… and ${plural(leftOut, "more object", "more objects")}` : "";
  return { text: [text, ending].filter(Boolean).join("\n\n"), objectsLeftOut: leftOut, linesLeftOut };
}

/** Renders as many names as fit, and the number of the others. */
function cutList(items: readonly Item[], room: number, { leftOut, withNamespace }: ObjectsOptions): Part {
  const lines: string[] = [];
  const rest: PreviewObject[] = [];
  let used = 0;
  let linesLeftOut = 0;
  for (const item of items) {
    const shown = used < room ? fitNames(item, withNamespace, room - used) : [];
    rest.push(...item.slice(shown.length));
    if (!isItem(shown)) continue;
    const line = `- ${titleOf(shown, withNamespace, true)}`;
    used += line.length + 1;
    lines.push(line);
    linesLeftOut += lineCount(item[0]);
  }
  const more = rest.length + leftOut;
  const kinds = (["changed", "new", "deleted", "orphan"] as const)
    .map((action) => ({ action, count: rest.filter((object) => object.action === action).length }))
    .filter(({ count }) => count > 0)
    .map(({ action, count }) => `${grouped(count)} ${action}`);
  const ending = `… and ${plural(more, "more object", "more objects")}${kinds.length > 0 ? `: ${kinds.join(", ")}` : ""}`;
  return { text: [lines.join("\n"), ending].filter(Boolean).join("\n\n"), objectsLeftOut: more, linesLeftOut };
}

function isItem(objects: readonly PreviewObject[]): objects is Item {
  return objects.length > 0;
}

/** As many of the objects as their title has room for. */
function fitNames(item: Item, withNamespace: boolean, room: number): readonly PreviewObject[] {
  const [first] = item;
  let length = titleOf([first], withNamespace, true).length + 80;
  const tooMany = item.findIndex((object) => (length += nameOf(object, withNamespace).length + 2) > room);
  return tooMany === -1 ? item : item.slice(0, tooMany);
}

function titleOf(item: Item, withNamespace: boolean, isListed: boolean): string {
  const [object] = item;
  const { action, risks, secretKeys } = object;
  const isDiff = action === "changed" && !isListed;
  const keys = secretKeys === undefined || secretKeys.length === 0 ? "" : `: ${describeKeys(secretKeys)}`;
  const why = describeRisks(risks.filter(({ kind }) => kind !== "deletion" || action === "changed"));
  if (item.length > 1) {
    const kinds = describeKinds(item);
    const title = isDiff ? `**The same change in ${kinds}**` : `**${action}** ${kinds}`;
    return `${title}: ${item.map((each) => nameOf(each, withNamespace)).join(", ")}${why}`;
  }
  const title = isDiff ? `**${kindOf(object)}**` : `**${action}** ${kindOf(object)}`;
  return `${title} ${nameOf(object, withNamespace)}${keys}${why}${describeMissing(object)}`;
}

/** Says why an object has no diff, if it should have one. */
export function describeMissing({ partial, diff }: PreviewObject): string {
  return partial && diff === undefined ? " – its changes are too large to be shown" : "";
}

function describeRisks(risks: PreviewObject["risks"]): string {
  const shown = risks.slice(0, mostRisks).map(({ text }) => prose(text));
  if (risks.length > shown.length) shown.push(`and ${plural(risks.length - shown.length, "more risk")}`);
  return shown.map((text) => ` – ${text}`).join("");
}

/** Describes the changed keys of a Secret. */
function describeKeys(keys: NonNullable<PreviewObject["secretKeys"]>): string {
  const shown = keys.slice(0, mostSecretKeys).map(({ key, change }) => `${code(key)} ${change}`);
  if (keys.length > shown.length) shown.push(`${grouped(keys.length - shown.length)} more`);
  return `${keys.length === 1 ? "key" : "keys"} ${shown.join(", ")}`;
}
