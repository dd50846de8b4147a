/** One deployment of a preview: what merging would change in the cluster, according to the real kluctl. */
import { PrepareError, PreviewRefusedError, SourceError } from "../errors.ts";
import type { Logger } from "../log.ts";
import {
  annotation,
  type CommandResult,
  type Credentials,
  type GitDeployment,
  type Identity,
  type Merged,
  type Stubbed,
} from "../model.ts";
import type { Clock, Kluctl } from "../ports.ts";
import { credentialSecrets } from "../access/credentials.ts";
import type { ReadIdentity } from "../access/identity.ts";
import { changeWaits, loopTimeoutMs } from "../reconcile/decide.ts";
import { type Failure, toFailure } from "../reconcile/failures.ts";
import { findLargePrune, type LargePrune, type PruneGuard } from "../guards/pruning.ts";
import { toDeployOptions, toRun } from "../reconcile/run.ts";
import type { Preview } from "../model/report.ts";
import { redactText } from "../redact/redact-text.ts";
import { describeSafely } from "./describe-diff.ts";
import { describeEncrypted, explainUndecrypted } from "./encrypted-files.ts";
import { hostsOf } from "./reach.ts";
import type { Undecrypted } from "./undecrypted.ts";
import { makeVisible } from "./visible-text.ts";

/** A deployment that is affected by the merge. */
export interface PreviewTarget {
  readonly deployment: GitDeployment;
  readonly credentials: Credentials;
  /** The merge, or why there is none. */
  readonly merge: Merged | { readonly error: unknown };
}

export interface CompareDeps {
  readonly kluctl: Pick<Kluctl, "diff" | "render">;
  readonly readIdentity: ReadIdentity;
  /** Limits how many previews this process computes at once, over all pull requests. Waits for a free place. */
  readonly limit: <T>(work: () => Promise<T>, options: { signal: AbortSignal }) => Promise<T>;
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

export interface PreviewResult {
  readonly preview: Preview;
  /** For a failure: whether a retry may help. */
  readonly retry?: Failure["retry"] | undefined;
  /** Only an operator can fix it, and no delivery announces that: it is retried after a while. */
  readonly refused?: boolean | undefined;
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
  const working = toWorking(deployment, cluster);
  try {
    const { serviceAccount, confined = false } = deps.settings;
    const decrypts = !confined || deployment.annotations[annotation.previewDecrypt]?.trim() === "true";
    const identity = await deps.readIdentity(deployment, { serviceAccount, decrypts, byToken: confined });
    knownSecrets = [...knownSecrets, ...identity.secrets];
    const comparing = { target, identity, deps, log, signal };
    const { result, undecrypted, encrypted } = await deps.limit(
      () => (decrypts ? diffDecrypted(comparing) : diffUndecrypted(comparing)),
      { signal },
    );
    const maskedValues = [result, undecrypted?.reference].flatMap((one) => one?.maskedValues ?? []);
    const hiding = { knownSecrets, maskedValues, prune: deployment.spec.prune, undecrypted };
    const found = await describeSafely(result, hiding, signal);
    if (found.concealed !== undefined) log.warn({ ...deployment.key, why: found.concealed }, "only counts are shown");
    const { new: created, changed, deleted, orphan, errors } = found.counts;
    const pruneWaits = findPruneThatWaits(deployment, result, deps.settings);
    const nothingWaits = working.approval === "after-merge" && created + changed + deleted + orphan + errors === 0;
    const approval = nothingWaits ? undefined : working.approval;
    const rest = { ...(pruneWaits && { pruneWaits }), ...(encrypted && { encrypted }) };
    return { preview: { ...working, ...found, state: "done", approval, ...rest } };
  } catch (error) {
    const { message, retry } = toFailure(error);
    const failed = retry === "person" && isOfTheMerge(error) ? "render" : "run";
    const failure = makeVisible(await redactText(message, knownSecrets));
    if (!signal.aborted) log.warn({ ...deployment.key, retry, error: failure }, "preview failed");
    const refused = error instanceof PreviewRefusedError;
    return { preview: { ...working, state: "failed", failure, failed }, retry, refused };
  }
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
export function isOfTheMerge(error: unknown): boolean {
  return error instanceof PrepareError || (error instanceof SourceError && error.problem === "path-not-found");
}

/** The preview of a deployment before it has been compared. */
export function toWorking({ key, spec, status }: GitDeployment, cluster: string, { isolated = false } = {}): Preview {
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
  };
}

/** Clusters other than the server's are named by the only known fact: the beginning of their UID. */
function remoteName({ targetKey }: GitDeployment["status"]): string {
  return targetKey?.clusterId.slice(0, 8) || "another cluster";
}

interface Comparing {
  readonly target: PreviewTarget;
  readonly identity: Identity;
  readonly deps: CompareDeps;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

interface Difference {
  readonly result: CommandResult;
  readonly undecrypted?: Undecrypted | undefined;
  readonly encrypted?: Preview["encrypted"];
}

async function diffDecrypted(comparing: Comparing): Promise<Difference> {
  const { deployment, merge } = comparing.target;
  if ("error" in merge) throw merge.error;
  const projectDir = await merge.project(deployment.spec.source.path);
  return { result: await diff({ projectDir, slot: merge.slot }, comparing) };
}

/**
 * Compares without any decryption key. Encrypted content counts as equal in the merge and the deployed commit if the
 * files are equal.
 */
async function diffUndecrypted(comparing: Comparing): Promise<Difference> {
  const { target, log, signal } = comparing;
  const { deployment, merge } = target;
  if ("error" in merge) throw merge.error;
  const { path } = deployment.spec.source;
  const [merged] = await Promise.all([merge.stubbed(path, signal), merge.baseHosts(signal)]);
  const result = await diff(merged, comparing).catch((error: unknown) => {
    throw explainUndecrypted(error);
  });
  const deployed = await merge
    .stubbed(path, signal, { deployed: deployment.status.observedCommit })
    .catch((error: unknown) => giveUp(error));
  if (merged.encrypted.size + (deployed?.encrypted.size ?? 0) === 0) return { result };
  const reference = deployed && (await diff(deployed, comparing).catch((error: unknown) => giveUp(error)));
  return {
    result,
    undecrypted: { reference },
    encrypted: describeEncrypted(path, merged.encrypted, deployed?.encrypted),
  };

  /** For a new project, or one whose deployed commit cannot be rendered. */
  function giveUp(error: unknown): undefined {
    signal.throwIfAborted();
    log.info({ ...deployment.key, error: toFailure(error).message }, "the deployed commit cannot be compared");
  }
}

/**
 * For a deployment without a timeout, whose interval may be a day: a branch that hangs would occupy a place for that
 * long.
 */
const usualTimeoutMs = 10 * 60_000;

function timeoutOf({ spec }: GitDeployment): number {
  return spec.timeoutMs === undefined ? Math.min(loopTimeoutMs(spec), usualTimeoutMs) : loopTimeoutMs(spec);
}

/**
 * Runs without a lease: it is read-only, and neither waits for the deployment's own reconciliations nor delays them.
 */
async function diff(
  { projectDir, slot }: Pick<Stubbed, "projectDir" | "slot">,
  { target, identity, deps, log, signal }: Comparing,
): Promise<CommandResult> {
  const { deployment, credentials, merge } = target;
  const { newId, clock } = deps;
  const baseHosts = deps.settings.confined && "baseHosts" in merge ? await merge.baseHosts(signal) : [];
  const reconcileId = newId();
  const startedAt = clock.now();
  const run = toRun(deployment, {
    reconcileId,
    checkout: { projectDir },
    credentials,
    identity,
    timeoutMs: timeoutOf(deployment),
    cold: true,
    slot,
    hosts: hostsOf(deployment, credentials, baseHosts),
  });
  const result = await deps.kluctl.diff(run, toDeployOptions(deployment, true), signal);
  log.info({ ...deployment.key, reconcileID: reconcileId, ms: clock.now() - startedAt }, "preview compared");
  return result;
}
