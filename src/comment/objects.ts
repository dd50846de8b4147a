/** Renders the objects of one deployment with as many objects and diff lines as fit. */
import type { PreviewObject } from "../model/report.ts";
import { grouped, plural } from "../preview/summary.ts";
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

export function renderObjects(objects: readonly PreviewObject[], options: ObjectsOptions): Part {
  const room = options.room - endingLength;
  for (const limit of lineLimits) {
    const part = withLines(objects, limit, room, options);
    if (part !== undefined) return part;
  }
  return cutList(objects, room, options);
}

/** The title of an object. */
export function objectName(object: PreviewObject): string {
  return `${kindOf(object)} ${nameOf(object, true)}`;
}

/** A kind is one word; anything else is shown as code. */
function kindOf({ ref }: PreviewObject): string {
  return /^[A-Za-z]{1,63}$/.test(ref.kind) ? ref.kind : code(ref.kind);
}

function nameOf({ ref }: PreviewObject, withNamespace: boolean): string {
  return code(withNamespace && ref.namespace ? `${ref.namespace}/${ref.name}` : ref.name);
}

/** Renders all objects with this many lines of each diff; `undefined` if that does not fit. */
function withLines(
  objects: readonly PreviewObject[],
  limit: number,
  room: number,
  { leftOut, withNamespace }: ObjectsOptions,
): Part | undefined {
  let text = "";
  let afterItem = false;
  let linesLeftOut = 0;
  for (const object of objects) {
    const { diff = "" } = object;
    const item = limit === 0 || diff === "";
    const title = titleOf(object, withNamespace, item);
    if (text !== "") text += afterItem && item ? "\n" : "\n\n";
    text += item ? `- ${title}` : title;
    if (item) {
      linesLeftOut += lineCount(object);
    } else {
      if (limit === Infinity && diff.length > room) return undefined;
      const { lines, leftOut: cutOff } = diffOf(object, limit);
      text += `\n${fence(lines, "diff")}`;
      linesLeftOut += cutOff;
    }
    if (text.length > room) return undefined;
    afterItem = item;
  }
  const ending = leftOut > 0 ? `… and ${plural(leftOut, "more object", "more objects")}` : "";
  return { text: [text, ending].filter(Boolean).join("\n\n"), objectsLeftOut: leftOut, linesLeftOut };
}

/** Renders as many names as fit, and the number of the others. */
function cutList(objects: readonly PreviewObject[], room: number, { leftOut, withNamespace }: ObjectsOptions): Part {
  const items: string[] = [];
  let used = 0;
  let linesLeftOut = 0;
  for (const object of objects) {
    const item = `- ${titleOf(object, withNamespace, true)}`;
    used += item.length + 1;
    if (used > room) break;
    items.push(item);
    linesLeftOut += lineCount(object);
  }
  const rest = objects.slice(items.length);
  const more = rest.length + leftOut;
  const kinds = (["changed", "new", "deleted", "orphan"] as const)
    .map((action) => ({ action, count: rest.filter((object) => object.action === action).length }))
    .filter(({ count }) => count > 0)
    .map(({ action, count }) => `${grouped(count)} ${action}`);
  const ending = `… and ${plural(more, "more object", "more objects")}${kinds.length > 0 ? `: ${kinds.join(", ")}` : ""}`;
  return { text: [items.join("\n"), ending].filter(Boolean).join("\n\n"), objectsLeftOut: more, linesLeftOut };
}

function titleOf(object: PreviewObject, withNamespace: boolean, item: boolean): string {
  const { action, risks, secretKeys } = object;
  const kind = kindOf(object);
  const title = action === "changed" && !item ? `**${kind}**` : `**${action}** ${kind}`;
  const keys = secretKeys === undefined || secretKeys.length === 0 ? "" : `: ${describeKeys(secretKeys)}`;
  const remarks = risks.filter(({ kind }) => kind !== "deletion" || action === "changed").slice(0, 3);
  return `${title} ${nameOf(object, withNamespace)}${keys}${remarks.map(({ text }) => ` – ${prose(text)}`).join("")}`;
}

/** Describes the changed keys of a Secret. */
function describeKeys(keys: NonNullable<PreviewObject["secretKeys"]>): string {
  const shown = keys.slice(0, mostSecretKeys).map(({ key, change }) => `${code(key)} ${change}`);
  if (keys.length > shown.length) shown.push(`${grouped(keys.length - shown.length)} more`);
  return `${keys.length === 1 ? "key" : "keys"} ${shown.join(", ")}`;
}
