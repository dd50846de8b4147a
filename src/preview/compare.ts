/** One deployment of a preview: what the real kluctl says the merge would change in the cluster. */
import { PrepareError, PreviewRefusedError, SourceError } from "../errors.ts";
import type { Logger } from "../log.ts";
import { annotation, type CommandResult, type Credentials, type GitDeployment } from "../model.ts";
import type { Clock, Identity, Kluctl, Merged, Stubbed } from "../ports.ts";
import { credentialSecrets } from "../reconcile/credentials.ts";
import type { ReadIdentity } from "../reconcile/identity.ts";
import { changeWaits, loopTimeoutMs } from "../reconcile/decide.ts";
import { type Failure, toFailure } from "../reconcile/failures.ts";
import { findLargePrune, type LargePrune, type PruneGuard } from "../reconcile/pruning.ts";
import { toDeployOptions, toRun } from "../reconcile/run.ts";
import type { Preview } from "../report.ts";
import { redactText } from "../redact/redact-text.ts";
import { describeSafely } from "./describe-diff.ts";
import { describeEncrypted, explainUndecrypted } from "./encrypted-files.ts";
import { hostsOf } from "./reach.ts";
import type { Undecrypted } from "./undecrypted.ts";
import { makeVisible } from "./visible-text.ts";

/** A deployment that the merge concerns. */
export interface Target {
  readonly deployment: GitDeployment;
  readonly credentials: Credentials;
  /** Or why there is none. */
  readonly merge: Merged | { readonly error: unknown };
}

export interface CompareDeps {
  readonly kluctl: Pick<Kluctl, "diff" | "render">;
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
    /** Whether kluctl is confined for previews: then it gets no keys, unless a deployment says so, and reaches few hosts. */
    readonly confined?: boolean | undefined;
    /** `undefined`: nothing of forks is rendered but what somebody has allowed. */
    readonly forks?: IsolatedForks | undefined;
  };
  readonly newId: () => string;
  readonly clock: Clock;
}

/** Forks that are rendered without the cluster. */
export interface IsolatedForks {
  /** Why this server cannot do that, for people who propose something. */
  readonly refusal?: string | undefined;
  /** Of the server's own cluster: charts depend on it. */
  readonly kubernetesVersion: () => Promise<string | undefined>;
}

export interface Compared {
  readonly preview: Preview;
  /** Of a failure: who can mend it. */
  readonly retry?: Failure["retry"] | undefined;
  /** An operator can, of whom no delivery tells: it is tried again after a while. */
  readonly refused?: boolean | undefined;
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
export function isOfTheMerge(error: unknown): boolean {
  return error instanceof PrepareError || (error instanceof SourceError && error.problem === "path-not-found");
}

/** What is said of a deployment before it has been compared. */
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

/** Another cluster than the server's is called by what is known of it: the beginning of its UID. */
function remoteName({ targetKey }: GitDeployment["status"]): string {
  return targetKey?.clusterId.slice(0, 8) || "another cluster";
}

interface Comparing {
  readonly target: Target;
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

/** Without any key. What is encrypted is the same in the merge and in what is deployed, if the files say the same. */
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

  /** A project that is new, or that cannot be rendered as it is deployed. */
  function giveUp(error: unknown): undefined {
    signal.throwIfAborted();
    log.info({ ...deployment.key, error: toFailure(error).message }, "the deployed commit cannot be compared");
  }
}

/** For a deployment that names no time-out, which is looked at once a day perhaps: a branch that waits would hold a place for so long. */
const usualTimeoutMs = 10 * 60_000;

function timeoutOf({ spec }: GitDeployment): number {
  return spec.timeoutMs === undefined ? Math.min(loopTimeoutMs(spec), usualTimeoutMs) : loopTimeoutMs(spec);
}

/** Under no lease: it changes nothing, and neither waits behind the deployment's own loops nor holds them up. */
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
