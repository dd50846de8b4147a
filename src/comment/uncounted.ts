/**
 * Renders the changes that are not counted, one folded section each: what the merge keeps as it is in the cluster,
 * commits on the base branch that are not deployed, drift, and noise.
 */
import {
  nameOfPreview,
  countUncounted,
  type Preview,
  type Report,
  type UncountedChanges,
  type UncountedKind,
  uncountedKinds,
} from "../model/report.ts";
import { plural } from "../preview/summary.ts";
import { linesOf, renderObjects } from "./objects.ts";
import { code, htmlCode } from "./text.ts";

/** The same changes in one or several deployments. */
export interface UncountedGroup {
  readonly previews: readonly Preview[];
  readonly changes: UncountedChanges;
}

export interface Uncounted {
  readonly kind: UncountedKind;
  readonly groups: readonly UncountedGroup[];
  /** In all deployments. */
  readonly objects: number;
  readonly deployments: number;
}

/** Finds the changes to show, in order. */
export function findUncounted({ previews }: Pick<Report, "previews">): Uncounted[] {
  return uncountedKinds.flatMap((kind) => {
    const concerned = previews.filter((preview) => preview[kind] !== undefined);
    const groups = Map.groupBy(concerned, (preview) => JSON.stringify(preview[kind]));
    if (concerned.length === 0) return [];
    return [
      {
        kind,
        groups: [...groups.values()].flatMap((members) => {
          const changes = members[0]?.[kind];
          return changes === undefined ? [] : [{ previews: members, changes }];
        }),
        objects: concerned.reduce((sum, preview) => sum + countUncounted(preview[kind]), 0),
        deployments: concerned.length,
      },
    ];
  });
}

/** `On main, but not deployed yet: 3 objects in 2 deployments`. `base`: as it is to be shown. */
export function titleOfUncounted({ kind, objects, deployments }: Uncounted, base: string): string {
  const where = `${plural(objects, "object")} in ${plural(deployments, "deployment")}`;
  switch (kind) {
    case "kept":
      return `Kept as in the cluster, although ${base} changes it: ${where}`;
    case "noise":
      return `Folded as noise: ${where}`;
    case "undeployed":
      return `On ${base}, but not deployed yet: ${where}`;
    case "drifted":
      return `Existing drift, not caused by this pull request: ${where}`;
  }
}

/** `base`: as it is to be shown. */
export function explainUncounted({ kind }: Uncounted, base: string): string {
  switch (kind) {
    case "kept":
      return `A deploy of ${base} without this merge would do this. With it, the cluster stays as it is.`;
    case "noise":
      return "Labels and checksums that only follow a version, generated names that follow the content of a ConfigMap, and fields that the deployment ignores. Merging changes them too.";
    case "undeployed":
      return `A deploy of ${base} makes these changes, with or without this merge.`;
    case "drifted":
      return `These objects were changed in the cluster after they had been deployed. A deploy of ${base} reverts that, with or without this merge.`;
  }
}

/** With less room than this, only titles are shown. */
const leastRoom = 300;

/** Renders the sections that exist, in at most about `room` characters. */
export function renderUncounted(report: Report, room: number): string {
  const found = findUncounted(report);
  const blocks: string[] = [];
  let left = room;
  for (const [index, uncounted] of found.entries()) {
    const block = renderOne(uncounted, report.baseBranch, Math.floor(left / (found.length - index)));
    left -= block.length + 2;
    blocks.push(block);
  }
  return blocks.join("\n\n");
}

function renderOne(uncounted: Uncounted, baseBranch: string, room: number): string {
  const title = titleOfUncounted(uncounted, htmlCode(baseBranch));
  const start = `<details><summary>${title}</summary>\n\n${explainUncounted(uncounted, code(baseBranch))}`;
  const end = "</details>";
  let left = room - start.length - end.length - 4;
  if (left < leastRoom) return titleOfUncounted(uncounted, code(baseBranch));
  const blocks: string[] = [];
  const bySize = uncounted.groups.toSorted((a, b) => linesOf(a.changes.objects) - linesOf(b.changes.objects));
  for (const [index, group] of bySize.entries()) {
    const share = Math.floor(left / (bySize.length - index));
    const block = renderGroup(group, share);
    if (block.length + 2 > share) {
      const rest = bySize.slice(index).reduce((sum, { previews }) => sum + previews.length, 0);
      blocks.push(`… and in ${plural(rest, "more deployment")}`);
      break;
    }
    left -= block.length + 2;
    blocks.push(block);
  }
  return [start, ...blocks, end].join("\n\n");
}

const mostNames = 3;

function renderGroup({ previews, changes }: UncountedGroup, room: number): string {
  const names = previews.slice(0, mostNames).map((preview) => code(nameOfPreview(preview)));
  const more = previews.length > mostNames ? ` and ${plural(previews.length - mostNames, "more deployment")}` : "";
  const title = `In ${names.join(", ")}${more}:`;
  const { text } = renderObjects(changes.objects, {
    room: room - title.length - 2,
    leftOut: changes.objectsLeftOut,
    withNamespace: true,
  });
  return `${title}\n\n${text}`;
}
