/**
 * The dangers of a merge, shown first: losses, changes that the API server rejects, those that cost availability or
 * security, and far-reaching ones.
 */
import { nameOfPreview, type PreviewObject, type Risk } from "../model/report.ts";
import { grouped, plural } from "../preview/summary.ts";
import type { Group } from "./groups.ts";
import { objectName } from "./objects.ts";
import { markdown, type Markup, prose } from "./text.ts";

const mostNames = 12;
const mostLines = 24;
/** For each object; there are hardly more. */
const mostReasons = 10;

interface Danger {
  readonly title: string;
  applies(object: PreviewObject): boolean;
  readonly risk: Risk["kind"];
}

const has = (object: PreviewObject, kind: Risk["kind"]) => object.risks.some((risk) => risk.kind === kind);

const dangers: readonly Danger[] = [
  { title: "Deleted", applies: ({ action }) => action === "deleted", risk: "deletion" },
  {
    title: "Lost",
    applies: (object) => object.action !== "deleted" && has(object, "deletion"),
    risk: "deletion",
  },
  { title: "Immutable", applies: (object) => has(object, "immutable"), risk: "immutable" },
  { title: "Availability", applies: (object) => has(object, "availability"), risk: "availability" },
  { title: "Security", applies: (object) => has(object, "security"), risk: "security" },
  { title: "Far-reaching", applies: (object) => has(object, "far-reaching"), risk: "far-reaching" },
];

export interface Endangered {
  readonly danger: Danger;
  readonly group: Group;
  readonly objects: readonly PreviewObject[];
}

/** Returns the objects of each kind of danger and group, the worst kind first. */
export function findDangers(groups: readonly Group[]): Endangered[] {
  return dangers.flatMap((danger) =>
    groups
      .map((group) => ({ danger, group, objects: group.preview.objects.filter((object) => danger.applies(object)) }))
      .filter(({ objects }) => objects.length > 0),
  );
}

/** Why it is a danger; `""` if that is not known. `show` renders a sentence. */
export function reasonsOf({ risks }: PreviewObject, { risk }: Danger, show: (text: string) => string): string {
  const reasons = risks.filter(({ kind }) => kind === risk);
  const shown = reasons.slice(0, mostReasons).map(({ text }) => show(text));
  if (reasons.length > shown.length) shown.push(`and ${plural(reasons.length - shown.length, "more reason")}`);
  return shown.join("; ");
}

/** Renders a list with one line for each kind of danger and group, in at most `room` characters; `""` if there are none. */
export function renderDangers(groups: readonly Group[], deployments: number, room: number): string {
  const lines: string[] = [];
  let used = 0;
  let leftOut = 0;
  for (const { danger, group, objects } of findDangers(groups)) {
    const line = `- **${danger.title}**${scopeOf(group, deployments, markdown)}: ${nameAll(objects, danger, group.sameNamespaces)}`;
    if (lines.length >= mostLines || used + line.length > room) {
      leftOut += objects.length * group.previews.length;
      continue;
    }
    lines.push(line);
    used += line.length + 1;
  }
  if (leftOut > 0) lines.push(`- … and ${plural(leftOut, "more object")} of these kinds`);
  return lines.join("\n");
}

/** ` in shop/prod and 13 more`; `""` if there is only one deployment. */
export function scopeOf({ previews, preview }: Group, deployments: number, { code }: Markup): string {
  if (deployments === 1) return "";
  const more = previews.length > 1 ? ` and ${grouped(previews.length - 1)} more` : "";
  return ` in ${code(nameOfPreview(preview))}${more}`;
}

function nameAll(objects: readonly PreviewObject[], danger: Danger, withNamespace: boolean): string {
  const names = objects.slice(0, mostNames).map((object) => {
    const why = reasonsOf(object, danger, prose);
    const name = objectName(object, withNamespace);
    return why === "" ? name : `${name} (${why})`;
  });
  if (objects.length > names.length) names.push(`and ${plural(objects.length - names.length, "more object")}`);
  return names.join(", ");
}
