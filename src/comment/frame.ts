/** The frame of the comment: the verdict, notes, and the footer that says what was compared. */
import { isOpen, nameOfPreview, type Preview, type Report } from "../model/report.ts";
import { findOrder } from "../preview/order.ts";
import {
  areIsolated,
  describeChangedObjects,
  describeChanges,
  describeNoEffect,
  describeProblems,
  type Effect,
  effectOf,
  grouped,
  plural,
  totalsOf,
} from "../preview/summary.ts";
import { commandToAllow } from "./obstacle.ts";
import { markdown, type Markup, prose } from "./text.ts";
import { utcText } from "../kit/utc-text.ts";

/** Once the base has moved this often, a note says so. */
const manyRestarts = 3;

export function renderVerdict(report: Report): string {
  return `### Towline: ${describeVerdict(report, markdown)}`;
}

/** Describes the result in one line. */
export function describeVerdict(report: Report, markup: Markup): string {
  const base = markup.code(report.baseBranch);
  if (report.state === "merged") return `merged into ${base}`;
  if (report.state === "closed") return "closed without merging";
  switch (report.obstacle?.kind) {
    case "fork":
      return `not rendered, because it ${report.obstacle.agit ? "was pushed without a branch" : "comes from a fork"}`;
    case "no-branch":
      return "not rendered, because no branch points at its head";
    case "conflict":
      return `cannot be merged into ${base}`;
    case "failed":
      return `could not try to merge into ${base}`;
    case undefined:
      return describeMerge(report, markup);
  }
}

function describeMerge({ state, previews, baseBranch, unshown = [] }: Report, { code, strong }: Markup): string {
  const totals = totalsOf(previews);
  const { deployments, working } = totals;
  if (deployments === 0) {
    if (state === "working") return "checking what merging would change …";
    return unshown.length > 0 ? "no deployment can be compared" : "merging affects no deployment";
  }
  if (state === "working" || working > 0) {
    const live = areIsolated(previews) ? code(baseBranch) : "the live cluster";
    return `comparing ${plural(deployments, "deployment")} with ${live} …`;
  }
  const problems = describeProblems(previews);
  const { failing, others, unknown } = problems;
  const effect = effectOf(previews);
  const merging = failing === "" ? "merging" : "it";
  const parts = [
    failing && `merging ${strong("would fail")}: ${failing}`,
    others,
    unknown,
    effect
      ? `${merging} ${describeEffect(effect, failing !== "", strong)}`
      : problems.deployments === 0 && `merging ${describeNoEffect(previews)}`,
  ];
  return parts.filter(Boolean).join("; ");
}

/** Deletions come first, so that they cannot be overlooked. */
function describeEffect(effect: Effect, fails: boolean, strong: Markup["strong"]): string {
  const { where, changed, deleting, changes } = effect;
  const isUncertain = effect.suspended || fails;
  const change = isUncertain ? "would change" : "changes";
  if (changes.deleted === 0) return `${change} ${where}: ${describeChangedObjects(changes)}`;
  const rest = describeChanges({ ...changes, deleted: 0 });
  const deletes = strong(`${isUncertain ? "would delete" : "deletes"} ${plural(changes.deleted, "object")}`);
  if (deleting === changed) return `${deletes} in ${where}${rest && ` · ${rest}`}`;
  return `${deletes} in ${plural(deleting, "deployment")}, and ${change} ${where}${rest && `: ${rest}`}`;
}

export function renderNotes(report: Report): string[] {
  return describeNotes(report, { ...markdown, sentence: prose });
}

/** Returns the notes below the verdict. */
export function describeNotes(report: Report, markup: Markup): string[] {
  const { code } = markup;
  const { state, restarts, base, previews, obstacle, rollout } = report;
  const notes: string[] = [];
  if (isOpen(report) && previews.some(({ isolated }) => isolated)) notes.push(describeIsolation(report, markup));
  if (state === "merged" && previews.length > 0 && rollout === undefined) notes.push(describeFollowers(previews));
  if (state === "closed") notes.push("Its changes are not deployed.");
  const done = previews.filter((preview) => preview.state !== "working").length;
  if (state === "working" && done > 0) notes.push(`${grouped(done)} of ${plural(previews.length, "deployment")} done.`);
  if (state === "done" && obstacle === undefined) notes.push(...describeSuspended(previews));
  if (state === "done" && obstacle === undefined) notes.push(...describeConsumers(report, markup));
  if (isOpen(report) && obstacle === undefined) notes.push(...describeOrder(previews, code));
  if (isOpen(report) && restarts >= manyRestarts && obstacle === undefined) {
    const since = base === undefined ? "" : ` since ${code(shortHash(base))}`;
    notes.push(`${code(report.baseBranch)} changes faster than it can be compared, and has changed again${since}.`);
  }
  return notes;
}

/** Written for authors who do not know the cluster. */
function describeIsolation(report: Report, { code, strong }: Markup): string {
  const some = areIsolated(report.previews) ? "This is" : "Some deployments are";
  return (
    `${strong(`${some} rendered without the cluster`)}, because the pull request does not come from a branch of this repository: the preview ` +
    `compares the rendered objects before and after the merge, not with the live cluster. To compare it with the cluster, ` +
    `ask a user who may change the KluctlDeployments to review this commit and run ${code(commandToAllow(report))}`
  );
}

function describeFollowers(previews: readonly Preview[]): string {
  const suspended = previews.filter((preview) => preview.suspended).length;
  if (suspended === previews.length) return "All affected deployments are suspended: nothing is deployed.";
  const but =
    suspended > 0 ? `, except for ${grouped(suspended)} that ${suspended === 1 ? "is" : "are"} suspended` : "";
  return `Affected deployments are updated automatically${but}.`;
}

/** The deployments that do not follow the repository, but include it. */
function describeConsumers({ previews, unshown = [], beyond = 0 }: Report, { code, sentence }: Markup): string[] {
  const shown = previews.filter(({ includes }) => includes).length;
  const ofFlux = previews.some(({ kind }) => kind !== undefined);
  const [include, are, they] = shown === 1 ? ["includes", "It is", "it"] : ["include", "They are", "they"];
  return [
    shown > 0 &&
      `${plural(shown, "deployment")} ${include} this repository. ${are} rendered at the commit that ${they} ${shown === 1 ? "follows" : "follow"}, with the merge in place of what ${they} ${include}.`,
    ...unshown.map(({ deployment, reason }) => `${code(deployment)} is not compared: ${sentence(reason)}.`),
    beyond > 0 &&
      (ofFlux
        ? `${plural(beyond, "more deployment")} ${beyond === 1 ? "is" : "are"} not compared.`
        : `${plural(beyond, "more deployment")} that ${beyond === 1 ? "includes it is" : "include it are"} not compared.`),
  ].filter((note) => note !== false);
}

/** Says above the table if a merge deploys nothing, or not everything. */
function describeSuspended(previews: readonly Preview[]): string[] {
  if (totalsOf(previews).working > 0) return [];
  const effect = effectOf(previews);
  if (effect?.suspended) return ["Merging deploys nothing until the suspended deployments are resumed."];
  if (effect?.others === undefined) return [];
  const { changed, changes } = effect.others;
  const what = describeChangedObjects({ ...changes, errors: 0 });
  return [`${plural(changed, "suspended deployment")} would change too (${what}): merging deploys nothing there.`];
}

/** Longer lists would hide the verdict. */
const [mostSteps, mostNames] = [6, 3];

function describeOrder(previews: readonly Preview[], code: Markup["code"]): string[] {
  const steps = findOrder(previews);
  if (steps.length < 2) return [];
  const named = steps.slice(0, mostSteps).map((step) => {
    const names = step.slice(0, mostNames).map((preview) => code(nameOfPreview(preview)));
    return [...names, ...(step.length > mostNames ? [`${grouped(step.length - mostNames)} more`] : [])].join(", ");
  });
  const more = steps.length > mostSteps ? ` → ${plural(steps.length - mostSteps, "more step")}` : "";
  return [`Deployed in this order, because of their dependencies: ${named.join(" → ")}${more}.`];
}

/** `pageUrl`: the address of the page that shows the full diff. */
export function renderFooter(report: Report, pageUrl?: string): string {
  const parts = [describeFooter(report, markdown), ...(pageUrl === undefined ? [] : [linkTo(pageUrl, "full diff")])];
  return `<sub>${parts.join(" · ")}</sub>`;
}

/** Inside of HTML, some hosts do not interpret Markdown's links. */
export function linkTo(url: string, text: string): string {
  return `<a href="${url}">${text}</a>`;
}

/** Describes what was compared, and when. */
export function describeFooter(report: Report, { code }: Markup): string {
  const { head, base, baseBranch, finishedAt, startedAt, obstacle } = report;
  const at = base === undefined ? "" : ` at ${code(shortHash(base))}`;
  const compared = base !== undefined && obstacle === undefined;
  const parts = [
    compared
      ? `Merge of ${code(shortHash(head))} into ${code(baseBranch)}${at}${describeComparison(report, code)}`
      : `Head ${code(shortHash(head))}, base ${code(baseBranch)}${at}`,
    finishedAt === undefined ? `since ${time(startedAt)}` : time(finishedAt),
    finishedAt !== undefined && compared && `took ${duration(finishedAt - startedAt)}`,
  ];
  return parts.filter((part) => part !== false).join(" · ");
}

/** Says nothing if nothing was compared: the footer is what readers go by. */
function describeComparison({ previews, baseBranch }: Report, code: Markup["code"]): string {
  const compared = previews.filter(({ state }) => state === "done");
  if (compared.length === 0) return "";
  return areIsolated(compared)
    ? `, compared with ${code(baseBranch)}, without the cluster`
    : ", compared with the live cluster";
}

export function shortHash(commit: string): string {
  return /^[\da-f]{40,64}$/.test(commit) ? commit.slice(0, 7) : commit;
}

export function time(ms: number): string {
  return Number.isNaN(new Date(ms).getTime()) ? "at an unknown time" : utcText(ms, "seconds");
}

function duration(ms: number): string {
  const seconds = Math.max(0, ms) / 1_000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}
