/** A KluctlDeployment (gitops.kluctl.io/v1beta1), parsed where it enters (kube/custom-resource.ts). */
import type { Key } from "./key.ts";
import type { GitSource, OciSource, RepoId } from "./source.ts";

export interface CredentialRef {
  readonly host?: string | undefined;
  readonly path?: string | undefined;
  readonly secretName: string;
}

export interface GitCredentialRef extends CredentialRef {
  /** The deprecated `spec.source.secretRef`: for the source, and what of its host the project includes. */
  readonly bySource?: boolean | undefined;
}

export interface HelmCredentialRef extends CredentialRef {
  /** The older form: the Secret itself says for which repository it is, by its URL or by an id that charts name. */
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
  /** Where in it; `value` or `value.yaml` when left out. */
  readonly key?: string | undefined;
}

/** What encrypted files are decrypted with. */
export interface DecryptionRef {
  /** The Secret with the keys. */
  readonly secretName?: string | undefined;
  /** Whom a cloud's key service knows; the deployment's own account when left out. */
  readonly serviceAccountName?: string | undefined;
}

/** kluctl's name of a repository: `git://host[:port]/path` or `oci://host[:port]/path`, see repo-key.ts. */
export interface RepoKey {
  readonly type: "git" | "oci";
  /** With its port, unless that is the protocol's own. */
  readonly host: string;
  /** Without leading and trailing `/`. */
  readonly path: string;
}

/** A source for which somebody offers a directory of their own machine. */
export interface SourceOverride {
  readonly repoKey: RepoKey;
  /** Stands for all repositories below it. */
  readonly isGroup: boolean;
  /** Where the one who offers it is connected: `grpc+source-override://host:port/client`. */
  readonly url: string;
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
  /** Only the older API can say `false`: what changes in git is then left to the intervals, and to who asks. */
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
  readonly args?: Readonly<Record<string, unknown>> | undefined;
  readonly images: readonly Readonly<Record<string, unknown>>[];
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

/** What the status keeps of a CommandResult, as far as decisions read it; `document` is the whole. */
export interface CommandSummary {
  readonly document: Readonly<Record<string, unknown>>;
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
  readonly document: Readonly<Record<string, unknown>>;
  readonly id: string;
  readonly endTime: string;
  readonly errors: number;
  readonly warnings: number;
}

export interface DriftSummary {
  readonly document: Readonly<Record<string, unknown>>;
  readonly endTime: string;
}

/** The status as other tools of kluctl read it. Parsed leniently: what cannot be read counts as absent. */
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

/** In the order in which they are worked off. */
export const manualCommands = ["diff", "deploy", "prune", "validate"] as const;
export type ManualCommand = (typeof manualCommands)[number];
/** What a person can ask of one deployment, by an annotation. */
export type ManualKind = ManualCommand | "reconcile";

export const manualKinds: readonly ManualKind[] = [...manualCommands, "reconcile"];

/** Holds the request until it is taken. */
export function requestAnnotation(kind: ManualKind): string {
  return `kluctl.io/request-${kind}`;
}

export interface ManualRequest {
  /** Names the request: whoever asked waits for an answer that carries it. */
  readonly requestValue: string;
  /** A JSON merge patch of the resource, for this once. */
  readonly overridesPatch?: Readonly<Record<string, unknown>> | undefined;
}

/** What became of the last request of its kind. */
export interface ManualResult {
  readonly request: ManualRequest;
  /** RFC 3339. */
  readonly startTime: string;
  /** Whoever asked stops waiting when it is there. */
  readonly endTime?: string | undefined;
  readonly reconcileId: string;
  /** Under which the result is stored. */
  readonly resultId?: string | undefined;
  readonly commandError?: string | undefined;
}

export type ManualResultField = `${ManualKind}RequestResult`;
export type ManualResults = { readonly [Field in ManualResultField]?: ManualResult | undefined };

/** Where in the status the answer is. */
export function manualResultField(kind: ManualKind): ManualResultField {
  return `${kind}RequestResult`;
}

/** The part of a resource that is sound whatever its spec says. */
export interface DeploymentIdentity {
  readonly key: Key;
  /** Of one of the older API; the others are `gitops.kluctl.io/v1beta1`. */
  readonly apiVersion?: string | undefined;
  readonly uid: string;
  readonly generation: number;
  readonly resourceVersion: string;
  readonly annotations: Readonly<Record<string, string>>;
  readonly finalizers: readonly string[];
  /** Set once somebody deleted it and its finalizers have to be worked off. */
  readonly deletionTimestamp?: string | undefined;
  readonly status: DeploymentStatus;
}

export interface Deployment extends DeploymentIdentity {
  readonly spec: DeploymentSpec;
  /** What somebody asked by, in the way of the older API, that it is deployed whether or not anything changed. */
  readonly deployAsked?: string | undefined;
  /** Identity of `spec.source.git.url`; absent if its source is something else. */
  readonly repo?: RepoId | undefined;
}

/** One that follows a git repository: webhooks, sweeps and previews are about these. */
export interface GitDeployment extends Deployment {
  readonly spec: DeploymentSpec & { readonly source: GitSource };
  readonly repo: RepoId;
}

/** One that follows an artifact of a registry. */
export interface OciDeployment extends Deployment {
  readonly spec: DeploymentSpec & { readonly source: OciSource };
}

export function followsGit(deployment: Deployment | MalformedDeployment): deployment is GitDeployment {
  return !isMalformed(deployment) && deployment.spec.source.kind === "git" && deployment.repo !== undefined;
}

/** A resource whose spec cannot be read; `problem` names each bad field and what to do. */
export interface MalformedDeployment extends DeploymentIdentity {
  readonly problem: string;
}

export function isMalformed(deployment: Deployment | MalformedDeployment): deployment is MalformedDeployment {
  return "problem" in deployment;
}

/** Annotations of ours and of kluctl's that mean something on a KluctlDeployment. */
export const annotation = {
  /** `"false"`: webhooks never concern this deployment. */
  webhooks: "towline.dev/webhooks",
  /** Comma- or newline-separated globs, from the repository's root, that concern it besides its own path. */
  paths: "towline.dev/paths",
  /** `"false"`: pull requests are not previewed for this deployment. */
  preview: "towline.dev/preview",
  /** `"true"`: isolated previews decrypt with the deployment's keys, so that whoever can push a branch can read it all. */
  previewDecrypt: "towline.dev/preview-decrypt",
  /** Commits of forks that may be previewed for this deployment; `towline preview --allow` writes it. */
  allowPreview: "towline.dev/allow-preview",
  /** The hash that a prune which waits for somebody to confirm it has named. */
  confirmPrune: "towline.dev/confirm-prune",
  /** Comma-separated names, `name` or `namespace/name`, of the deployments that have to be ready before this one. */
  dependsOn: "towline.dev/depends-on",
  /** At the latest after this long a loop is a real one, even if nothing can have changed. */
  fullInterval: "towline.dev/full-interval",
} as const;

/** Upstream's finalizer; the same, so that either controller can finish what the other began. */
export const finalizer = "finalizers.gitops.kluctl.io";
