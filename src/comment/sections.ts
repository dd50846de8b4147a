/** Renders a collapsed section for each group of deployments with details. */
import { nameOfPreview, type Preview } from "../model/report.ts";
import { describeChanges, describeFailure, describeNoChange, grouped, plural } from "../preview/summary.ts";
import type { Group } from "./groups.ts";
import { cutLines } from "./lines.ts";
import { linesOf, type Part, renderObjects } from "./objects.ts";
import { describeDrift, describeLimits, iconOf, placeOf } from "./table.ts";
import { code, fence, htmlCode, markdown, type Markup, prose, toLines } from "./text.ts";

export interface Sections {
  readonly text: string;
  /** Groups that only have their row in the table. */
  readonly sectionsLeftOut: number;
  readonly objectsLeftOut: number;
  readonly linesLeftOut: number;
}

/** With less room than this, a section adds nothing to the table. */
const leastRoom = 700;
/** The largest shares for errors, and then for warnings. */
const errorShare = 0.5;
const warningShare = 0.25;
const mostVisible = 12;
/** Room for the fold around the others. */
const foldLength = 100;
/** Sections with errors are open. With more of them the comment would be longer than a few screens. */
const mostOpen = 12;
/** Up to this many lines, the section of the only deployment is open: it fits on the same screen as the verdict. */
const mostLinesOpen = 30;

export interface SectionsOptions {
  readonly room: number;
  /** There is no table: the section's title says what the row would. */
  readonly only: boolean;
}

/** Renders as many sections as fit, the most urgent first, each with a fair share of the room. */
export function renderSections(groups: readonly Group[], { room, only }: SectionsOptions): Sections {
  const wanted = groups.filter(({ preview }) => hasDetails(preview));
  const shown = wanted.slice(0, Math.max(0, Math.floor(room / leastRoom)));
  const parts = new Map<Group, Part>();
  let left = room - foldLength;
  // Room that small sections do not need goes to the large ones.
  const bySize = shown.map((group) => ({ group, size: sizeOf(group.preview) })).sort((a, b) => a.size - b.size);
  const toOpen = new Set(shown.filter(({ preview }) => saysWhy(preview)).slice(0, mostOpen));
  for (const [index, { group }] of bySize.entries()) {
    const open = toOpen.has(group) || (only && isShort(group.preview));
    const part = renderSection(group, { open, only, room: Math.floor(left / (bySize.length - index)) - 2 });
    if (part === undefined) continue;
    left -= part.text.length + 2;
    parts.set(group, part);
  }
  const inOrder = shown.flatMap((group) => parts.get(group) ?? []);
  return {
    text: foldRest(inOrder.map(({ text }) => text)),
    sectionsLeftOut: wanted.length - inOrder.length,
    objectsLeftOut: inOrder.reduce((sum, part) => sum + part.objectsLeftOut, 0),
    linesLeftOut: inOrder.reduce((sum, part) => sum + part.linesLeftOut, 0),
  };
}

/** The first sections are visible, if only by their titles. */
function foldRest(sections: readonly string[]): string {
  const [visible, rest] = [sections.slice(0, mostVisible), sections.slice(mostVisible)];
  const more = `<details><summary>${plural(rest.length, "more section")}</summary>\n\n${rest.join("\n\n")}\n\n</details>`;
  return [...visible, ...(rest.length > 0 ? [more] : [])].join("\n\n");
}

function hasDetails(preview: Preview): boolean {
  const { state, objects, objectsLeftOut, errors, warnings, concealed, encrypted, unattributed } = preview;
  if (state === "working") return false;
  if (state === "failed" || concealed !== undefined || encrypted?.changed.length || unattributed) return true;
  return objects.length + objectsLeftOut + errors.length + warnings.length > 0;
}

/** Whether the section explains a failure, errors or hidden details, so that it is shown open. */
function saysWhy({ state, counts, concealed }: Preview): boolean {
  return state === "failed" || counts.errors > 0 || concealed !== undefined;
}

function isShort({ objects }: Preview): boolean {
  return linesOf(objects) <= mostLinesOpen;
}

/** The approximate length of the whole section. */
function sizeOf({ objects, errors, warnings, failure = "" }: Preview): number {
  const messages = [...errors, ...warnings].reduce((sum, { message }) => sum + message.length + 80, 0);
  return objects.reduce((sum, { diff = "" }) => sum + diff.length + 100, failure.length + messages);
}

interface SectionOptions extends SectionsOptions {
  readonly open: boolean;
}

function renderSection(group: Group, { open, only, room }: SectionOptions): Part | undefined {
  const { preview, previews, sameNamespaces } = group;
  const start = `<details${open ? " open" : ""}><summary>${iconOf(preview, false)} ${titleOf(group, only)}</summary>`;
  const end = "</details>";
  const blocks = [start, ...(previews.length > 1 ? [listNames(previews, room / 2)] : [])];
  let left = room - end.length - blocks.reduce((sum, block) => sum + block.length + 2, 0);
  if (left < leastRoom / 3) return undefined;

  let linesLeftOut = 0;
  const take = (title: string, lines: readonly string[], most: number) => {
    const { lines: shown, leftOut } = cutLines(lines, most - title.length - fenceRoom(lines));
    linesLeftOut += leftOut;
    const block = `${title}${fence(shown)}`;
    left -= block.length + 2;
    return block;
  };

  if (preview.state === "failed") {
    blocks.push(take("", toLines(preview.failure ?? "The reason is unknown."), left), end);
    return { text: blocks.join("\n\n"), objectsLeftOut: 0, linesLeftOut };
  }
  const { counts, errors, warnings, objects, concealed, encrypted, pruneWaits, unattributed } = preview;
  const notes = [
    unattributed !== undefined && describeUnattributed(prose(unattributed), markdown),
    pruneWaits && describePruneThatWaits(pruneWaits, markdown),
    encrypted && describeEncrypted(encrypted, markdown),
  ];
  for (const block of notes.filter((note) => typeof note === "string")) {
    blocks.push(block);
    left -= block.length + 2;
  }
  if (counts.errors > 0)
    blocks.push(take(messagesTitle(counts.errors, "error"), messageLines(errors, counts.errors), left * errorShare));
  const below =
    counts.warnings > 0
      ? take(messagesTitle(counts.warnings, "warning"), messageLines(warnings, counts.warnings), left * warningShare)
      : undefined;
  if (concealed !== undefined) blocks.push(`Only counts are shown: ${prose(concealed)}`);
  const part = renderObjects(objects, { room: left, leftOut: preview.objectsLeftOut, withNamespace: sameNamespaces });
  const text = [...blocks, part.text, below, end].filter(Boolean).join("\n\n");
  return { text, objectsLeftOut: part.objectsLeftOut, linesLeftOut: linesLeftOut + part.linesLeftOut };
}

export function describePruneThatWaits(
  { doomed, deployed, empty }: NonNullable<Preview["pruneWaits"]>,
  { code, strong }: Markup,
): string {
  const what = empty
    ? `The merge renders no objects at all: ${plural(deployed, "object")} would be deleted.`
    : `${grouped(doomed)} of ${grouped(deployed)} deployed objects would be deleted.`;
  return (
    `${strong("The prune needs confirmation.")} ${what} After a merge they stay until the prune is confirmed with the ` +
    `annotation given in the message of ${code("Ready")}.`
  );
}

/** Says that the changes may not all be the pull request's. `why`: as it is to be shown. */
export function describeUnattributed(why: string, { strong }: Markup): string {
  return (
    `${strong("The base branch could not be compared")}, so existing drift and commits that are not deployed yet are ` +
    `counted as changes here: ${why}`
  );
}

export function describeEncrypted({ changed }: NonNullable<Preview["encrypted"]>, { code }: Markup): string {
  const note = `Previews do not decrypt encrypted values; they show placeholders such as ${code("encrypted0123456789a")}.`;
  return changed.length === 0 ? note : `${note} Encrypted values change in ${changed.map(code).join(", ")}.`;
}

function titleOf({ previews, preview }: Group, only: boolean): string {
  const what =
    preview.state === "failed"
      ? describeFailure(preview)
      : describeChanges(preview.counts) || describeNoChange(preview);
  const name = `<b>${htmlCode(nameOfPreview(preview))}</b>`;
  if (only) {
    const places = [preview.target, preview.cluster].filter(Boolean).map((place = "") => htmlCode(place));
    const drift = preview.drift > 0 ? [describeDrift(preview.drift)] : [];
    return `${[name, ...places].join(" · ")}: ${[what, ...describeLimits(preview), ...drift].join("; ")}`;
  }
  if (previews.length === 1) return `${name}: ${what}`;
  const same = preview.state === "failed" ? "the same failure" : "the same";
  return `<b>${same} in ${plural(previews.length, "deployment")}</b>: ${what}`;
}

/** Names the deployments, with their places if these differ, as far as there is room. */
function listNames(previews: readonly Preview[], room: number): string {
  const areTogether = new Set(previews.map(placeOf)).size === 1;
  const all = previews.map((preview) => {
    const place = areTogether ? "" : placeOf(preview);
    return `${code(nameOfPreview(preview))}${place && ` (${place})`}`;
  });
  let length = 0;
  const tooMany = all.findIndex((name) => (length += name.length + 2) > room);
  const names = tooMany === -1 ? all : [...all.slice(0, tooMany), `and ${grouped(all.length - tooMany)} more`];
  return `In ${names.join(", ")}`;
}

type Messages = Preview["errors"];

/** `count`: also those that were not stored. */
function messagesTitle(count: number, noun: string): string {
  return `**${plural(count, noun)}**\n`;
}

function messageLines(messages: Messages, count: number): string[] {
  const lines = messages.flatMap((message) => toLines(messageText(message)));
  return count > messages.length ? [...lines, `… and ${grouped(count - messages.length)} more`] : lines;
}

/** Names the object that a message is about. Not escaped. */
export function messageText({ ref, message, old }: Messages[number]): string {
  const name = ref && `${ref.kind} ${ref.namespace ? `${ref.namespace}/` : ""}${ref.name}`;
  const about = [name, old && "(without this merge as well)"].filter(Boolean).join(" ");
  return about === "" ? message : `${about}: ${message}`;
}

/** The room for a code fence around the lines, with any number of backticks. */
function fenceRoom(lines: readonly string[]): number {
  return fence(lines).length - lines.reduce((sum, line) => sum + line.length + 1, 0) + 2;
}
