/** Finds what a deploy would change without the merge: compares the base, and the deployed commit where it matters. */
import { SourceError } from "../errors.ts";
import { beforeAbort } from "../kit/deadline.ts";
import { type BoundedMap, createBoundedMap } from "../kit/bounded-map.ts";
import type { CommandResult, GitDeployment, Placed, ResultObject } from "../model.ts";
import { parseJson } from "../kit/json.ts";
import { deployedCommitOf, wasDryRun } from "../model/last-deploy.ts";
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
  /**
   * If the base is that of a repository which the project includes: the commit of its own repository. At which commit of
   * the other one it was deployed is not recorded.
   */
  readonly own?: string | undefined;
  /** Whatever else a diff depends on. */
  readonly variant: string;
  readonly known: KnownReferences;
  /** Throws SourceError if there is no such commit, or no such project in it. */
  readonly place: (commit: string) => Promise<Placed>;
  readonly diff: (placed: Placed) => Promise<CommandResult>;
  readonly signal: AbortSignal;
  /** Called if the deployed commit cannot be compared. May throw. */
  readonly onUnknown: () => void;
}

const nothing: ReferenceDiff = { objects: new Map(), errors: new Set(), objectsHash: "", size: 0 };

/**
 * Throws if the base cannot be compared. Without the deployed commit, whatever the base changes counts as not deployed.
 * Most deployments are in sync with the base, which needs no comparison.
 */
export async function findReferences(input: ReferencesInput): Promise<DiffReferences> {
  const { merged, base: commit, deployment } = input;
  if (isInSync(deployment, commit, merged.objects)) return { base: nothing, deployed: undefined };
  const base = await compareReference(commit, input).catch((error: unknown) => {
    if (isNewProject(error)) return nothing;
    throw error;
  });
  if (!hasShared(merged.objects, base)) return { base, deployed: undefined };
  return { base, deployed: await findDeployed(base, deployment, input) };
}

/**
 * Whether the last check of the deployment found no difference between the base and the cluster, and no object that the
 * merge touches was written since. An object that was deleted since is not noticed.
 */
function isInSync({ status, generation }: GitDeployment, base: string, merged: readonly ResultObject[]): boolean {
  const checked = status.lastDriftDetectionResult;
  const isReady = status.conditions.some((one) => one.type === "Ready" && one.status === "True");
  if (!isReady || checked === undefined) return false;
  if (status.observedCommit !== base || status.observedGeneration !== generation) return false;
  const { objects, errors, renderedObjectsHash } = checked.document;
  // The hash is unknown after an interrupted deploy.
  if (status.lastObjectsHash === undefined || renderedObjectsHash !== status.lastObjectsHash) return false;
  if (!isEmpty(objects) || !isEmpty(errors)) return false;
  const checkedAt = Date.parse(checked.endTime);
  return merged.filter(isTouched).every(({ remote }) => remote === undefined || writtenAt(remote) <= checkedAt);
}

function isEmpty(list: unknown): boolean {
  return list === undefined || list === null || (Array.isArray(list) && list.length === 0);
}

interface ManagedFields {
  readonly time?: string;
  readonly subresource?: string;
}

/** When anything but its status was written last, to the second; infinite if that is unknown. */
function writtenAt(json: string): number {
  const { metadata } = (parseJson(json) ?? {}) as { metadata?: { managedFields?: readonly ManagedFields[] } };
  const entries = metadata?.managedFields?.filter(({ subresource }) => subresource !== "status") ?? [];
  const times = entries.map(({ time = "" }) => Date.parse(time));
  return times.length === 0 || times.some(Number.isNaN) ? Infinity : Math.max(...times);
}

async function findDeployed(
  base: ReferenceDiff,
  { status }: GitDeployment,
  input: ReferencesInput,
): Promise<ReferenceDiff | undefined> {
  const last = status.lastDeployResult;
  if (last === undefined || last.errors > 0 || wasDryRun(last)) return undefined;
  const commit = deployedCommitOf(last);
  // Most commits change nothing in most deployments.
  if (commit === input.base || last.document["renderedObjectsHash"] === base.objectsHash) return base;
  if (commit === undefined || commit === input.own) return undefined;
  return compareReference(commit, input).catch(() => {
    input.onUnknown();
    return undefined;
  });
}

async function compareReference(commit: string, input: ReferencesInput): Promise<ReferenceDiff> {
  const { deployment, variant, known, merged, place, diff, signal } = input;
  const id = JSON.stringify([deployment.uid, deployment.generation, variant, commit]);
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
    return toReferenceDiff(await diff(await place(commit)));
  }
}

function isNewProject(error: unknown): boolean {
  return error instanceof SourceError && error.problem === "path-not-found";
}
