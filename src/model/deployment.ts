/**
 * A deployment: a custom resource that says what is brought up to date, as src/apis/ reads it. This file has what every
 * kind of them has: identity, source, schedule, the identity that deploys, result, drift and conditions. Dependencies
 * are an annotation, see `annotation.dependsOn`. kluctl-deployment.ts has what only kluctl's have.
 */
import type { JsonObject } from "../kit/json.ts";
import type { Key } from "./key.ts";
import type { KluctlSpec, KluctlStatus } from "./kluctl-deployment.ts";
import type { DecryptionRef, GitCredentialRef, KubeConfigRef, OciCredentialRef } from "./references.ts";
import type { CommandSummary, DriftSummary } from "./result.ts";
import type { GitSource, OciSource, RepoId } from "./source.ts";

/** What every kind of deployment specifies. All durations are milliseconds. */
export interface CommonSpec {
  readonly source: GitSource | OciSource;
  readonly gitCredentials: readonly GitCredentialRef[];
  readonly ociCredentials: readonly OciCredentialRef[];
  readonly intervalMs: number;
  readonly retryIntervalMs?: number | undefined;
  readonly timeoutMs?: number | undefined;
  readonly suspend: boolean;
  readonly serviceAccountName?: string | undefined;
  readonly kubeConfig?: KubeConfigRef | undefined;
  readonly decryption?: DecryptionRef | undefined;
  readonly prune: boolean;
}

export interface DeploymentSpec extends CommonSpec, KluctlSpec {}

/** `metav1.Condition`. */
export interface Condition {
  readonly type: string;
  readonly status: "True" | "False" | "Unknown";
  readonly reason: string;
  readonly message: string;
  /** RFC 3339. */
  readonly lastTransitionTime: string;
  readonly observedGeneration?: number | undefined;
}

/** What every kind of deployment reports. Parsed leniently: unreadable fields count as absent. */
export interface CommonStatus {
  readonly observedGeneration?: number | undefined;
  readonly observedCommit?: string | undefined;
  readonly conditions: readonly Condition[];
  readonly lastPrepareError?: string | undefined;
  /** Hash of the rendered objects of the last deploy. */
  readonly lastObjectsHash?: string | undefined;
  readonly lastDeployResult?: CommandSummary | undefined;
  readonly lastDriftDetectionResult?: DriftSummary | undefined;
  readonly lastDriftDetectionResultMessage?: string | undefined;
}

export interface DeploymentStatus extends CommonStatus, KluctlStatus {}

/** The part of a resource that is valid whatever its spec contains. */
export interface DeploymentIdentity {
  readonly key: Key;
  /** Absent: `gitops.kluctl.io/v1beta1`. */
  readonly apiVersion?: string | undefined;
  readonly uid: string;
  readonly generation: number;
  readonly resourceVersion: string;
  readonly annotations: Readonly<Record<string, string>>;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly finalizers: readonly string[];
  /** RFC 3339. */
  readonly creationTimestamp?: string | undefined;
  /** Set once the resource was deleted and its finalizers have to run. */
  readonly deletionTimestamp?: string | undefined;
  readonly status: DeploymentStatus;
  /** False if the API's status has no place for what a check without a deploy finds: its time, and a newer commit. */
  readonly recordsChecks?: false | undefined;
}

export interface Deployment extends DeploymentIdentity {
  readonly spec: DeploymentSpec;
  /** The value of a pending request to deploy whether or not anything changed, from APIs that make it part of a check. */
  readonly deployRequest?: string | undefined;
  /** Identity of `spec.source.git.url`; absent for other kinds of sources. */
  readonly repo?: RepoId | undefined;
}

/** A deployment that follows a git repository: webhooks, sweeps and previews only apply to these. */
export interface GitDeployment extends Deployment {
  readonly spec: DeploymentSpec & { readonly source: GitSource };
  readonly repo: RepoId;
}

export function followsGit(deployment: AnyDeployment): deployment is GitDeployment {
  return !isMalformed(deployment) && deployment.spec.source.kind === "git" && deployment.repo !== undefined;
}

/** A resource whose spec cannot be parsed; `problem` names each invalid field and how to fix it. */
export interface MalformedDeployment extends DeploymentIdentity {
  readonly problem: string;
}

export type AnyDeployment = Deployment | MalformedDeployment;

export function isMalformed(deployment: AnyDeployment): deployment is MalformedDeployment {
  return "problem" in deployment;
}

/** Identifies one resource. Resources of different APIs may have the same name. */
export type DeploymentRef = Pick<Deployment, "key" | "uid" | "apiVersion" | "deployRequest">;

/** A change of a resource, as seen by the watch. */
export interface DeploymentChange {
  readonly kind: "added" | "changed" | "removed";
  readonly deployment: AnyDeployment;
  readonly previous?: AnyDeployment | undefined;
}

/** Fields of `status` to set; `null` removes a field. */
export type StatusPatch = JsonObject;

/** The annotations of a deployment that Towline interprets. */
export const annotation = {
  /** `"false"`: webhooks never affect this deployment. */
  webhooks: "towline.dev/webhooks",
  /** Comma- or newline-separated globs, relative to the repository's root: changes to these paths affect it too. */
  paths: "towline.dev/paths",
  /** The git repositories that its project includes, as the server has written it; see includes.ts. */
  includes: "towline.dev/includes",
  /** The commits of these repositories that were rendered last, as the server has written it; see included-commits.ts. */
  includedCommits: "towline.dev/included-commits",
  /** The files and directories outside of its path that its project may read, as the server has written it; see outside-reads.ts. */
  reads: "towline.dev/reads",
  /** `"false"`: pull requests are not previewed for this deployment. */
  preview: "towline.dev/preview",
  /**
   * Comma- or newline-separated repositories that its project includes: their pull requests show what they would change in
   * this deployment, to everybody who can read them.
   */
  previewIn: "towline.dev/preview-in",
  /**
   * `"true"`: isolated previews decrypt with the deployment's keys, so anyone who can push a branch can read all
   * secrets.
   */
  previewDecrypt: "towline.dev/preview-decrypt",
  /** Lines with a kind and a JSON pointer: changes of these fields are folded in previews. */
  ignoreChanges: "towline.dev/ignore-changes",
  /** Commits of forks that may be previewed for this deployment; `towline preview --allow` writes it. */
  allowPreview: "towline.dev/allow-preview",
  /** The hash of a pending prune, set by the user to confirm it. */
  confirmPrune: "towline.dev/confirm-prune",
  /** Comma-separated names, `name` or `namespace/name`, of deployments that must be ready before this one. */
  dependsOn: "towline.dev/depends-on",
  /**
   * A CEL expression over `dep` and `self`: whether a dependency is ready, in place of being reconciled and Ready.
   */
  readyExpr: "towline.dev/ready-expr",
  /** YAML list of objects and kinds that have to be healthy before the deployment is Ready; see guards/health-checks.ts. */
  healthChecks: "towline.dev/health-checks",
  /** How long they may take after a deploy; default: `spec.timeout`, else 5m. */
  healthTimeout: "towline.dev/health-timeout",
  /** `target` or `target:channel`, separated by commas or newlines: who is notified of it. `none`: nobody. */
  notify: "towline.dev/notify",
  /** The git host's environment that it belongs to; `none`: it is not reported to environments. */
  environment: "towline.dev/environment",
  /** Where users reach what is deployed: a link on the git host's pages. */
  environmentUrl: "towline.dev/environment-url",
  /** Where its Ingress or HTTPRoute serves it, as the server has written it; see served-url.ts. */
  servedUrl: "towline.dev/served-url",
  /** `production`, `staging`, `testing`, `development` or `other`. */
  environmentTier: "towline.dev/environment-tier",
  /** The longest time between two full reconciliations, even if nothing can have changed. */
  fullInterval: "towline.dev/full-interval",
} as const;

/** The same finalizer as kluctl's own controller, so that either controller can finish the other's deletion. */
export const finalizer = "finalizers.gitops.kluctl.io";

const resourceKind = { apiVersion: "gitops.kluctl.io/v1beta1", kind: "KluctlDeployment" } as const;

/** How other objects refer to a KluctlDeployment. */
export function kindOf({ apiVersion = resourceKind.apiVersion }: Pick<DeploymentIdentity, "apiVersion">) {
  return { ...resourceKind, apiVersion };
}

/** Whether one of the annotations that switch something off does so. */
export function isSwitchedOff(
  { annotations }: { readonly annotations: Readonly<Record<string, string>> },
  name: typeof annotation.webhooks | typeof annotation.preview,
): boolean {
  return annotations[name]?.trim().toLowerCase() === "false";
}
