/** From what a deployment says to what kluctl is asked to do. Pure. */
import type { Credentials, Deployment } from "../model.ts";
import type { Checkout, DeployOptions, Held, Run } from "../ports.ts";

export interface RunContext {
  readonly reconcileId: string;
  readonly checkout: Pick<Checkout, "projectDir">;
  readonly credentials: Credentials;
  /** Of what mutates. */
  readonly held?: Held | undefined;
  readonly timeoutMs: number;
  /** Goes before the deployment's own. */
  readonly serviceAccount?: string | undefined;
  readonly defaultServiceAccount: string | undefined;
  readonly cold?: boolean | undefined;
}

export function toRun({ key, spec }: Deployment, context: RunContext): Run {
  const { reconcileId, checkout, credentials, held, timeoutMs, cold } = context;
  const account = context.serviceAccount ?? spec.serviceAccountName ?? context.defaultServiceAccount;
  return {
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
    impersonate: account === undefined ? undefined : impersonation(key.namespace, account),
    credentials,
    timeoutMs,
    cold,
    held,
  };
}

/** The user name of a service account. A blank name would mean the server's own rights, so it is an error. */
export function impersonation(namespace: string, account: string): string {
  if (account.trim() === "") throw new Error("a service account without a name cannot be impersonated");
  return `system:serviceaccount:${namespace}:${account}`;
}

/** `dryRun`: nothing is deployed for real by this server, whatever the deployment says. */
export function toDeployOptions({ spec }: Deployment, dryRun: boolean): DeployOptions {
  const { forceApply, replaceOnError, forceReplaceOnError, noWait, abortOnError, prune } = spec;
  return {
    forceApply,
    replaceOnError,
    forceReplaceOnError,
    noWait,
    abortOnError,
    prune,
    dryRun: dryRun || spec.dryRun,
  };
}
