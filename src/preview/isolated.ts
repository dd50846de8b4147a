/**
 * A deployment in the preview of a fork: how the render of the merge's files differs from that of the base's. Neither
 * is compared with the cluster, nothing is read from it, and kluctl gets none of the deployment's permissions or
 * credentials.
 */
import { NeedsMoreError, PrepareError, PreviewRefusedError, SourceError } from "../errors.ts";
import type { Logger } from "../log.ts";
import {
  annotation,
  type CommandResult,
  type GitDeployment,
  type Key,
  type Merged,
  noCredentials,
  type Stubbed,
} from "../model.ts";
import { credentialSecrets } from "../access/credentials.ts";
import { loopTimeoutMs } from "../reconcile/decide.ts";
import { type Failure, toFailure } from "../reconcile/failures.ts";
import { toRun } from "../reconcile/run.ts";
import type { Preview } from "../model/report.ts";
import {
  type PreviewResult,
  type CompareDeps,
  findPosition,
  isOfTheMerge,
  type PreviewTarget,
  toWorking,
} from "./compare.ts";
import { BrokenBaseError } from "./broken-base.ts";
import { findChangedChildren } from "./children/find-changes.ts";
import { describeSafely } from "./describe-diff.ts";
import { describeEncrypted } from "./encrypted-files.ts";
import { compareRendersSafely } from "./render-diff.ts";
import { redactVisibly } from "./visible-text.ts";

/** Anybody may open a pull request whose rendering never ends. */
const longestRenderMs = 120_000;

/** An error that the proposed commit did not cause. */
class BaseError extends BrokenBaseError {}

/** Never rejects: failures are reported, and the previews of other deployments continue. */
export async function compareIsolated(
  target: PreviewTarget,
  cluster: string,
  deps: CompareDeps,
  log: Logger,
  signal: AbortSignal,
): Promise<PreviewResult> {
  const { deployment } = target;
  const knownSecrets = [...credentialSecrets(target.credentials), ...(deps.settings.serverSecrets ?? [])];
  const working = toWorking(deployment, cluster, { isolated: true, includes: target.consumer !== undefined });
  try {
    const { result, encrypted } = await deps.limit(() => renderBoth(target, deps, log, signal), { signal });
    const ignoreChanges = deployment.annotations[annotation.ignoreChanges];
    const hiding = { knownSecrets, prune: deployment.spec.prune, ignoreChanges };
    const wanted = { ...hiding, manifests: target.wantsManifests };
    const { manifests, ...found } = await describeSafely(result, wanted, signal);
    if (found.concealed !== undefined) log.warn({ ...deployment.key, why: found.concealed }, "only counts are shown");
    const children = findChangedChildren({ ...hiding, result, found });
    const preview: Preview = { ...working, ...found, state: "done", ...(encrypted && { encrypted }) };
    return { preview, children, manifests };
  } catch (error) {
    const { message, retry } = toIsolatedFailure(error);
    const isToBlame = retry === "person" && isOfTheMerge(error, target) && !isWithoutCluster(error);
    const failure = await redactVisibly(message, knownSecrets);
    if (!signal.aborted) log.warn({ ...deployment.key, retry, error: failure }, "preview failed");
    const failed = isToBlame ? "render" : "run";
    const mendable = error instanceof PreviewRefusedError;
    const at = isToBlame ? await findPosition(message, target, log, signal) : undefined;
    return { preview: { ...working, state: "failed", failure, failed, ...(at && { at }) }, retry, mendable };
  }
}

interface Difference {
  readonly result: CommandResult;
  readonly encrypted: Preview["encrypted"];
}

/** Sequential: a fork's pull request uses no more resources at once than any other. */
async function renderBoth(
  { deployment, merge }: PreviewTarget,
  deps: CompareDeps,
  log: Logger,
  signal: AbortSignal,
): Promise<Difference> {
  if ("error" in merge) throw merge.error;
  const { path } = deployment.spec.source;
  const merged = await merge.stubbed(path, signal);
  const base = await findStubbed(merge, path, signal, merge.base);
  const kubernetesVersion = await deps.settings.forks?.kubernetesVersion();
  const rendering = { deployment, kubernetesVersion, log, signal };
  const before = base && (await renderOffline(base, rendering, deps).catch(blameBase));
  const after = await renderOffline(merged, rendering, deps);
  return {
    result: await compareRendersSafely(before ?? { ...after, objects: [] }, after, signal),
    encrypted: describeEncrypted(path, merged.encrypted, base?.encrypted),
  };
}

export interface OfflineRender {
  readonly deployment: GitDeployment;
  /** The deployment that is named to kluctl, and in the log; `deployment` itself if left out. */
  readonly runAs?: Key | undefined;
  /** The version of the server's own cluster. */
  readonly kubernetesVersion: string | undefined;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

/** Renders a project from its files alone: without cluster, credentials, decryption and network. */
export async function renderOffline(
  { projectDir, slot, overrides }: Stubbed,
  { deployment, runAs = deployment.key, log, signal, ...options }: OfflineRender,
  deps: Pick<CompareDeps, "kluctl" | "newId" | "clock">,
): Promise<CommandResult> {
  const reconcileId = deps.newId();
  const startedAt = deps.clock.now();
  const run = toRun(deployment, {
    reconcileId,
    checkout: { projectDir },
    credentials: noCredentials,
    identity: { secrets: [] },
    timeoutMs: Math.min(loopTimeoutMs(deployment.spec), longestRenderMs),
    cold: true,
    slot,
    localOverrides: overrides,
  });
  const kubernetesVersion = deployment.spec.kubeConfig ? undefined : options.kubernetesVersion;
  const result = await deps.kluctl.render(
    { ...run, deployment: runAs, context: undefined },
    { kubernetesVersion },
    signal,
  );
  log.info({ ...runAs, reconcileID: reconcileId, ms: deps.clock.now() - startedAt }, "rendered without the cluster");
  return result;
}

/** Returns `undefined` if there is no project at this path. `of`: another commit than the merge. */
export async function findStubbed(
  merge: Merged,
  path: string,
  signal: AbortSignal,
  of?: string,
): Promise<Stubbed | undefined> {
  return merge.stubbed(path, signal, of).catch((error: unknown) => {
    if (error instanceof SourceError && error.problem === "path-not-found") return undefined;
    throw error;
  });
}

export function blameBase(error: unknown): never {
  throw error instanceof PrepareError && !(error instanceof NeedsMoreError)
    ? new BaseError(error.message, { cause: error })
    : error;
}

/** Whether it only says that the cluster is missing, or that the base has the error too. */
export function isWithoutCluster(error: unknown): boolean {
  return error instanceof NeedsMoreError || error instanceof BaseError;
}

const needed: Readonly<Record<NeedsMoreError["needs"], string>> = {
  cluster: "it reads variables from the cluster",
  network: "it fetches something over the network, which is not available either",
};

export function toIsolatedFailure(error: unknown): Pick<Failure, "message" | "retry"> {
  const { message, retry } = toFailure(error);
  if (error instanceof NeedsMoreError) {
    return {
      message: `This cannot be rendered without the cluster, because ${needed[error.needs]}.\n\n${message}`,
      retry: "person",
    };
  }
  if (error instanceof BaseError) {
    const words = "The base branch cannot be rendered without the cluster, so there is nothing to compare with.";
    return { message: `${words}\n\n${message}`, retry: "person" };
  }
  return { message, retry };
}
