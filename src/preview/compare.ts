/** One deployment of a preview: what merging would change in the cluster, according to the real kluctl. */
import { PrepareError, PreviewRefusedError, SourceError } from "../errors.ts";
import type { Logger } from "../log.ts";
import {
  annotation,
  type AnyDeployment,
  type CommandResult,
  type Credentials,
  type GitDeployment,
  type Heads,
  type Merged,
} from "../model.ts";
import type { Clock, Kluctl, Queue } from "../ports.ts";
import { credentialSecrets } from "../access/credentials.ts";
import type { ReadIdentity } from "../access/identity.ts";
import { changeWaits } from "../reconcile/decide.ts";
import { type Failure, toFailure } from "../reconcile/failures.ts";
import { findLargePrune, type LargePrune, type PruneGuard } from "../guards/pruning.ts";
import type { Include } from "../model/includes.ts";
import type { DeploymentManifests } from "../model/manifests.ts";
import { countUncounted, type Preview, type UncountedKind, uncountedKinds } from "../model/report.ts";
import { BrokenBaseError } from "./broken-base.ts";
import { type ChangedChildren, findChangedChildren } from "./children/find-changes.ts";
import type { ConsumerCommits } from "./consumer-merges.ts";
import { describeSafely } from "./describe-diff.ts";
import { diffDecrypted, diffUndecrypted } from "./diffs.ts";
import { locateError } from "./locate-error.ts";
import { isTouched } from "./reference-diff.ts";
import type { KnownReferences } from "./references.ts";
import { redactVisibly, toErrorLine } from "./visible-text.ts";

/** A deployment that is affected by the merge. */
export interface PreviewTarget {
  readonly deployment: GitDeployment;
  readonly credentials: Credentials;
  /** The merge, or why there is none. */
  readonly merge: Merged | { readonly error: unknown };
  /** The commit that the merge's own changes are relative to; its base if left out. */
  readonly base?: string | undefined;
  /** The refs of its repository; unknown without a merge. */
  readonly heads?: Heads | undefined;
  /** It does not follow the repository of the merge, but includes it. */
  readonly consumer?: ConsumerFacts | undefined;
  /** What it reads is not known, and the merge changes nothing of what it is known to read. */
  readonly unsure?: boolean | undefined;
  readonly wantsManifests?: boolean | undefined;
}

export interface ConsumerFacts {
  /** Absent if there is no merge. */
  readonly commits?: ConsumerCommits | undefined;
  /** Why a render with these includes is not what the merge would give; `undefined` if it is. */
  readonly findOthers?: ((included: readonly Include[]) => string | undefined) | undefined;
}

export interface CompareDeps {
  readonly kluctl: Pick<Kluctl, "diff" | "render">;
  readonly readIdentity: ReadIdentity;
  readonly references: KnownReferences;
  /** See Queue. Absent: moves of what projects include are not announced. */
  readonly lastMove?: Queue["lastMove"] | undefined;
  /** Limits how many previews this process computes at once, over all pull requests. Waits for a free place. */
  readonly limit: <T>(work: () => Promise<T>, options: { signal: AbortSignal; of?: readonly string[] }) => Promise<T>;
  /** Whose comparisons these are, if several share places. */
  readonly party?: readonly string[] | undefined;
  readonly settings: {
    /** The service account that previews use in each deployment's namespace, instead of the deployment's own. */
    readonly serviceAccount?: string | undefined;
    /** Whether all deployments of this server are dry runs. */
    readonly dryRun?: boolean | undefined;
    /** Credentials of the server itself, which must not appear in any message. */
    readonly serverSecrets?: readonly string[] | undefined;
    /** `undefined`: prunes never wait for approval. */
    readonly pruneGuard?: PruneGuard | undefined;
    /**
     * Whether kluctl is confined during previews: it then gets no decryption keys, unless a deployment opts in, and can
     * reach only a few hosts.
     */
    readonly confined?: boolean | undefined;
    /** `undefined`: of forks, only allowed commits are rendered. */
    readonly forks?: IsolatedForks | undefined;
    /** `undefined`: KluctlDeployments are objects like all others. */
    readonly children?: ChildrenSettings | undefined;
  };
  readonly newId: () => string;
  readonly clock: Clock;
}

/** Forks that are rendered without access to the cluster. */
export interface IsolatedForks {
  /** Why this server cannot do that, as text for authors of pull requests. */
  readonly refusal?: string | undefined;
  /** The version of the server's own cluster: charts depend on it. */
  readonly kubernetesVersion: () => Promise<string | undefined>;
}

/** How the KluctlDeployments among a deployment's objects are read and rendered. */
export interface ChildrenSettings {
  /** Why this server renders none, as part of a sentence. */
  readonly refusal?: string | undefined;
  /** The version of the server's own cluster: charts depend on it. */
  readonly kubernetesVersion: () => Promise<string | undefined>;
  /** Reads a KluctlDeployment; `undefined` if it is none. */
  readonly parse: (resource: unknown) => AnyDeployment | undefined;
}

export interface PreviewResult {
  readonly preview: Preview;
  /** Absent if they are not wanted, or must not be shown. */
  readonly manifests?: Omit<DeploymentManifests, "deployment"> | undefined;
  /** For a failure: whether a retry may help. */
  readonly retry?: Failure["retry"] | undefined;
  /** The KluctlDeployments among its objects that the merge changes; absent if there are none. */
  readonly children?: ChangedChildren | undefined;
  /** It may be better later, and no delivery announces that: it is made again after a while. */
  readonly mendable?: boolean | undefined;
}

/** Never rejects: failures are reported, and the previews of other deployments continue. */
export async function compare(
  target: PreviewTarget,
  cluster: string,
  deps: CompareDeps,
  log: Logger,
  signal: AbortSignal,
): Promise<PreviewResult> {
  const { deployment } = target;
  let knownSecrets = [...credentialSecrets(target.credentials), ...(deps.settings.serverSecrets ?? [])];
  const working = toWorking(deployment, cluster, { includes: target.consumer !== undefined, unsure: target.unsure });
  try {
    const { serviceAccount, confined = false } = deps.settings;
    // The annotation is about users who can push to the deployment's own repository.
    const isAllowed =
      target.consumer === undefined && deployment.annotations[annotation.previewDecrypt]?.trim() === "true";
    const decrypts = !confined || isAllowed;
    const identity = await deps.readIdentity(deployment, { serviceAccount, decrypts, byToken: confined });
    knownSecrets = [...knownSecrets, ...identity.secrets];
    const comparing = { target, identity, deps, log, signal };
    const { result, undecrypted, encrypted, references, referenceError } = await deps.limit(
      () => (decrypts ? diffDecrypted(comparing) : diffUndecrypted(comparing)),
      { signal },
    );
    const maskedValues = [result, undecrypted?.reference].flatMap((one) => one?.maskedValues ?? []);
    const ignoreChanges = deployment.annotations[annotation.ignoreChanges];
    const { prune } = deployment.spec;
    const hiding = { knownSecrets, maskedValues, prune, undecrypted, ignoreChanges, references };
    // What kluctl decrypted into other objects than Secrets cannot be masked; a diff shows it only if it changes.
    const manifests = target.wantsManifests && (!decrypts || deployment.spec.decryption === undefined);
    const wanted = { ...hiding, manifests };
    const { manifests: described, ...found } = await describeSafely(result, wanted, signal);
    if (found.concealed !== undefined) log.warn({ ...deployment.key, why: found.concealed }, "only counts are shown");
    const pruneWaits = findPruneThatWaits(deployment, result, deps.settings);
    const approval =
      working.approval === "after-merge" && isEmpty(found, result, undecrypted !== undefined)
        ? undefined
        : working.approval;
    const drift = references === undefined ? working.drift : countUncounted(found.drifted);
    const unattributed =
      referenceError === undefined ? undefined : await describeReferenceError(referenceError, knownSecrets);
    const rest = {
      ...(pruneWaits && { pruneWaits }),
      ...(encrypted && { encrypted }),
      ...(unattributed !== undefined && { unattributed }),
    };
    const mendable = referenceError !== undefined && toFailure(referenceError).retry !== "person";
    const children = findChangedChildren({ ...hiding, result, found });
    const preview: Preview = { ...working, ...found, state: "done", approval, drift, ...rest };
    return { preview, children, mendable, manifests: described };
  } catch (error) {
    const { message, retry } = toFailure(error);
    const failed = retry === "person" && isOfTheMerge(error, target) ? "render" : "run";
    const failure = await redactVisibly(message, knownSecrets);
    if (!signal.aborted) log.warn({ ...deployment.key, retry, error: failure }, "preview failed");
    // Only an operator can fix a refusal.
    const mendable = error instanceof PreviewRefusedError;
    const at = failed === "render" ? await findPosition(message, target, log, signal) : undefined;
    return { preview: { ...working, state: "failed", failure, failed, ...(at && { at }) }, retry, mendable };
  }
}

/** Never rejects: without a position, the message says enough. */
export async function findPosition(
  message: string,
  { deployment, merge }: PreviewTarget,
  log: Logger,
  signal: AbortSignal,
): Promise<Preview["at"]> {
  if ("error" in merge) return undefined;
  const lineAt = (path: string, line: number) => merge.line(path, line, signal);
  return locateError(message, deployment.spec.source.path, lineAt).catch((error: unknown) => {
    log.debug({ ...deployment.key, err: error }, "could not read the line of an error");
    return undefined;
  });
}

/** Whether a deploy of the merge would change nothing at all. `encrypted`: what the base changes as well is not described. */
function isEmpty(
  { counts, ...found }: Pick<Preview, "counts" | UncountedKind>,
  result: CommandResult,
  encrypted: boolean,
): boolean {
  if (encrypted && result.objects.some(isTouched)) return false;
  const { new: created, changed, deleted, orphan, errors } = counts;
  const uncounted = uncountedKinds.some((kind) => kind !== "kept" && found[kind] !== undefined);
  return created + changed + deleted + orphan + errors === 0 && !uncounted;
}

async function describeReferenceError(error: unknown, knownSecrets: readonly string[]): Promise<string> {
  const message = await redactVisibly(toFailure(error).message, knownSecrets);
  return toErrorLine(message);
}

/** A failing deploy does not prune, so no prune will wait. */
function findPruneThatWaits(
  { spec }: GitDeployment,
  result: CommandResult,
  { pruneGuard, dryRun = false }: CompareDeps["settings"],
): LargePrune | undefined {
  const prunes = spec.prune && spec.deployMode === "full-deploy" && !spec.dryRun && !dryRun;
  return pruneGuard && prunes && result.errors.length === 0 ? findLargePrune(result, pruneGuard) : undefined;
}

/** Whether an error is caused by the files of the merge, not by credentials, the network or kluctl itself. */
export function isOfTheMerge(error: unknown, { consumer }: Pick<PreviewTarget, "consumer">): boolean {
  if (error instanceof BrokenBaseError) return false;
  // The path is one in the deployment's own repository.
  if (consumer !== undefined && error instanceof SourceError) return false;
  return error instanceof PrepareError || (error instanceof SourceError && error.problem === "path-not-found");
}

/** The preview of a deployment before it has been compared. */
export function toWorking(
  deployment: GitDeployment,
  cluster: string,
  { isolated = false, includes = false, unsure = false } = {},
): Preview {
  const { key, spec, status } = deployment;
  const drifted = status.lastDriftDetectionResult?.document["objects"];
  return {
    deployment: key,
    target: spec.target,
    cluster: spec.kubeConfig ? remoteName(status) : cluster,
    state: "working",
    suspended: spec.suspend,
    approval: !spec.manual ? undefined : changeWaits(spec, status) && !isolated ? "pending" : "after-merge",
    counts: { new: 0, changed: 0, deleted: 0, orphan: 0, errors: 0, warnings: 0 },
    drift: Array.isArray(drifted) && !isolated ? drifted.length : 0,
    objects: [],
    objectsLeftOut: 0,
    errors: [],
    warnings: [],
    ...(isolated && { isolated }),
    ...(includes && { includes }),
    ...(unsure && { unsure }),
  };
}

/** Clusters other than the server's are named by the only known fact: the beginning of their UID. */
function remoteName({ targetKey }: GitDeployment["status"]): string {
  return targetKey?.clusterId.slice(0, 8) || "another cluster";
}
