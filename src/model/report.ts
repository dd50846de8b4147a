/**
 * The result of a pull request's preview, as shown to users: redacted when it is created, so that it may be stored,
 * sent and shown. A schema, because it is read back from Redis.
 */
import { z } from "zod";
import { keyText, type RepoId } from "../model.ts";
import { ObjectRefSchema } from "./object-ref-schema.ts";

const count = z.int().nonnegative();
const kubernetesName = z.string().max(253);

/**
 * The kinds of risks, the most urgent first. `deletion`: something is lost. `immutable`: the API server will reject it.
 * `availability`: it may serve worse, or stop. `security`: it gives more rights. `far-reaching`: changes of this kind
 * affect more than the object itself (CRD, Namespace, RBAC, webhooks of the API server …).
 */
export const riskKinds = ["deletion", "immutable", "availability", "security", "far-reaching"] as const;

/** Why a change needs attention. */
const Risk = z.object({
  /** During an update, a newer server may have written a kind that this one does not know: its text is shown anyway. */
  kind: z.enum(riskKinds).catch("far-reaching"),
  /** One plain sentence or part of one, for display. */
  text: z.string(),
});

const SecretKey = z.object({
  key: z.string(),
  change: z.enum(["added", "removed", "changed", "unchanged"]),
});

const PreviewObject = z.object({
  ref: ObjectRefSchema,
  /** `orphan`: no longer in the project, but kept in the cluster because the deployment does not prune. */
  action: z.enum(["new", "changed", "deleted", "orphan"]),
  risks: z.array(Risk),
  /** Lines starting with `+`, `-` or a space; the path of a field precedes its changes. */
  diff: z.string().optional(),
  /** The number of omitted lines. */
  linesLeftOut: count.optional(),
  /** Its diff is missing or has cut lines, so that it cannot be compared with others. */
  partial: z.literal(true).optional(),
  /** For a Secret: its keys instead of its values. */
  secretKeys: z.array(SecretKey).optional(),
});

/** `old`: the base branch has the same error. */
const Message = z.object({ ref: ObjectRefSchema.optional(), message: z.string(), old: z.literal(true).optional() });

/** Changes that are shown apart from those that count. */
const UncountedChanges = z.object({ objects: z.array(PreviewObject), objectsLeftOut: count });

const Key = z.object({ namespace: kubernetesName, name: kubernetesName });

const Preview = z.object({
  /** The resource of Flux that it is; absent for a KluctlDeployment. */
  kind: z.enum(["Kustomization", "HelmRelease"]).optional(),
  deployment: Key,
  target: z.string().optional(),
  cluster: z.string(),
  /** `working`: not known yet. `done`: compared. `failed`: not compared, `failure` says why. */
  state: z.enum(["working", "done", "failed"]),
  /** The deployments that have to be ready before it is deployed. */
  dependsOn: z.array(Key).optional(),
  /** A merge deploys nothing until the deployment is resumed. */
  suspended: z.boolean(),
  /** For a deployment with manual approval: whether changes are already waiting, or will be after the merge. */
  approval: z.enum(["pending", "after-merge"]).optional(),
  /** The merge would delete so much that the prune needs confirmation; `empty`: nothing would be left. */
  pruneWaits: z.object({ doomed: count, deployed: count, empty: z.boolean() }).optional(),
  counts: z.object({
    new: count,
    changed: count,
    deleted: count,
    orphan: count,
    errors: count,
    warnings: count,
  }),
  /**
   * The number of objects that already differ from what was deployed; as long as the preview has not found them itself,
   * according to the deployment's status.
   */
  drift: count,
  /** The objects that the pull request would change, the most important ones first. */
  objects: z.array(PreviewObject),
  /** The number of such objects that are not shown. */
  objectsLeftOut: count,
  errors: z.array(Message),
  warnings: z.array(Message),
  /** Changes of live objects since they were deployed, which the next deploy undoes. Not counted. */
  drifted: UncountedChanges.optional(),
  /** Changes on the base branch that are not deployed. Not counted. */
  undeployed: UncountedChanges.optional(),
  /** Changes on the base branch that the merge takes back before they are deployed. Not counted. */
  kept: UncountedChanges.optional(),
  /** Changes of the pull request that nobody wants to read, such as version labels. Not counted. */
  noise: UncountedChanges.optional(),
  /** Why changes that are not the pull request's may be counted: the base could not be compared. */
  unattributed: z.string().optional(),
  /** Rendered without the cluster and compared with the base rendered in the same way: nothing in it is live state. */
  isolated: z.literal(true).optional(),
  /** It does not follow the repository, but includes it. */
  includes: z.literal(true).optional(),
  /** What it reads is not known, and the merge changes nothing of what it is known to read. */
  unsure: z.literal(true).optional(),
  /**
   * Encrypted values are replaced by placeholders. `files`: the number of the project's files with encrypted values;
   * `changed`: those in which such values changed.
   */
  encrypted: z.object({ files: count, changed: z.array(z.string()) }).optional(),
  /** The message of kluctl, with its file and line, or of git. */
  failure: z.string().optional(),
  /** Where in the repository the error is, if that is certain: the path from its root, and the line. */
  at: z.object({ path: z.string(), line: z.int().positive() }).optional(),
  /** `render`: the merge cannot be rendered. `run`: something else failed, and the change is not to blame. */
  failed: z.enum(["render", "run"]).optional(),
  /** For a HelmRelease: nothing of what Flux upgrades a release for changes. */
  noUpgrade: z.literal(true).optional(),
  /** Why only counts are shown: values could not be distinguished from secrets. */
  concealed: z.string().optional(),
});

/** What a deploy of a KluctlDeployment would do that another deployment contains. Rendered without the cluster. */
const ChildPreview = z.object({
  /** The deployment that contains it. */
  parent: Key,
  /** What the merge does to the KluctlDeployment itself. */
  action: z.enum(["new", "changed", "deleted"]),
  /** Its own preview has the changes of its files: this one only has the effect of its changed spec. */
  onlySpec: z.literal(true).optional(),
  /** The fields of its spec that name other objects, which were not read. */
  unread: z.array(z.string()),
  /** How many KluctlDeployments its own project changes: these are not rendered. */
  children: count.optional(),
  preview: Preview,
});

/** The KluctlDeployments that the merge adds, changes or deletes in other deployments. Counted nowhere. */
const ChildPreviews = z.object({
  previews: z.array(ChildPreview),
  /** Those that are not rendered, with reasons. */
  unshown: z.array(z.object({ parent: Key, deployment: z.string(), reason: z.string() })),
  /** How many more there are. */
  beyond: count,
});

const Obstacle = z.discriminatedUnion("kind", [
  z.object({
    kind: z.literal("fork"),
    agit: z.boolean().optional(),
    /** Why it is not even rendered without the cluster, although the server is configured to do so for forks. */
    why: z.string().optional(),
  }),
  z.object({ kind: z.literal("no-branch") }),
  z.object({ kind: z.literal("conflict"), paths: z.array(z.string()) }),
  z.object({ kind: z.literal("failed"), message: z.string() }),
]);

/** What became of a merge in one deployment; the name is empty for all together. */
const RolloutLine = z.object({
  deployment: z.string(),
  /** It does not follow the repository, but includes it. */
  includes: z.literal(true).optional(),
  /** It was deployed at some time: what happens later is not the merge's doing. */
  succeeded: z.boolean().optional(),
  /** Epoch milliseconds; absent while it does not fail. */
  failingSince: z.number().optional(),
  /** Oldest first. `at`: epoch milliseconds. */
  steps: z.array(
    z.object({ state: z.enum(["pending", "success", "failure", "canceled"]), text: z.string(), at: z.number() }),
  ),
});

/** Of a rollout of many deployments: those that failed or wait and have no status of their own, failures first. */
export const RolloutRest = z.object({
  lines: z.array(z.object({ deployment: z.string(), state: z.enum(["pending", "failure"]), text: z.string() })),
  /** How many more there are. */
  more: count,
});

const unshown = z.array(z.object({ deployment: z.string(), reason: z.string() }));

/** What the last comparison found. */
const LatestResult = z.object({
  baseBranch: z.string(),
  head: z.string(),
  base: z.string().optional(),
  previews: z.array(Preview),
  unshown: unshown.optional(),
  beyond: count.optional(),
  children: ChildPreviews.optional(),
  startedAt: z.number(),
  finishedAt: z.number().optional(),
  /** Why it is made again. */
  why: z.enum(["pull-request", "base", "library", "cluster", "sweep"]).optional().catch(undefined),
});

export const Report = z.object({
  v: z.literal(1),
  pullRequest: z.object({ forge: z.string(), repoName: z.string(), number: z.int().positive() }),
  /** The pull request's page. */
  url: z.string(),
  title: z.string().optional(),
  /** The author's login. */
  author: z.string().optional(),
  /** When it was opened, in epoch milliseconds. */
  openedAt: z.number().optional(),
  /** Identity of the base repository; absent if no deployment follows it. */
  repo: z
    .string()
    .transform((text) => text as RepoId)
    .optional(),
  baseBranch: z.string(),
  head: z.string(),
  /** The base branch's commit that the head was merged with; absent if nothing had to be read. */
  base: z.string().optional(),
  /** The pull request's state; `working` while previews of an open one run. */
  state: z.enum(["working", "done", "closed", "merged"]),
  /** Why nothing was compared. */
  obstacle: Obstacle.optional(),
  /** Something failed that a retry may fix. */
  mendable: z.boolean().optional(),
  /** One for each affected deployment. */
  previews: z.array(Preview),
  /** Deployments that include the repository and are not previewed, with reasons. */
  unshown: unshown.optional(),
  /** How many more deployments include it than are previewed. */
  beyond: count.optional(),
  /** Absent if the merge changes no KluctlDeployment. */
  children: ChildPreviews.optional(),
  /** Previous heads whose statuses may still be pending; newest first. */
  earlierHeads: z.array(z.string()),
  /** What the previews of previous heads found, newest first. `at`: epoch milliseconds. */
  earlierPreviews: z.array(z.object({ head: z.string(), verdict: z.string(), at: z.number() })).optional(),
  /** While it is previewed again: what was found last, which is shown until then. */
  latest: LatestResult.optional(),
  /** How many times in a row the preview was restarted because the base moved before it could be shown. */
  restarts: count,
  /**
   * The base branch or the cluster has changed since the comparison, and the next one is to follow then, in epoch
   * milliseconds. Not stored with the report: see Reports.
   */
  staleUntil: z.number().optional(),
  /**
   * What the pull request is by now, while its next preview waits for those of others. Not stored with the report: see
   * Reports, and reporting/waiting.ts.
   */
  waiting: z.object({ head: z.string(), baseBranch: z.string() }).optional(),
  /** Epoch milliseconds. */
  startedAt: z.number(),
  finishedAt: z.number().optional(),
  /** Of a merged pull request: the commit of the base branch that contains it, and what became of it. */
  mergeCommit: z.string().optional(),
  rollout: z.array(RolloutLine).optional(),
  rolloutRest: RolloutRest.optional(),
  /**
   * The comment and the statuses of a merged pull request show all of this; and what the host said of it then, so that it
   * need not be asked again to find that nothing is new. `mergedAt`: epoch milliseconds.
   */
  written: z.object({ repoUrls: z.array(z.string()), mergedAt: z.number() }).optional(),
  /** The author was told that the rollout failed. */
  failureTold: z.boolean().optional(),
});

export type Report = z.infer<typeof Report>;

/** What is not deployed this long after the merge is no longer followed. */
export const followedForMs = 14 * 24 * 3_600_000;

/** In epoch milliseconds. */
export interface Staleness {
  /** That of the report. */
  readonly startedAt: number;
  /** When the preview that waits for its budget follows; absent if none does. */
  readonly until?: number | undefined;
  /** The job that says so in the comment has been queued. */
  readonly reported?: boolean | undefined;
  /** The pull request has changed, and the comment says that its preview waits for those of others. */
  readonly waiting?: Report["waiting"];
}

export type LatestResult = z.infer<typeof LatestResult>;
export type EarlierPreview = NonNullable<Report["earlierPreviews"]>[number];
export type Preview = z.infer<typeof Preview>;
export type ChildPreview = z.infer<typeof ChildPreview>;
export type ChildPreviews = z.infer<typeof ChildPreviews>;
export type PreviewObject = z.infer<typeof PreviewObject>;
export type RolloutLine = z.infer<typeof RolloutLine>;
export type RolloutRest = z.infer<typeof RolloutRest>;
export type Risk = z.infer<typeof Risk>;
export type UncountedChanges = z.infer<typeof UncountedChanges>;

/** What the deployment is called: `shop/prod`, or `Kustomization shop/prod`. No two previews of a report have the same name. */
export function nameOfPreview({ kind, deployment }: Pick<Preview, "kind" | "deployment">): string {
  return kind === undefined ? keyText(deployment) : `${kind} ${keyText(deployment)}`;
}

/** What the record of a rollout calls it: as the names of statuses do. */
export function rolloutNameOf({ kind, deployment }: Pick<Preview, "kind" | "deployment">): string {
  return kind === undefined ? keyText(deployment) : `${kind.toLowerCase()}/${keyText(deployment)}`;
}

/** The lists of changes that are not counted, in the order in which they are shown. */
export const uncountedKinds = ["kept", "noise", "undeployed", "drifted"] as const;
export type UncountedKind = (typeof uncountedKinds)[number];

/** Applies a function to each of these lists that exists. */
export function mapUncounted(
  lists: Pick<Preview, UncountedKind>,
  map: (changes: UncountedChanges) => UncountedChanges,
): Pick<Preview, UncountedKind> {
  const mapped = uncountedKinds.flatMap((kind) => {
    const changes = lists[kind];
    return changes === undefined ? [] : [[kind, map(changes)] as const];
  });
  return Object.fromEntries(mapped);
}

/** The number of objects with such changes. */
export function countUncounted(changes: UncountedChanges | undefined): number {
  return changes === undefined ? 0 : changes.objects.length + changes.objectsLeftOut;
}

/** The object without its diff, of which only the number of lines is kept. */
export function withoutDiff({ diff, ...object }: PreviewObject): PreviewObject {
  if (diff === undefined) return object;
  const lines = diff.replace(/\n$/, "").split("\n").length;
  return { ...object, linesLeftOut: (object.linesLeftOut ?? 0) + lines, partial: true };
}

/** Whether it was not rendered because of its origin, which says nothing about the proposed change. */
export function isForeign({ obstacle }: Pick<Report, "obstacle">): boolean {
  return obstacle?.kind === "fork" || obstacle?.kind === "no-branch";
}

/** The report, marked if it is the outdated one. */
export function markStale(report: Report, stale: Staleness | undefined): Report {
  // No other preview follows once the pull request is closed, and nobody removes the mark then.
  if (stale?.startedAt !== report.startedAt || !isOpen(report)) return report;
  if (stale.waiting !== undefined) return { ...toShown(report), waiting: stale.waiting };
  return report.state === "done" && stale.until !== undefined ? { ...report, staleUntil: stale.until } : report;
}

/** What is shown of the report: while the pull request is previewed again, what was found last. */
export function toShown(report: Report): Report {
  const { latest, state } = report;
  if (state !== "working" || latest === undefined) return report;
  const { why: _why, ...found } = latest;
  return { ...report, ...found, state: "done", latest: undefined };
}

/** Whether a preview that replaces this report is queued, and waits for its time. */
export function isPostponed(stale: Staleness | undefined, startedAt: number, now: number): boolean {
  return stale?.startedAt === startedAt && stale.until !== undefined && stale.until > now;
}

/**
 * Whether the pull request was open when this report was written; the report of a closed one keeps its last results.
 */
export function isOpen<R extends Pick<Report, "state">>(report: R): report is R & { state: "working" | "done" } {
  return report.state === "working" || report.state === "done";
}

/**
 * The deployments in which the rollout of the pull request's own changes has failed since then, and never succeeded. What
 * only includes the repository, or may not read what it changes, and failed without the merge too is not among them.
 */
export function failedIn(
  { rollout = [], previews }: Pick<Report, "rollout" | "previews">,
  since: number,
): RolloutLine[] {
  const failedBefore = ({ includes, unsure, failed, errors }: Preview) =>
    (includes || unsure) && (failed === "run" || errors.some(({ old }) => old));
  const own = new Set(previews.filter((one) => !failedBefore(one)).map(rolloutNameOf));
  return rollout.filter(
    ({ deployment, succeeded, failingSince = Infinity }) => own.has(deployment) && !succeeded && failingSince <= since,
  );
}
