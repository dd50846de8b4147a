/** The diffs that make up the preview of one deployment: of the merge, of the base, and of what is deployed. */
import { PrepareError, SourceError } from "../errors.ts";
import type { Logger } from "../log.ts";
import {
  keyText,
  type CommandResult,
  type GitDeployment,
  type Identity,
  manualKinds,
  manualResultField,
  type Placed,
} from "../model.ts";
import { includedBy, includesOf } from "../model/includes.ts";
import { deployedCommitOf, wasDryRun } from "../model/last-deploy.ts";
import type { Preview } from "../model/report.ts";
import { loopTimeoutMs } from "../reconcile/decide.ts";
import { toDeployOptions, toRun } from "../reconcile/run.ts";
import type { DiffReferences } from "./attribute.ts";
import { BrokenBaseError } from "./broken-base.ts";
import type { CompareDeps, PreviewTarget } from "./compare.ts";
import { describeEncrypted, explainUndecrypted } from "./encrypted-files.ts";
import { hostsOf } from "./reach.ts";
import { findReferences, type ReferencesInput } from "./references.ts";
import type { Undecrypted } from "./undecrypted.ts";

export interface Comparing {
  readonly target: PreviewTarget;
  readonly identity: Identity;
  readonly deps: CompareDeps;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

export interface PreviewDiffs {
  readonly result: CommandResult;
  readonly undecrypted?: Undecrypted | undefined;
  readonly encrypted?: Preview["encrypted"];
  readonly references?: DiffReferences | undefined;
  /** Why there are no references. */
  readonly referenceError?: unknown;
}

/** Compares with the decryption keys of the deployment. */
export async function diffDecrypted(comparing: Comparing): Promise<PreviewDiffs> {
  const { merge, base, path } = openMerge(comparing);
  const result = await diffMerge(
    () => merge.project(path, comparing.signal),
    comparing,
    () => merge.project(path, comparing.signal, base),
  );
  const place = (commit: string, included?: string) =>
    atCommits(comparing, commit, included)?.project(path, comparing.signal) ??
    merge.project(path, comparing.signal, commit);
  return { result, ...(await compareReferences(result, base, place, comparing)) };
}

/**
 * Compares without any decryption key. Encrypted content counts as equal in the merge and the base if the files are
 * equal.
 */
export async function diffUndecrypted(comparing: Comparing): Promise<PreviewDiffs> {
  const { signal, log, target } = comparing;
  const { merge, base: commit, path } = openMerge(comparing);
  let mayHaveBeenEncrypted = mayHoldOlderValues(target.deployment);
  const [merged] = await Promise.all([merge.stubbed(path, signal), merge.baseHosts(signal)]);
  const placeMerged = () => Promise.resolve(merged);
  const placeBase = () => merge.stubbed(path, signal, commit);
  const result = await diffMerge(placeMerged, comparing, placeBase).catch((error: unknown) => {
    throw explainUndecrypted(error);
  });
  const base = await merge.stubbed(path, signal, commit).catch((error: unknown) => giveUp(error));
  const inCluster = commitsInCluster(target.deployment).filter((one) => one !== commit);
  const before = await Promise.all(
    inCluster.map((one) => merge.stubbed(path, signal, one).catch((error: unknown) => giveUp(error))),
  );
  // What was deployed from another path, or from a commit that is gone, cannot be searched.
  if (before.includes(undefined)) mayHaveBeenEncrypted = true;
  const isPlain = [merged, base, ...before].every((placed) => (placed?.encrypted.size ?? 0) === 0);
  if (isPlain && !mayHaveBeenEncrypted) {
    const place = (other: string, included?: string) =>
      atCommits(comparing, other, included)?.stubbed(path, signal) ?? merge.stubbed(path, signal, other);
    return { result, ...(await compareReferences(result, commit, place, comparing)) };
  }
  const reference = base && (await diff(base, comparing).catch((error: unknown) => giveUp(error)));
  return {
    result,
    undecrypted: { reference },
    encrypted: describeEncrypted(path, merged.encrypted, base?.encrypted),
  };

  /** For a new project, or a commit that cannot be rendered. */
  function giveUp(error: unknown): undefined {
    signal.throwIfAborted();
    if (!(error instanceof SourceError && error.problem === "path-not-found")) mayHaveBeenEncrypted = true;
    log.info({ ...target.deployment.key }, "the base branch cannot be compared");
  }
}

/**
 * The diff of the merge. If the deployment only includes the repository, or may not read what changes, its own project may be
 * broken, and it may include more than is recorded: neither is for the pull request to answer for.
 */
async function diffMerge(
  placeMerged: () => Promise<Placed>,
  comparing: Comparing,
  placeBase: () => Promise<Placed>,
): Promise<CommandResult> {
  const { consumer, unsure } = comparing.target;
  if (consumer === undefined && !unsure) return diff(await placeMerged(), comparing, changeOf(comparing));
  const result = await diffOrBlame(placeMerged, comparing, placeBase);
  const others = consumer?.findOthers?.(includesOf(result.document));
  if (others !== undefined) throw new BrokenBaseError(`This cannot be shown: ${others}.`);
  return result;
}

async function diffOrBlame(
  placeMerged: () => Promise<Placed>,
  comparing: Comparing,
  placeBase: () => Promise<Placed>,
): Promise<CommandResult> {
  try {
    return await diff(await placeMerged(), comparing, changeOf(comparing));
  } catch (error) {
    if (!(error instanceof PrepareError)) throw error;
    const before: unknown = await diff(await placeBase(), comparing).catch((reason: unknown) => reason);
    comparing.signal.throwIfAborted();
    if (!(before instanceof PrepareError)) throw error;
    const words = "The project cannot be rendered without the pull request either.";
    throw new BrokenBaseError(`${words}\n\n${before.message}`, { cause: before });
  }
}

/**
 * Values that were decrypted stay in the cluster after their files are gone from the base: until the next deploy, which
 * may be of another commit than the one that was checked last.
 */
function commitsInCluster({ status }: GitDeployment): string[] {
  const commits = [status.observedCommit, deployedCommitOf(status.lastDeployResult)];
  return [...new Set(commits.filter((commit) => commit !== undefined))];
}

/**
 * Whether values that were decrypted from a commit that is not known any more may be in the cluster: the last deploy did not
 * write all objects, or nobody knows what it deployed.
 */
function mayHoldOlderValues({ spec, status }: GitDeployment): boolean {
  const { lastDeployResult: last } = status;
  const { command = "deploy" } = (last?.document["commandInfo"] ?? {}) as { command?: unknown };
  const isWhole = command === "deploy" && !hasOverrides(status, last?.id);
  const isComplete = isWhole && last?.errors === 0 && !wasDryRun(last) && deployedCommitOf(last) !== undefined;
  return spec.decryption !== undefined && !isComplete;
}

/** Whether the result is that of a request which changed the deployment for once, perhaps to a part of its objects. */
function hasOverrides(status: GitDeployment["status"], id: string | undefined): boolean {
  const requests = manualKinds.map((kind) => status[manualResultField(kind)]);
  return requests.some((one) => one?.resultId === id && one?.request.overridesPatch !== undefined);
}

function openMerge({ target: { deployment, merge, base } }: Comparing) {
  if ("error" in merge) throw merge.error;
  return { merge, base: base ?? merge.base, path: deployment.spec.source.path };
}

/** `included`: a commit of the repository of the merge, which the project only includes. */
function atCommits({ target: { consumer } }: Comparing, commit: string, included: string | undefined) {
  return included === undefined ? undefined : consumer?.commits?.at(commit, included);
}

/** What the base changes is known, or why it is not: the preview says so, but does not fail. */
async function compareReferences(
  merged: CommandResult,
  base: string,
  place: ReferencesInput["place"],
  comparing: Comparing,
): Promise<Pick<PreviewDiffs, "references" | "referenceError">> {
  const { target, identity, deps, log, signal } = comparing;
  const { deployment } = target;
  try {
    const { commits } = target.consumer ?? {};
    const own = await commits?.own(signal);
    // An announced push to what the project includes: since then, the base renders anew.
    const moves = await Promise.all([...includedBy(deployment)].map(async (repo) => deps.lastMove?.(repo)));
    const variant = [identity.decryption !== undefined, deps.settings.serviceAccount, own, moves];
    const references = await findReferences({
      deployment,
      library: own === undefined ? undefined : { own, rendered: commits?.included },
      merged,
      base,
      variant: JSON.stringify(variant),
      known: deps.references,
      signal,
      place,
      diff: (placed) => diff(placed, comparing),
      onUnknown() {
        signal.throwIfAborted();
        log.info({ ...deployment.key }, "the deployed commit cannot be compared");
      },
    });
    return { references };
  } catch (error) {
    signal.throwIfAborted();
    log.info({ ...deployment.key }, "the base branch cannot be compared");
    return { referenceError: error };
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

/** Not for what is rendered without the merge: no branch can make guesses there. */
function changeOf({ target: { deployment, merge } }: Comparing): string | undefined {
  return "error" in merge ? undefined : JSON.stringify([keyText(deployment.key), merge.head, merge.base]);
}

/**
 * Runs without a lease: it is read-only, and neither waits for the deployment's own reconciliations nor delays them.
 */
async function diff(
  { projectDir, slot, overrides }: Placed,
  { target, identity, deps, log, signal }: Comparing,
  change?: string,
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
    localOverrides: overrides,
    hosts: hostsOf(deployment, credentials, baseHosts),
    change,
  });
  const result = await deps.kluctl.diff(run, toDeployOptions(deployment, true), signal);
  log.info({ ...deployment.key, reconcileID: reconcileId, ms: clock.now() - startedAt }, "preview compared");
  return result;
}
