/**
 * A deployment in the preview of a fork: how the render of the merge's files differs from that of the base's. Neither
 * is compared with the cluster, nothing is read from it, and kluctl gets none of the deployment's permissions or
 * credentials.
 */
import { NeedsMoreError, PrepareError, PreviewRefusedError, SourceError } from "../errors.ts";
import type { Logger } from "../log.ts";
import { annotation, type CommandResult, type Merged, noCredentials, type Stubbed } from "../model.ts";
import { credentialSecrets } from "../access/credentials.ts";
import { loopTimeoutMs } from "../reconcile/decide.ts";
import { type Failure, toFailure } from "../reconcile/failures.ts";
import { toRun } from "../reconcile/run.ts";
import { redactText } from "../redact/redact-text.ts";
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
import { describeSafely } from "./describe-diff.ts";
import { describeEncrypted } from "./encrypted-files.ts";
import { compareRendersSafely } from "./render-diff.ts";
import { makeVisible } from "./visible-text.ts";

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
    const found = await describeSafely(result, { knownSecrets, prune: deployment.spec.prune, ignoreChanges }, signal);
    if (found.concealed !== undefined) log.warn({ ...deployment.key, why: found.concealed }, "only counts are shown");
    return { preview: { ...working, ...found, state: "done", ...(encrypted && { encrypted }) } };
  } catch (error) {
    const { message, retry } = toIsolatedFailure(error);
    const isToBlame = retry === "person" && isOfTheMerge(error, target) && !isWithoutCluster(error);
    const failure = makeVisible(await redactText(message, knownSecrets));
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
  const base = await findBase(merge, path, signal);
  const kubernetesVersion = deployment.spec.kubeConfig ? undefined : await deps.settings.forks?.kubernetesVersion();
  const before = base && (await render(base).catch(blameBase));
  const after = await render(merged);
  return {
    result: await compareRendersSafely(before ?? { ...after, objects: [] }, after, signal),
    encrypted: describeEncrypted(path, merged.encrypted, base?.encrypted),
  };

  async function render({ projectDir, slot, overrides }: Stubbed): Promise<CommandResult> {
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
    const result = await deps.kluctl.render({ ...run, context: undefined }, { kubernetesVersion }, signal);
    log.info({ ...deployment.key, reconcileID: reconcileId, ms: deps.clock.now() - startedAt }, "fork rendered");
    return result;
  }
}

/** Returns `undefined` for a project that the merge adds. */
async function findBase(merge: Merged, path: string, signal: AbortSignal): Promise<Stubbed | undefined> {
  return merge.stubbed(path, signal, merge.base).catch((error: unknown) => {
    if (error instanceof SourceError && error.problem === "path-not-found") return undefined;
    throw error;
  });
}

function blameBase(error: unknown): never {
  throw error instanceof PrepareError && !(error instanceof NeedsMoreError)
    ? new BaseError(error.message, { cause: error })
    : error;
}

function isWithoutCluster(error: unknown): boolean {
  return error instanceof NeedsMoreError || error instanceof BaseError;
}

const needed: Readonly<Record<NeedsMoreError["needs"], string>> = {
  cluster: "it reads variables from the cluster",
  network: "it fetches something over the network, which is not available either",
};

function toIsolatedFailure(error: unknown): Pick<Failure, "message" | "retry"> {
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
