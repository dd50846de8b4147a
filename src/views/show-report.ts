/** Prepares the report of a pull request for display, with all that was stored of it. It is masked already. Pure. */
import { explainOrigin } from "../comment/obstacle.ts";
import { describeFooter, describeNotes, describeVerdict } from "../comment/frame.ts";
import { groupPreviews, isComplete } from "../comment/groups.ts";
import { describeMissing } from "../comment/objects.ts";
import { describeEncrypted, describePruneThatWaits, describeUnattributed } from "../comment/sections.ts";
import { describeStaleness } from "../comment/staleness.ts";
import { describeDrift, describeLimits } from "../comment/table.ts";
import { describeChildNotes, explainChildren, titleOfChildren } from "../comment/children.ts";
import type { Markup } from "../comment/text.ts";
import { explainUncounted, findUncounted, titleOfUncounted } from "../comment/uncounted.ts";
import { keyText, type PullRequestKey, pullRequestText } from "../model.ts";
import {
  type ChildPreviews,
  type EarlierPreview,
  nameOfPreview,
  type Preview,
  type PreviewObject,
  type Report,
  toShown,
  type UncountedChanges,
  type UncountedKind,
  uncountedKinds,
} from "../model/report.ts";
import { type Attention, attentionOf } from "../preview/attention.ts";
import { describeChanges, describeNoChange, describePreview, plural } from "../preview/summary.ts";
import { makeVisible } from "../preview/visible-text.ts";
import type { ShownChange, ShownObject, ShownProblem } from "./show-result.ts";

/** Sentences have code in backticks. */
export interface ShownReport {
  readonly pullRequest: PullRequestKey;
  readonly name: string;
  /** At the git host; only http or https. */
  readonly url?: string | undefined;
  readonly title?: string | undefined;
  readonly author?: string | undefined;
  readonly openedAt?: number | undefined;
  readonly baseBranch: string;
  readonly head: string;
  readonly state: Report["state"];
  readonly attention: Attention;
  /** One sentence, without its full stop. */
  readonly verdict: string;
  /** Why this is not the newest, and what follows; names no deployment. Absent if it is the newest. */
  readonly staleness?: string | undefined;
  readonly notes: readonly string[];
  /** What was compared, and when. */
  readonly compared: string;
  /** Why nothing was compared, in paragraphs. */
  readonly obstacle?: readonly string[] | undefined;
  /** The most urgent first. */
  readonly previews: readonly ShownPreview[];
  /** What is shown apart from the changes that count, with titles. */
  readonly uncounted: readonly { readonly kind: UncountedKind; readonly title: string; readonly why: string }[];
  /** The deployments that the compared ones contain; absent if the merge changes none. */
  readonly children?: ShownChildren | undefined;
  /** What the report did not store. */
  readonly leftOut?: string | undefined;
  /** When the preview was started, in epoch milliseconds: it identifies the preview. */
  readonly startedAt: number;
  /** Of previous heads, newest first. */
  readonly earlier: readonly EarlierPreview[];
}

export interface ShownPreview {
  /** See `nameOfPreview`. */
  readonly deployment: string;
  /** Of Flux: then the page shows nothing else of it. */
  readonly kind?: Preview["kind"];
  /** Target and cluster. */
  readonly places: readonly string[];
  readonly state: Preview["state"];
  readonly attention: Attention;
  readonly verdict: string;
  /** What a reader has to know beside the verdict, in a few words each. */
  readonly remarks: readonly string[];
  readonly notes: readonly string[];
  readonly failure?: string | undefined;
  readonly errors: readonly ShownProblem[];
  readonly warnings: readonly ShownProblem[];
  /** Another deployment, listed before this one, in which the merge changes the same, or fails in the same way. */
  readonly sameAs?: string | undefined;
  readonly changes: ShownPreviewObjects;
  readonly uncounted: Readonly<Partial<Record<UncountedKind, ShownPreviewObjects>>>;
}

export interface ShownChildren {
  readonly title: string;
  readonly why: string;
  readonly previews: readonly ShownChild[];
  /** Those that are not rendered, with reasons. */
  readonly unshown: readonly { readonly parent: string; readonly deployment: string; readonly reason: string }[];
  readonly beyond: number;
}

export interface ShownChild extends ShownPreview {
  /** The deployment that contains it: `namespace/name`. */
  readonly parent: string;
}

export interface ShownPreviewObjects {
  readonly objects: readonly ShownPreviewObject[];
  readonly objectsLeftOut: number;
}

export interface ShownPreviewObject extends ShownObject {
  /** Why it needs attention. */
  readonly risks?: readonly string[] | undefined;
  /** Of a Secret. */
  readonly keys?: PreviewObject["secretKeys"];
  /** Lines of its diff that were not stored. */
  readonly linesLeftOut?: number | undefined;
  /** Why there is no diff. */
  readonly missing?: string | undefined;
}

export function showReport(newest: Report): ShownReport {
  const { pullRequest, url, title, author, openedAt, baseBranch, head, state, earlierPreviews } = newest;
  const report = toShown(newest);
  const { obstacle } = report;
  return {
    pullRequest,
    name: pullRequestText(pullRequest),
    // The URL comes from the git host: a link must never be a program.
    url: /^https?:\/\//i.test(url) ? url : undefined,
    ...{ title, author, openedAt, baseBranch, head, state },
    attention: attentionOf(newest),
    verdict: describeVerdict(report, sentences),
    staleness: describeStaleness(newest, sentences),
    notes: describeNotes(report, sentences),
    compared: describeFooter(report, sentences),
    obstacle: obstacle && explainObstacle(obstacle, report),
    previews: groupPreviews(report.previews).flatMap(({ previews }) =>
      previews.map((preview) => showPreview(preview, previews[0])),
    ),
    uncounted: findUncounted(report).map((uncounted) => ({
      kind: uncounted.kind,
      title: titleOfUncounted(uncounted, quoted(report.baseBranch)),
      why: explainUncounted(uncounted, quoted(report.baseBranch)),
    })),
    children: report.children && showChildren(report.children),
    leftOut: describeLeftOut([...report.previews, ...(report.children?.previews ?? []).map(({ preview }) => preview)]),
    startedAt: report.startedAt,
    earlier: earlierPreviews ?? [],
  };
}

function quoted(text: string): string {
  return `\`${oneLine(text).replaceAll("`", "'")}\``;
}

function oneLine(text: string): string {
  return makeVisible(text).replace(/\s+/g, " ").trim() || "–";
}

const sentences: Markup = { code: quoted, strong: (text) => text, sentence: (text) => text };

function explainObstacle(obstacle: NonNullable<Report["obstacle"]>, report: Report): readonly string[] {
  switch (obstacle.kind) {
    case "fork":
    case "no-branch":
      return explainOrigin(obstacle, report, sentences);
    case "conflict":
      return obstacle.paths.map((path) => `Conflict in ${quoted(path)}`);
    case "failed":
      return [oneLine(obstacle.message)];
  }
}

function showPreview(preview: Preview, first: Preview | undefined): ShownPreview {
  const { target, cluster, state, failure, errors, warnings, counts, drift } = preview;
  const { unattributed, pruneWaits, encrypted, concealed } = preview;
  const notes = [
    unattributed !== undefined && describeUnattributed(oneLine(unattributed), sentences),
    pruneWaits && describePruneThatWaits(pruneWaits, sentences),
    encrypted && describeEncrypted(encrypted, sentences),
    concealed !== undefined && `Only counts are shown: ${oneLine(concealed)}`,
  ];
  const isSame = first !== undefined && first !== preview && (state === "failed" || preview.objects.length > 0);
  const uncounted = uncountedKinds.flatMap((kind) => {
    const changes = preview[kind];
    return changes === undefined ? [] : [[kind, showChanges(changes)] as const];
  });
  return {
    deployment: nameOfPreview(preview),
    ...(preview.kind && { kind: preview.kind }),
    places: [target, cluster].flatMap((place) => (place ? [oneLine(place)] : [])),
    state,
    attention: attentionOf({ state: "done", previews: [preview] }),
    // What else there is to say is among the remarks.
    verdict: state === "done" ? describeChanges(counts) || describeNoChange(preview) : describePreview(preview),
    remarks: [...describeLimits(preview), ...(drift > 0 ? [describeDrift(drift)] : [])],
    notes: notes.filter((note) => typeof note === "string"),
    failure: state === "failed" ? makeVisible(failure ?? "The reason is unknown.") : undefined,
    errors: showMessages(errors, counts.errors),
    warnings: showMessages(warnings, counts.warnings),
    sameAs: isSame ? nameOfPreview(first) : undefined,
    changes: showChanges(preview),
    uncounted: Object.fromEntries(uncounted),
  };
}

function showChildren(children: ChildPreviews): ShownChildren {
  return {
    title: titleOfChildren(children),
    why: explainChildren,
    previews: children.previews.map((child) => ({
      ...showPreview({ ...child.preview, isolated: undefined }, undefined),
      parent: keyText(child.parent),
      remarks: [
        `${child.action} in ${keyText(child.parent)}`,
        ...describeLimits({ ...child.preview, isolated: undefined }),
      ],
      notes: describeChildNotes(child, { ...sentences, sentence: oneLine }),
    })),
    unshown: children.unshown.map(({ parent, deployment, reason }) => ({
      parent: keyText(parent),
      ...{ deployment: oneLine(deployment), reason: oneLine(reason) },
    })),
    beyond: children.beyond,
  };
}

/** `count`: also those that were not stored. */
function showMessages(messages: Preview["errors"], count: number): readonly ShownProblem[] {
  const shown = messages.map(({ ref, message, old }) => ({
    object: ref && nameOf(ref),
    message: `${old ? "(without this merge as well) " : ""}${makeVisible(message)}`,
  }));
  return count > shown.length ? [...shown, { message: `and ${count - shown.length} more` }] : shown;
}

function showChanges({ objects, objectsLeftOut }: UncountedChanges): ShownPreviewObjects {
  return { objects: objects.map(showObject), objectsLeftOut };
}

function showObject(object: PreviewObject): ShownPreviewObject {
  const { ref, action, risks, secretKeys, diff = "", linesLeftOut = 0 } = object;
  return {
    object: nameOf(ref),
    action,
    changes: splitDiff(diff),
    changesLeftOut: 0,
    ...(risks.length > 0 && { risks: risks.map(({ text }) => oneLine(text)) }),
    ...(secretKeys && { keys: secretKeys.map(({ key, change }) => ({ key: oneLine(key), change })) }),
    ...(linesLeftOut > 0 && { linesLeftOut }),
    ...(describeMissing(object) !== "" && { missing: "Its changes are too large to be stored." }),
  };
}

/** An object, as users name it. */
export function nameOf({ kind, name, namespace }: PreviewObject["ref"]): string {
  return oneLine(`${kind} ${namespace ? `${namespace}/` : ""}${name}`);
}

/** The path of a field begins with one space, unchanged lines with several: see src/preview/object-diff.ts. */
const pathLine = /^ (?=\S)/;

/** Splits a diff into the changes of its fields; without paths, it is one change of the whole object. */
function splitDiff(diff: string): ShownChange[] {
  const changes: { path: string; lines: string[] }[] = [];
  for (const line of diff.replace(/\n$/, "").split("\n")) {
    if (diff === "") break;
    const last = changes.at(-1);
    if (pathLine.test(line)) changes.push({ path: line.slice(1).replace(/:$/, ""), lines: [] });
    else if (last === undefined) changes.push({ path: "", lines: [line] });
    else last.lines.push(line);
  }
  return changes.map(({ path, lines }) => ({ path, diff: lines.join("\n") }));
}

/** Says what is not shown because the report did not store it. */
function describeLeftOut(previews: readonly Preview[]): string | undefined {
  const lists = previews.flatMap((preview): UncountedChanges[] => [
    preview,
    ...uncountedKinds.flatMap((kind) => preview[kind] ?? []),
  ]);
  const objects = lists.reduce((sum, { objectsLeftOut }) => sum + objectsLeftOut, 0);
  const cut = lists.flatMap((list) => list.objects.filter((object) => !isComplete(object)));
  const lines = cut.reduce((sum, { linesLeftOut = 0 }) => sum + linesLeftOut, 0);
  const parts = [
    objects > 0 && plural(objects, "object"),
    lines > 0 && `${plural(lines, "line")} of the diffs of ${plural(cut.length, "object")}`,
  ].filter((part) => part !== false);
  if (parts.length === 0) return undefined;
  return `Not shown, because a report has a limited size: ${parts.join(", and ")}. \`kluctl diff\` shows everything.`;
}
