/** Finds what a deploy would change without the merge: compares the base, and the deployed commit where it matters. */
import { SourceError } from "../errors.ts";
import { beforeAbort } from "../kit/deadline.ts";
import { type BoundedMap, createBoundedMap } from "../kit/bounded-map.ts";
import { annotation, type CommandResult, type DeploymentStatus, type GitDeployment, type Placed } from "../model.ts";
import { parseJson } from "../kit/json.ts";
import { deployedCommitOf, wasDryRun } from "../model/last-deploy.ts";
import { inputsOf } from "../model/project-inputs.ts";
import { hasShared, type DiffReferences } from "./attribute.ts";
import { isCurrent, isTouched, type ReferenceDiff, toReferenceDiff } from "./reference-diff.ts";

/** Diffs of the base and of deployed commits, shared by all pull requests. In memory only. */
export interface KnownReferences {
  readonly made: Pick<BoundedMap<ReferenceDiff>, "get" | "set">;
  /** Those that are being made. */
  readonly running: Map<string, Promise<ReferenceDiff>>;
}

/** Of 200 deployments and their branches. Most diffs have less than 2 000 characters. */
const mostKnown = { entries: 1_000, weight: 20_000_000 };
/** In characters. A larger diff is made anew each time. */
const largestKnown = 200_000;
/**
 * Variables that come from the cluster or another repository may change, which neither the commit nor the live objects
 * show.
 */
const knownForMs = 5 * 60_000;

export function createKnownReferences(): KnownReferences {
  const made = createBoundedMap<ReferenceDiff>({ ...mostKnown, maxAgeMs: knownForMs }, ({ size }) => size);
  return { made, running: new Map() };
}

export interface ReferencesInput {
  readonly deployment: GitDeployment;
  /** The diff of the merge. */
  readonly merged: CommandResult;
  /** The base's commit. */
  readonly base: string;
  /** Only if the base is that of a repository which the project includes. */
  readonly library?: IncludedLibrary | undefined;
  /** Whatever else a diff depends on. */
  readonly variant: string;
  readonly known: KnownReferences;
  /**
   * `library`: the commit of the included repository, if not the base. Throws SourceError if there is no such commit, or no
   * such project in it.
   */
  readonly place: (commit: string, library?: string) => Promise<Placed>;
  readonly diff: (placed: Placed) => Promise<CommandResult>;
  readonly signal: AbortSignal;
  /** Called if the deployed commit cannot be compared. May throw. */
  readonly onUnknown: () => void;
}

export interface IncludedLibrary {
  /** The commit of the deployment's own repository that is rendered. */
  readonly own: string;
  /** The commit of the library that the last reconciliation rendered, as far as is known. */
  readonly rendered: string | undefined;
}

const nothing: ReferenceDiff = {
  objects: new Map(),
  errors: new Set(),
  objectsHash: "",
  isMasked: false,
  size: 0,
};

/**
 * Throws if the base cannot be compared. Without the deployed commit, whatever the base changes counts as not deployed.
 * Most deployments are in sync with the base, which needs no comparison.
 */
export async function findReferences(input: ReferencesInput): Promise<DiffReferences> {
  const { merged, base: commit, deployment } = input;
  if (isInSync(deployment, commit, merged)) return { base: nothing, deployed: undefined };
  const base = await compareReference(commit, input).catch((error: unknown) => {
    if (isNewProject(error)) return nothing;
    throw error;
  });
  if (!hasShared(merged.objects, base)) return { base, deployed: undefined };
  return { base, deployed: await findDeployed(base, input) };
}

/**
 * Whether the base renders what the last check of the deployment rendered, that check found no difference to the cluster,
 * and no object that the merge touches was written since.
 */
function isInSync(deployment: GitDeployment, base: string, { objects, document }: CommandResult): boolean {
  const { status, annotations } = deployment;
  const checked = status.lastDriftDetectionResult;
  const isReady = status.conditions.some((one) => one.type === "Ready" && one.status === "True");
  if (!isReady || checked === undefined || !isObserved(deployment, base)) return false;
  const { objects: drifted, errors, renderedObjectsHash } = checked.document;
  // The hash is unknown after an interrupted deploy.
  if (status.lastObjectsHash === undefined || renderedObjectsHash !== status.lastObjectsHash) return false;
  if (!isEmpty(drifted) || !isEmpty(errors)) return false;
  // What comes from elsewhere may have changed since, and nothing says that it has.
  const inputs = inputsOf(document);
  if (annotations[annotation.includes] !== undefined || inputs.reason !== undefined || inputs.includes.length > 0) {
    return false;
  }
  return objects.filter(isTouched).every(({ remote }) => remote !== undefined && isOlder(remote, status));
}

function isObserved({ status, generation }: GitDeployment, commit: string): boolean {
  return status.observedCommit === commit && status.observedGeneration === generation;
}

function isEmpty(list: unknown): boolean {
  return list === undefined || list === null || (Array.isArray(list) && list.length === 0);
}

interface ManagedFields {
  readonly manager?: string;
  readonly time?: string;
  readonly subresource?: string;
}

/** The name under which kluctl writes objects. */
const kluctlManager = "kluctl";

/**
 * Whether nothing but its status was written since the last check, which began within some second and saw what was written
 * in earlier ones. What the deploy itself wrote, from whose result the check follows, is part of it.
 */
function isOlder(json: string, { lastDriftDetectionResult: checked, lastDeployResult: deployed }: DeploymentStatus) {
  const { metadata } = (parseJson(json) ?? {}) as { metadata?: { managedFields?: readonly ManagedFields[] } };
  const entries = metadata?.managedFields?.filter(({ subresource }) => subresource !== "status") ?? [];
  const beganAt = toSecond(checked?.document["startTime"]);
  const { startTime } = (deployed?.document["commandInfo"] ?? {}) as { startTime?: unknown };
  const isDeploy = startTime !== undefined && startTime === checked?.document["startTime"];
  const endedAt = isDeploy ? toSecond(checked?.endTime) : NaN;
  const isKnown = ({ time, manager }: ManagedFields) =>
    toSecond(time) < beganAt || (manager === kluctlManager && toSecond(time) <= endedAt);
  return entries.length > 0 && entries.every(isKnown);
}

/** Whole seconds, which is how the API server records them. `NaN`, which is neither before nor after anything: unknown. */
function toSecond(time: unknown): number {
  return typeof time === "string" ? Math.floor(Date.parse(time) / 1_000) : NaN;
}

async function findDeployed(base: ReferenceDiff, input: ReferencesInput): Promise<ReferenceDiff | undefined> {
  const { deployment, library } = input;
  const last = deployment.status.lastDeployResult;
  if (last === undefined || last.errors > 0 || wasDryRun(last)) return undefined;
  // Most commits change nothing in most deployments.
  if (last.document["renderedObjectsHash"] === base.objectsHash) return base;
  const commit = deployedCommitOf(last);
  if (commit === undefined) return undefined;
  if (library !== undefined && library.rendered === undefined) return undefined;
  const isBase = commit === (library?.own ?? input.base) && (library?.rendered ?? input.base) === input.base;
  const deployed = isBase
    ? base
    : await compareReference(commit, input, library?.rendered).catch(() => {
        input.onUnknown();
        return undefined;
      });
  return deployed !== undefined && wasDeployed(deployed, commit, deployment, library) ? deployed : undefined;
}

/**
 * Whether the commit still renders what was deployed from it. If the spec, a library or a variable has changed since, it does
 * not. The hash of a preview is no evidence if it may contain masks: then that of the last check is, if it was of the
 * same commit.
 */
function wasDeployed(
  reference: ReferenceDiff,
  commit: string,
  deployment: GitDeployment,
  library?: IncludedLibrary,
): boolean {
  const { lastDeployResult, lastDriftDetectionResult } = deployment.status;
  const hash = lastDeployResult?.document["renderedObjectsHash"];
  if (!reference.isMasked && hash !== undefined) return hash === reference.objectsHash;
  // Which commit of a library was deployed, only the hash shows.
  if (library !== undefined) return false;
  const checked = lastDriftDetectionResult?.document["renderedObjectsHash"];
  if (hash === undefined || checked === undefined || !isObserved(deployment, commit)) return true;
  return hash === checked;
}

async function compareReference(commit: string, input: ReferencesInput, included?: string): Promise<ReferenceDiff> {
  const { deployment, variant, known, merged, place, diff, signal } = input;
  const id = JSON.stringify([deployment.uid, deployment.generation, variant, commit, included]);
  for (;;) {
    const earlier = known.made.get(id) ?? known.running.get(id);
    if (earlier === undefined) break;
    const found = await beforeAbort(Promise.resolve(earlier), signal).catch(() => undefined);
    signal.throwIfAborted();
    if (found !== undefined && isCurrent(found, merged.objects)) return found;
    if (found !== undefined) break;
    // A failure may be that of another pull request only, whose work was cancelled. The first to notice begins anew.
    if (known.running.get(id) === earlier) known.running.delete(id);
  }
  const running = makeReference();
  known.running.set(id, running);
  try {
    const made = await running;
    if (made.size <= largestKnown) known.made.set(id, made);
    return made;
  } finally {
    if (known.running.get(id) === running) known.running.delete(id);
  }

  async function makeReference(): Promise<ReferenceDiff> {
    return toReferenceDiff(await diff(await place(commit, included)));
  }
}

function isNewProject(error: unknown): boolean {
  return error instanceof SourceError && error.problem === "path-not-found";
}
