/** A KluctlDeployment (gitops.kluctl.io/v1beta1), parsed in src/apis/kluctl/custom-resource.ts. */
import type { JsonObject } from "../kit/json.ts";
import type { Key } from "./key.ts";
import type { SourceOverride } from "./source-override.ts";
import type { GitSource, OciSource, RepoId } from "./source.ts";

export interface CredentialRef {
  readonly host?: string | undefined;
  readonly path?: string | undefined;
  readonly secretName: string;
}

export interface GitCredentialRef extends CredentialRef {
  /**
   * From the deprecated `spec.source.secretRef`: for the source and for what the project includes from the same host.
   */
  readonly bySource?: boolean | undefined;
}

export interface HelmCredentialRef extends CredentialRef {
  /** The older form: the Secret itself names its Helm repository, by URL or by an id that charts refer to. */
  readonly bySecret?: boolean | undefined;
}

export interface OciCredentialRef {
  readonly registry?: string | undefined;
  readonly repository?: string | undefined;
  readonly secretName: string;
}

/** The Secret with the kubeconfig of another cluster. */
export interface KubeConfigRef {
  readonly secretName: string;
  /** The key in the Secret; if absent, `value` or `value.yaml`. */
  readonly key?: string | undefined;
}

/** How encrypted files are decrypted. */
export interface DecryptionRef {
  /** The Secret with the keys. */
  readonly secretName?: string | undefined;
  /** The identity for a cloud's key service; if absent, the deployment's own service account. */
  readonly serviceAccountName?: string | undefined;
}

export interface DeploymentSpec {
  readonly source: GitSource | OciSource;
  readonly sourceOverrides: readonly SourceOverride[];
  readonly gitCredentials: readonly GitCredentialRef[];
  readonly ociCredentials: readonly OciCredentialRef[];
  readonly helmCredentials: readonly HelmCredentialRef[];
  /** All durations are milliseconds. */
  readonly intervalMs: number;
  readonly retryIntervalMs?: number | undefined;
  readonly deployIntervalMs?: number | undefined;
  /** Only the legacy API can set `false`: changes in git are then deployed only by an interval or on request. */
  readonly deployOnChanges?: boolean | undefined;
  readonly validateIntervalMs?: number | undefined;
  readonly timeoutMs?: number | undefined;
  readonly suspend: boolean;
  readonly serviceAccountName?: string | undefined;
  readonly kubeConfig?: KubeConfigRef | undefined;
  readonly decryption?: DecryptionRef | undefined;
  readonly target?: string | undefined;
  readonly targetNameOverride?: string | undefined;
  readonly context?: string | undefined;
  readonly args?: JsonObject | undefined;
  readonly images: readonly JsonObject[];
  readonly dryRun: boolean;
  readonly noWait: boolean;
  readonly forceApply: boolean;
  readonly replaceOnError: boolean;
  readonly forceReplaceOnError: boolean;
  readonly abortOnError: boolean;
  readonly includeTags: readonly string[];
  readonly excludeTags: readonly string[];
  readonly includeDeploymentDirs: readonly string[];
  readonly excludeDeploymentDirs: readonly string[];
  readonly deployMode: "full-deploy" | "poke-images";
  readonly validate: boolean;
  readonly prune: boolean;
  readonly delete: boolean;
  readonly manual: boolean;
  readonly manualObjectsHash?: string | undefined;
}

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

export interface ProjectKey {
  readonly repoKey?: string | undefined;
  readonly subDir?: string | undefined;
}

export interface TargetKey {
  readonly targetName?: string | undefined;
  readonly clusterId: string;
  readonly discriminator?: string | undefined;
}

/** The fields of a stored CommandResult that decisions need; `document` is the complete summary. */
export interface CommandSummary {
  readonly document: JsonObject;
  readonly id: string;
  /** RFC 3339. */
  readonly endTime: string;
  readonly errors: number;
  readonly warnings: number;
  readonly newObjects: number;
  readonly changedObjects: number;
  readonly appliedHookObjects: number;
  readonly deletedObjects: number;
  readonly orphanObjects: number;
}

export interface ValidateSummary {
  readonly document: JsonObject;
  readonly id: string;
  readonly endTime: string;
  readonly errors: number;
  readonly warnings: number;
}

export interface DriftSummary {
  readonly document: JsonObject;
  readonly endTime: string;
}

/** The status as other kluctl tools read it. Parsed leniently: unreadable fields count as absent. */
export interface DeploymentStatus extends ManualResults {
  readonly observedGeneration?: number | undefined;
  readonly observedCommit?: string | undefined;
  readonly conditions: readonly Condition[];
  readonly projectKey?: ProjectKey | undefined;
  readonly targetKey?: TargetKey | undefined;
  readonly lastObjectsHash?: string | undefined;
  readonly lastManualObjectsHash?: string | undefined;
  readonly lastPrepareError?: string | undefined;
  readonly lastDeployResult?: CommandSummary | undefined;
  readonly lastDiffResult?: CommandSummary | undefined;
  readonly lastValidateResult?: ValidateSummary | undefined;
  readonly lastDriftDetectionResult?: DriftSummary | undefined;
  readonly lastDriftDetectionResultMessage?: string | undefined;
}

/** In the order in which they are processed. */
export const manualCommands = ["diff", "deploy", "prune", "validate"] as const;
export type ManualCommand = (typeof manualCommands)[number];
/** The kinds of requests a user can make for one deployment by annotation. */
export type ManualKind = ManualCommand | "reconcile";

export const manualKinds: readonly ManualKind[] = [...manualCommands, "reconcile"];

/** The annotation that holds the request until it is taken. */
export function requestAnnotation(kind: ManualKind): string {
  return `kluctl.io/request-${kind}`;
}

export interface ManualRequest {
  /** Identifies the request: the client waits for a result that carries this value. */
  readonly requestValue: string;
  /** A JSON merge patch of the resource, for this request only. */
  readonly overridesPatch?: JsonObject | undefined;
}

/** The outcome of the last request of its kind. */
export interface ManualResult {
  readonly request: ManualRequest;
  /** RFC 3339. */
  readonly startTime: string;
  /** Once set, the client stops waiting. */
  readonly endTime?: string | undefined;
  readonly reconcileId: string;
  /** The id under which the result is stored. */
  readonly resultId?: string | undefined;
  readonly commandError?: string | undefined;
}

export type ManualResultField = `${ManualKind}RequestResult`;
export type ManualResults = { readonly [Field in ManualResultField]?: ManualResult | undefined };

/** The status field that holds the result. */
export function manualResultField(kind: ManualKind): ManualResultField {
  return `${kind}RequestResult`;
}

/** The part of a resource that is valid whatever its spec contains. */
export interface DeploymentIdentity {
  readonly key: Key;
  /** Set for the legacy API only; absent means `gitops.kluctl.io/v1beta1`. */
  readonly apiVersion?: string | undefined;
  readonly uid: string;
  readonly generation: number;
  readonly resourceVersion: string;
  readonly annotations: Readonly<Record<string, string>>;
  readonly finalizers: readonly string[];
  /** Set once the resource was deleted and its finalizers have to run. */
  readonly deletionTimestamp?: string | undefined;
  readonly status: DeploymentStatus;
}

export interface Deployment extends DeploymentIdentity {
  readonly spec: DeploymentSpec;
  /** The legacy API's request to deploy whether or not anything changed. */
  readonly deployAsked?: string | undefined;
  /** Identity of `spec.source.git.url`; absent for other kinds of sources. */
  readonly repo?: RepoId | undefined;
}

/** A deployment that follows a git repository: webhooks, sweeps and previews only apply to these. */
export interface GitDeployment extends Deployment {
  readonly spec: DeploymentSpec & { readonly source: GitSource };
  readonly repo: RepoId;
}

/** A deployment that follows an OCI artifact. */
export interface OciDeployment extends Deployment {
  readonly spec: DeploymentSpec & { readonly source: OciSource };
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

/** The annotations of a KluctlDeployment that Towline interprets. */
export const annotation = {
  /** `"false"`: webhooks never affect this deployment. */
  webhooks: "towline.dev/webhooks",
  /** Comma- or newline-separated globs, relative to the repository's root: changes to these paths affect it too. */
  paths: "towline.dev/paths",
  /** `"false"`: pull requests are not previewed for this deployment. */
  preview: "towline.dev/preview",
  /**
   * `"true"`: isolated previews decrypt with the deployment's keys, so anyone who can push a branch can read all
   * secrets.
   */
  previewDecrypt: "towline.dev/preview-decrypt",
  /** Commits of forks that may be previewed for this deployment; `towline preview --allow` writes it. */
  allowPreview: "towline.dev/allow-preview",
  /** The hash of a pending prune, set by the user to confirm it. */
  confirmPrune: "towline.dev/confirm-prune",
  /** Comma-separated names, `name` or `namespace/name`, of deployments that must be ready before this one. */
  dependsOn: "towline.dev/depends-on",
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

/** A change of a resource, as seen by the watch. */
export interface DeploymentChange {
  readonly kind: "added" | "changed" | "removed";
  readonly deployment: AnyDeployment;
  readonly previous?: AnyDeployment | undefined;
}

/** Fields of `status` to set; `null` removes a field. */
export type StatusPatch = JsonObject;

/** Identifies one resource. Both APIs have KluctlDeployments, so two of them may have the same name. */
export type DeploymentRef = Pick<Deployment, "key" | "uid" | "apiVersion" | "deployAsked">;
