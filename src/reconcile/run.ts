/** Translates a deployment's spec into kluctl's options. Pure. */
import type { Checkout, Credentials, Deployment, DeployOptions, Held, Identity, LocalOverride, Run } from "../model.ts";

export interface RunContext {
  readonly reconcileId: string;
  readonly checkout: Pick<Checkout, "projectDir">;
  readonly credentials: Credentials;
  readonly identity: Identity;
  /** Set for mutating runs. */
  readonly held?: Held | undefined;
  readonly timeoutMs: number;
  readonly cold?: boolean | undefined;
  readonly slot?: string | undefined;
  readonly localOverrides?: readonly LocalOverride[] | undefined;
  readonly hosts?: readonly string[] | undefined;
  readonly change?: string | undefined;
}

export function toRun({ key, spec }: Deployment, context: RunContext): Run {
  const { reconcileId, checkout, credentials, identity, held, timeoutMs, cold, slot, localOverrides, hosts, change } =
    context;
  return {
    ...identity,
    deployment: key,
    reconcileId,
    projectDir: checkout.projectDir,
    target: spec.target,
    targetNameOverride: spec.targetNameOverride,
    context: spec.context,
    args: spec.args,
    images: spec.images,
    includeTags: spec.includeTags,
    excludeTags: spec.excludeTags,
    includeDeploymentDirs: spec.includeDeploymentDirs,
    excludeDeploymentDirs: spec.excludeDeploymentDirs,
    credentials,
    timeoutMs,
    cold,
    slot,
    localOverrides,
    hosts,
    change,
    held,
  };
}

/** `dryRun`: this server only does dry runs, whatever the deployment's spec says. */
export function toDeployOptions({ spec }: Deployment, dryRun: boolean): DeployOptions {
  const { forceApply, replaceOnError, forceReplaceOnError, noWait, abortOnError } = spec;
  return {
    forceApply,
    replaceOnError,
    forceReplaceOnError,
    noWait,
    abortOnError,
    dryRun: dryRun || spec.dryRun,
  };
}
