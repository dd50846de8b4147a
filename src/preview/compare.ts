/** One deployment of a preview: what the real kluctl says the merge would change in the cluster. */
import { PrepareError, SourceError } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { CommandResult, Credentials, GitDeployment } from "../model.ts";
import type { Clock, Identity, Kluctl, Merged } from "../ports.ts";
import { credentialSecrets } from "../reconcile/credentials.ts";
import type { ReadIdentity } from "../reconcile/identity.ts";
import { changeWaits, loopTimeoutMs } from "../reconcile/decide.ts";
import { type Failure, toFailure } from "../reconcile/failures.ts";
import { findLargePrune, type LargePrune, type PruneGuard } from "../reconcile/pruning.ts";
import { toDeployOptions, toRun } from "../reconcile/run.ts";
import type { Preview } from "../report.ts";
import { redactText } from "../redact/redact-text.ts";
import { describeSafely } from "./describe-diff.ts";
import { makeVisible } from "./visible-text.ts";

/** A deployment that the merge concerns. */
export interface Target {
  readonly deployment: GitDeployment;
  readonly credentials: Credentials;
  /** Or why there is none. */
  readonly merge: Merged | { readonly error: unknown };
}

export interface CompareDeps {
  readonly kluctl: Pick<Kluctl, "diff">;
  readonly readIdentity: ReadIdentity;
  /** Bounds how many previews this process makes at once, of all pull requests together. Waits for its turn. */
  readonly limit: <T>(work: () => Promise<T>, options: { signal: AbortSignal }) => Promise<T>;
  readonly settings: {
    /** What previews run as, in the namespace of each deployment, instead of the deployment's own. */
    readonly serviceAccount?: string | undefined;
    /** Whether nothing is deployed for real by this server. */
    readonly dryRun?: boolean | undefined;
    /** Credentials of the server itself, which no message may show. */
    readonly serverSecrets?: readonly string[] | undefined;
    /** `undefined`: no prune waits for anybody. */
    readonly pruneGuard?: PruneGuard | undefined;
  };
  readonly newId: () => string;
  readonly clock: Clock;
}

export interface Compared {
  readonly preview: Preview;
  /** Of a failure: who can mend it. */
  readonly retry?: Failure["retry"] | undefined;
}

/** Never rejects: what fails is told, and the other deployments' previews go on. */
export async function compare(
  target: Target,
  cluster: string,
  deps: CompareDeps,
  log: Logger,
  signal: AbortSignal,
): Promise<Compared> {
  const { deployment } = target;
  let knownSecrets = [...credentialSecrets(target.credentials), ...(deps.settings.serverSecrets ?? [])];
  const working = toWorking(deployment, cluster);
  try {
    const { serviceAccount } = deps.settings;
    const identity = await deps.readIdentity(deployment, { serviceAccount });
    knownSecrets = [...knownSecrets, ...identity.secrets];
    const result = await deps.limit(() => diff(target, identity, deps, log, signal), { signal });
    knownSecrets = [...knownSecrets, ...(result.maskedValues ?? [])];
    const found = await describeSafely(result, { knownSecrets, prune: deployment.spec.prune }, signal);
    if (found.concealed !== undefined) log.warn({ ...deployment.key, why: found.concealed }, "only counts are told");
    const { new: created, changed, deleted, orphan, errors } = found.counts;
    const pruneWaits = findPruneThatWaits(deployment, result, deps.settings);
    const nothingWaits = working.approval === "after-merge" && created + changed + deleted + orphan + errors === 0;
    const approval = nothingWaits ? undefined : working.approval;
    return { preview: { ...working, ...found, state: "done", approval, ...(pruneWaits && { pruneWaits }) } };
  } catch (error) {
    const { message, retry } = toFailure(error);
    const failed = retry === "person" && isOfTheMerge(error) ? "render" : "run";
    const failure = makeVisible(await redactText(message, knownSecrets));
    if (!signal.aborted) log.warn({ ...deployment.key, retry, error: failure }, "a preview failed");
    return { preview: { ...working, state: "failed", failure, failed }, retry };
  }
}

/** A deploy that fails prunes nothing, so that nothing waits then. */
function findPruneThatWaits(
  { spec }: GitDeployment,
  result: CommandResult,
  { pruneGuard, dryRun = false }: CompareDeps["settings"],
): LargePrune | undefined {
  const prunes = spec.prune && spec.deployMode === "full-deploy" && !spec.dryRun && !dryRun;
  return pruneGuard && prunes && result.errors.length === 0 ? findLargePrune(result, pruneGuard) : undefined;
}

/** What the files of the merge bring about, unlike a login, the network or kluctl itself. */
function isOfTheMerge(error: unknown): boolean {
  return error instanceof PrepareError || (error instanceof SourceError && error.problem === "path-not-found");
}

/** What is said of a deployment before it has been compared. */
export function toWorking({ key, spec, status }: GitDeployment, cluster: string): Preview {
  const drifted = status.lastDriftDetectionResult?.document["objects"];
  return {
    deployment: key,
    target: spec.target,
    cluster: spec.kubeConfig ? remoteName(status) : cluster,
    state: "working",
    suspended: spec.suspend,
    approval: !spec.manual ? undefined : changeWaits(spec, status) ? "pending" : "after-merge",
    counts: { new: 0, changed: 0, deleted: 0, orphan: 0, errors: 0, warnings: 0 },
    drift: Array.isArray(drifted) ? drifted.length : 0,
    objects: [],
    objectsLeftOut: 0,
    errors: [],
    warnings: [],
  };
}

/** Another cluster than the server's is called by what is known of it: the beginning of its UID. */
function remoteName({ targetKey }: GitDeployment["status"]): string {
  return targetKey?.clusterId.slice(0, 8) || "another cluster";
}

/** Under no lease: it changes nothing, and neither waits behind the deployment's own loops nor holds them up. */
async function diff(
  { deployment, credentials, merge }: Target,
  identity: Identity,
  deps: CompareDeps,
  log: Logger,
  signal: AbortSignal,
) {
  if ("error" in merge) throw merge.error;
  const { newId, clock } = deps;
  const reconcileId = newId();
  const startedAt = clock.now();
  const run = toRun(deployment, {
    reconcileId,
    checkout: { projectDir: await merge.project(deployment.spec.source.path) },
    credentials,
    identity,
    timeoutMs: loopTimeoutMs(deployment.spec),
    cold: true,
    slot: merge.slot,
  });
  const result = await deps.kluctl.diff(run, toDeployOptions(deployment, true), signal);
  log.info({ ...deployment.key, reconcileID: reconcileId, ms: clock.now() - startedAt }, "compared for a preview");
  return result;
}
