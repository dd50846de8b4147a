/**
 * Renders what deploying child deployments would change, which are KluctlDeployments in the project of another
 * deployment, in one folded section: it is rendered without the cluster, and not counted anywhere else.
 */
import { keyText } from "../model.ts";
import type { ChildPreview, ChildPreviews, Report } from "../model/report.ts";
import {
  describeChanges,
  describeFailure,
  describeNoChange,
  describeState,
  grouped,
  plural,
} from "../preview/summary.ts";
import { cutLines } from "./lines.ts";
import { linesOf, renderObjects } from "./objects.ts";
import { describeEncrypted } from "./sections.ts";
import { code, fence, markdown, type Markup, prose, toLines } from "./text.ts";

/** `Child deployments, rendered without the cluster: 1 new, 1 deleted (would delete 5 objects)` */
export function titleOfChildren({ previews, unshown, beyond }: ChildPreviews): string {
  const count = (action: ChildPreview["action"]) => previews.filter((child) => child.action === action).length;
  const counts: [count: number, what: string][] = [
    [count("new"), "new"],
    [count("changed"), "changed"],
    [count("deleted"), "deleted"],
    [unshown.length + beyond, "not rendered"],
  ];
  const parts = counts.filter(([number]) => number > 0).map(([number, what]) => `${grouped(number)} ${what}`);
  const deleted = previews.reduce((sum, { preview }) => sum + preview.counts.deleted, 0);
  const lost = deleted > 0 ? ` (would delete ${plural(deleted, "object")})` : "";
  const how = previews.length > 0 ? ", rendered without the cluster" : "";
  return `Child deployments${how}: ${parts.join(", ")}${lost}`;
}

const whatChildrenChange =
  "This merge changes KluctlDeployments. This section shows what they would change in turn: their files are rendered without " +
  "the merge and with it, and are not compared with live objects. None of this is counted above. ";

export const explainChildren = `${whatChildrenChange}There is no access to the cluster, to credentials and to decryption keys.`;

/** For `towline preview`, which renders the user's own files. */
export const explainChildrenHere = `${whatChildrenChange}They are rendered on this machine, with its environment and network, and without the cluster.`;

/** `in shop/root: 2 changed; suspended`, to follow the name. */
export function describeChild({ parent, preview }: ChildPreview, { code }: Pick<Markup, "code">): string {
  return `in ${code(keyText(parent))}: ${describeResult(preview)}`;
}

function describeResult(preview: ChildPreview["preview"]): string {
  const { state, counts } = preview;
  if (state === "working") return "not rendered yet";
  if (state === "failed") return describeFailure(preview);
  // The title says that all of them are rendered without the cluster.
  const limits = describeState({ ...preview, isolated: undefined });
  return [describeChanges(counts) || describeNoChange(preview), ...limits].join("; ");
}

/** What a reader has to know about the result of a child, a sentence or two each. */
export function describeChildNotes({ onlySpec, unread, children, preview }: ChildPreview, markup: Markup): string[] {
  const { encrypted, concealed } = preview;
  const notes = [
    onlySpec && "This is only the effect of its changed spec: it has its own preview, with the changes of its files.",
    unread.length > 0 &&
      `${unread.map(markup.code).join(", ")}: nothing that ${unread.length === 1 ? "this field names" : "these fields name"} was read.`,
    children !== undefined && `It changes ${plural(children, "KluctlDeployment")} in turn, which are not rendered.`,
    encrypted && describeEncrypted(encrypted, markup),
    concealed !== undefined && `Only counts are shown: ${markup.sentence(concealed)}`,
  ];
  return notes.filter((note) => typeof note === "string");
}

/** Says which children are not rendered, and why, one line each. `because`: renders a reason. */
export function describeUnshownChildren(
  { unshown, beyond }: ChildPreviews,
  { code }: Pick<Markup, "code">,
  because: (reason: string) => string,
): string[] {
  return [
    ...unshown.map(({ deployment, reason }) => `${code(deployment)}: ${because(reason)}.`),
    ...(beyond > 0 ? [`${plural(beyond, "more deployment")} ${beyond === 1 ? "is" : "are"} not shown.`] : []),
  ];
}

/** With less room than this, only the title is shown. */
const leastRoom = 600;
const longestFailure = 20;

/** Renders the section in at most about `room` characters; `""` if there is nothing to show. */
export function renderChildren({ children }: Pick<Report, "children">, room: number): string {
  if (children === undefined) return "";
  const title = titleOfChildren(children);
  const lines = describeUnshownChildren(children, { code }, prose).map((line) => `- ${line}`);
  const start = `<details><summary>${title}</summary>\n\n${explainChildren}`;
  const end = "</details>";
  let left = room - start.length - end.length - lines.join("\n").length - 6;
  if (left < leastRoom) return `${title}.`;
  const bySize = children.previews.toSorted((a, b) => linesOf(a.preview.objects) - linesOf(b.preview.objects));
  const blocks = new Map<ChildPreview, string>();
  for (const [index, child] of bySize.entries()) {
    const block = renderChild(child, Math.floor(left / (bySize.length - index)));
    left -= block.length + 2;
    blocks.set(child, block);
  }
  const inOrder = children.previews.flatMap((child) => blocks.get(child) ?? []);
  return [start, ...inOrder, lines.join("\n"), end].filter(Boolean).join("\n\n");
}

function renderChild(child: ChildPreview, room: number): string {
  const { action, preview } = child;
  const title = `**${action}** ${code(keyText(preview.deployment))} ${describeChild(child, markdown)}`;
  const blocks = [title, ...describeChildNotes(child, { ...markdown, sentence: prose })];
  const left = room - blocks.join("\n\n").length - 4;
  if (preview.state === "failed") {
    const lines = toLines(preview.failure ?? "The reason is unknown.").slice(0, longestFailure);
    return [...blocks, fence(cutLines(lines, left - 20).lines)].join("\n\n");
  }
  const { objects, objectsLeftOut } = preview;
  if (objects.length + objectsLeftOut === 0) return blocks.join("\n\n");
  const { text } = renderObjects(objects, { room: left, leftOut: objectsLeftOut, withNamespace: true });
  return [...blocks, text].join("\n\n");
}
