/**
 * Decides which children of the affected deployments are rendered, at which commits, and why the others are not. A child is
 * a KluctlDeployment among the objects of another deployment. Pure.
 */
import { isDeepStrictEqual } from "node:util";
import { compareText } from "../../kit/compare-text.ts";
import { parseJson } from "../../kit/json.ts";
import { isNamespaceName, isObjectName } from "../../kit/kubernetes-names.ts";
import {
  annotation,
  type AnyDeployment,
  type Deployment,
  followsGit,
  type GitDeployment,
  type Heads,
  isMalformed,
  isSwitchedOff,
  type Key,
  keyText,
  type RepoId,
} from "../../model.ts";
import { commitOf, describeRef, refName } from "../../model/git-ref.ts";
import type { ChildPreview, ChildPreviews } from "../../model/report.ts";
import type { ChangedChildren, ChildChange } from "./find-changes.ts";

/** Rendered for one pull request. */
const mostChildren = 10;
/** Each has a line of its own. */
const mostReasons = 10;

export interface PlannedChild extends Pick<ChildPreview, "action" | "onlySpec" | "unread"> {
  readonly key: Key;
  /** Absent for a new one. */
  readonly before?: Side | undefined;
  /** Absent for a deleted one. */
  readonly after?: Side | undefined;
}

/** One of the two renders that are compared. */
export interface Side {
  readonly deployment: GitDeployment;
  /** Of the repository. `undefined`: the merge. */
  readonly commit: string | undefined;
}

/** A deployment that contains others, and what is known of its repository. */
export interface ParentFacts {
  readonly key: Key;
  /** It only includes the pull request's repository. */
  readonly isConsumer: boolean;
  /** The commit that the merge's changes are relative to. */
  readonly base: string;
  readonly heads: Heads;
  readonly changed: ChangedChildren;
}

export interface PlanContext {
  readonly repos: ReadonlySet<RepoId>;
  readonly baseBranch: string;
  /** The names of the deployments that have a preview of their own. */
  readonly previewed: ReadonlySet<string>;
  readonly parse: (resource: unknown) => AnyDeployment | undefined;
  /** Why this server renders none. */
  readonly refusal?: string | undefined;
}

export interface ChildrenPlan<P extends ParentFacts> extends Omit<ChildPreviews, "previews"> {
  readonly planned: readonly { readonly parent: P; readonly child: PlannedChild }[];
}

/** Sorted by name. A child of several deployments counts once. */
export function planChildren<P extends ParentFacts>(parents: readonly P[], context: PlanContext): ChildrenPlan<P> {
  const found = new Map(
    parents.flatMap((parent) => parent.changed.changes.map((change) => [keyText(change.key), { parent, change }])),
  );
  const planned: { parent: P; child: PlannedChild }[] = [];
  const unshown: ChildPreviews["unshown"] = [];
  for (const [deployment, { parent, change }] of [...found].sort(([a], [b]) => compareText(a, b))) {
    const child = planChild(change, parent, context);
    if (typeof child === "string") unshown.push({ parent: parent.key, deployment, reason: child });
    else if (child !== undefined) planned.push({ parent, child });
  }
  return {
    planned: planned.slice(0, mostChildren),
    unshown: unshown.slice(0, mostReasons),
    beyond: Math.max(0, planned.length - mostChildren) + Math.max(0, unshown.length - mostReasons),
  };
}

/** Returns the reason if it is not rendered, and `undefined` if its spec does not change at all. */
function planChild(change: ChildChange, parent: ParentFacts, context: PlanContext): PlannedChild | string | undefined {
  if (!isKubernetesName(change.key)) return "not rendered, because it has no valid namespace and name";
  if (change.isKept) return `it stays with its objects, because ${keyText(parent.key)} does not prune`;
  if (parent.changed.concealed !== undefined) return "not rendered, because some values may be secrets";
  const [before, after] = [change.before, change.after].map((json) => json && context.parse(parseJson(json)));
  for (const one of [before, after]) {
    if (one && isMalformed(one)) return `not rendered, because its spec is invalid: ${one.problem.split("\n", 1)[0]}`;
  }
  const [old, now] = [before, after] as (Deployment | undefined)[];
  const last = now ?? old;
  if (last === undefined || (change.after !== undefined && now === undefined)) {
    return "not rendered, because it cannot be read";
  }
  if (old !== undefined && now !== undefined && isDeepStrictEqual(old.spec, now.spec)) return undefined;
  // Of both: the pull request may remove the annotation, too.
  const isOff = [old, now].some((one) => one && isSwitchedOff(one, annotation.preview));
  if (isOff) return "not rendered, because its annotation disables previews";
  const stays = now === undefined ? whyItsObjectsStay(last) : undefined;
  if (stays !== undefined) return `deleted, but its objects stay in the cluster, because ${stays}`;
  const reason = [old, now].map((one) => one && whyNotRendered(one, parent, context)).find(Boolean) ?? context.refusal;
  if (reason !== undefined) return `not rendered, because ${reason}`;
  return toPlanned(change.key, { old: old as GitDeployment, now: now as GitDeployment }, parent, context);
}

function toPlanned(
  key: Key,
  { old, now }: { readonly old: GitDeployment | undefined; readonly now: GitDeployment | undefined },
  { base, heads }: ParentFacts,
  { baseBranch, previewed }: PlanContext,
): PlannedChild | string {
  const follows = ({ spec }: GitDeployment) => refName(spec.source.ref, heads) === `refs/heads/${baseBranch}`;
  const onlySpec = old !== undefined && now !== undefined && follows(old) && previewed.has(keyText(key));
  const before = old && {
    deployment: old,
    commit: follows(old) ? (onlySpec ? undefined : base) : commitOf(old.spec.source.ref, heads),
  };
  const after = now && {
    deployment: now,
    commit: follows(now) ? undefined : commitOf(now.spec.source.ref, heads),
  };
  if (before && after && rendersAlike(before.deployment, after.deployment)) {
    const areSameFiles = follows(before.deployment) ? follows(after.deployment) : before.commit === after.commit;
    if (areSameFiles) return "only fields change that do not affect what is rendered";
  }
  const last = now ?? old;
  return {
    key,
    action: old === undefined ? "new" : now === undefined ? "deleted" : "changed",
    ...(onlySpec && { onlySpec }),
    unread: last === undefined ? [] : unreadFields(last),
    before,
    after,
  };
}

/** The rules of finalizing. Only a live object has a status. */
function whyItsObjectsStay({ spec, status, uid }: Deployment): string | undefined {
  if (!spec.delete) return "its `spec.delete` is not true";
  if (spec.suspend) return "it is suspended";
  const isLive = uid !== "";
  return isLive && status.targetKey?.discriminator === undefined
    ? "nothing was deployed with a discriminator"
    : undefined;
}

function whyNotRendered(
  child: Deployment,
  { key, isConsumer, heads }: ParentFacts,
  { repos }: PlanContext,
): string | undefined {
  if (!followsGit(child)) return "its source is an OCI artifact";
  if (!repos.has(child.repo)) return "its source is another repository";
  if (isConsumer) return `${keyText(key)} only includes this repository`;
  const { ref } = child.spec.source;
  // Any commit that the server has ever fetched could be named, also one that its author may not read.
  if (ref.commit !== undefined) return "it is pinned to a commit";
  return commitOf(ref, heads) === undefined ? `its repository has no ${describeRef(ref)}` : undefined;
}

/** Whether two specs give the same objects from the same files. */
function rendersAlike({ spec: one }: GitDeployment, { spec: other }: GitDeployment): boolean {
  const inputs = (spec: GitDeployment["spec"]) => [
    spec.source.path,
    spec.target,
    spec.targetNameOverride,
    spec.args,
    spec.images,
    spec.includeTags,
    spec.excludeTags,
    spec.includeDeploymentDirs,
    spec.excludeDeploymentDirs,
  ];
  return isDeepStrictEqual(inputs(one), inputs(other));
}

function unreadFields({ spec }: GitDeployment): string[] {
  const logins = [spec.gitCredentials, spec.ociCredentials, spec.helmCredentials];
  const fields: [field: string, isSet: boolean][] = [
    ["spec.credentials", logins.some(({ length }) => length > 0)],
    ["spec.decryption", spec.decryption !== undefined],
    ["spec.kubeConfig", spec.kubeConfig !== undefined],
    ["spec.serviceAccountName", spec.serviceAccountName !== undefined],
    ["spec.sourceOverrides", spec.sourceOverrides.length > 0],
  ];
  return fields.filter(([, isSet]) => isSet).map(([field]) => field);
}

/** A branch may write anything into its manifests, while names are part of paths and log lines. */
function isKubernetesName({ namespace, name }: Key): boolean {
  return isNamespaceName(namespace) && isObjectName(name);
}
