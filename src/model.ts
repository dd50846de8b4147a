/** The nouns of the system. Types only, and the few functions that are part of what a noun means. */

/** Names one KluctlDeployment. */
export interface Key {
  readonly namespace: string;
  readonly name: string;
}

/** `namespace/name`, as people write it and as queues and logs carry it. */
export function keyText(key: Key): string {
  return `${key.namespace}/${key.name}`;
}

// ---------------------------------------------------------------------------------------------------------------
// Git

/**
 * A repository's identity: `host[:port]/path`, equal for every spelling of the same repository's URL
 * (see repo-url.ts). It is an index key, never something to connect to.
 */
export type RepoId = string & { readonly __brand: "RepoId" };

/** What a deployment follows: at most one field is set; none means the remote's default branch. */
export interface GitRef {
  readonly branch?: string | undefined;
  readonly tag?: string | undefined;
  readonly commit?: string | undefined;
}

export interface GitSource {
  readonly kind: "git";
  /** As the user wrote it. */
  readonly url: string;
  readonly ref: GitRef;
  /** Relative to the repository's root, without leading or trailing `/`; `""` is the root. */
  readonly path: string;
}

/** An artifact in an OCI registry; nothing tells us that it moved, so it is looked at in its interval. */
export interface OciSource {
  readonly kind: "oci";
  /** As the user wrote it: `oci://registry/repository`. */
  readonly url: string;
  /** Neither means the tag `latest`; a digest goes before a tag. */
  readonly ref: { readonly tag?: string | undefined; readonly digest?: string | undefined };
  /** Relative to the artifact's root, without leading or trailing `/`; `""` is the root. */
  readonly path: string;
}

/** One usable login, from one entry of `spec.credentials.git`; never logged, never in Redis. */
export interface GitCredential {
  /** The host the login is for, with its port unless that is the default; `*` for any (ssh only). */
  readonly host: string;
  /** A glob over the repository's path, when the entry has one. */
  readonly path?: string | undefined;
  /** Names the Secret in error texts; empty for a login of the server's own. */
  readonly secretName: string;
  /** `*` takes the URL's user. */
  readonly username: string;
  readonly password?: string | undefined;
  /** An SSH private key (PEM). */
  readonly identity?: string | undefined;
  readonly knownHosts?: string | undefined;
  /** PEM certificates to trust besides the system's. */
  readonly ca?: string | undefined;
}

/** What TLS needs of a login; PEM all of them. */
interface TlsCredential {
  /** The client's certificate and its key. */
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  /** Certificates to trust besides the system's. */
  readonly ca?: string | undefined;
  /** Whether any certificate of the server will do. */
  readonly insecureSkipTlsVerify: boolean;
}

/** One usable login, from one entry of `spec.credentials.oci`; never logged, never in Redis. */
export interface OciCredential extends TlsCredential {
  /** The registry the login is for, with its port if the URL has one. */
  readonly registry: string;
  /** A glob over the repository, when the entry has one. */
  readonly repository?: string | undefined;
  /** Names the Secret in error texts; empty for a login of the server's own. */
  readonly secretName: string;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  /** Changed for a token at the registry's token service. */
  readonly identityToken?: string | undefined;
  /** Sent as it is. */
  readonly token?: string | undefined;
  readonly plainHttp: boolean;
}

/** One usable login, from one entry of `spec.credentials.helm`; never logged, never in Redis. */
export interface HelmCredential extends TlsCredential {
  /** Instead of the host: what charts call the login. Only kluctl up to 2.22 knows such names. */
  readonly credentialsId?: string | undefined;
  /** The host the login is for, with its port if the URL has one. */
  readonly host: string;
  /** A glob over the path of the Helm repository, when the entry has one. */
  readonly path?: string | undefined;
  /** Names the Secret in error texts. */
  readonly secretName: string;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  /** Whether the login also goes to other hosts that the repository's index names. */
  readonly passCredentialsAll: boolean;
}

/** All logins of a deployment, each list in the order of the spec: first match wins. */
export interface Credentials {
  readonly git: readonly GitCredential[];
  readonly oci: readonly OciCredential[];
  readonly helm: readonly HelmCredential[];
}

export const noCredentials: Credentials = { git: [], oci: [], helm: [] };

/** A repository and the logins that may be tried on it, first match wins. */
export interface Repository {
  readonly url: string;
  readonly credentials: readonly GitCredential[];
}

/** What a remote has now: one `ls-remote`. */
export interface Heads {
  /** Full name of what HEAD points to, e.g. `refs/heads/main`; absent for an empty repository. */
  readonly defaultRef?: string | undefined;
  /** Full ref name → commit (annotated tags are dereferenced). Branches and tags only. */
  readonly commits: ReadonlyMap<string, string>;
}

// ---------------------------------------------------------------------------------------------------------------
// What a git host tells us

/** The files a push touched, as far as the host says. */
export interface ChangedPaths {
  /** False when the list may lack some (forced, created, truncated…): then every path may have changed. */
  readonly complete: boolean;
  readonly paths: readonly string[];
}

interface EventOrigin {
  /** Id of the configured forge that received it. */
  readonly forge: string;
  /** The host's own id of this delivery, the same when it is redelivered. */
  readonly delivery: string;
}

/** A branch or a tag moved, appeared or went away. */
export interface PushEvent extends EventOrigin {
  readonly kind: "push";
  /** Every spelling of the repository's URL that the payload offers. */
  readonly repoUrls: readonly string[];
  /** For people: `org/repo`. */
  readonly repoName: string;
  /** Full ref name: `refs/heads/…` or `refs/tags/…`. */
  readonly ref: string;
  readonly change: "created" | "updated" | "deleted";
  /** The commit after the push; absent when the ref was deleted. */
  readonly after?: string | undefined;
  /** Short name of the repository's default branch, when the host says it. */
  readonly defaultBranch?: string | undefined;
  readonly changed: ChangedPaths;
}

/** A pull or merge request changed. */
export interface PullRequestEvent extends EventOrigin {
  readonly kind: "pull-request";
  readonly repoUrls: readonly string[];
  readonly repoName: string;
  readonly number: number;
  readonly action: "opened" | "updated" | "reopened" | "retargeted" | "closed" | "draft-changed" | "other";
  readonly baseBranch: string;
  readonly head: string;
  readonly fork: boolean;
}

/** A pull or merge request as its forge has it now. */
export interface PullRequest {
  readonly key: PullRequestKey;
  /** Its page. */
  readonly url: string;
  readonly state: "open" | "closed" | "merged";
  readonly draft: boolean;
  /** The newest commit that it proposes. */
  readonly head: string;
  /** Short name of the branch that it would be merged into. */
  readonly baseBranch: string;
  /** Whether the proposed commits live in another repository than the one they would be merged into. */
  readonly fork: boolean;
  /** Every spelling of the base repository's URL that the forge offers. */
  readonly repoUrls: readonly string[];
  /** Epoch milliseconds; of anything about it. */
  readonly updatedAt: number;
}

/** One line of what a forge shows beside a commit. */
export interface CommitStatus {
  /** Names the line: `towline` or `towline/<namespace>/<name>`. */
  readonly context: string;
  /** `canceled`: will never be known, because something newer took its place. */
  readonly state: "pending" | "success" | "failure" | "canceled";
  /** One plain line of text; a forge shortens it to what it can show. */
  readonly description: string;
  /** Where more is to be read. */
  readonly url?: string | undefined;
}

/** A comment of ours on a pull request. */
export interface ForgeComment {
  readonly id: string;
  readonly body: string;
  /** Its own address. */
  readonly url: string;
}

export interface PingEvent extends EventOrigin {
  readonly kind: "ping";
}

/** Genuine, but nothing we act on; `reason` is told to the sender. */
export interface IrrelevantEvent extends EventOrigin {
  readonly kind: "irrelevant";
  readonly reason: string;
}

export type GitEvent = PushEvent | PullRequestEvent | PingEvent | IrrelevantEvent;

// ---------------------------------------------------------------------------------------------------------------
// What is wanted

/** Why a deployment is to be looked at; also the order of urgency, see jobs/queue.ts. */
export type Cause =
  | "push" // a webhook said that its repository moved
  | "manual" // a person asked (kluctl's request annotations)
  | "change" // its resource was created, changed or is being deleted
  | "sweep" // the remote's head differs from what is recorded: a webhook was lost
  | "interval"; // one of its intervals is due

/**
 * What is wanted, of which subject. Names a subject and carries no state: whoever does the work reads what is true then.
 */
export type Request = ReconcileRequest | PreviewRequest | ReportRequest | CommitStatusRequest;

/** Bring one deployment up to date. Carries no commit: whoever does the work resolves the ref then. */
export interface ReconcileRequest {
  readonly kind: "reconcile";
  readonly deployment: Key;
  readonly cause: Cause;
  /** The repository it follows, so that one repository's many deployments cannot starve another's. */
  readonly repo?: RepoId | undefined;
  /** The delivery it came from, for logs. */
  readonly delivery?: string | undefined;
  /** When the delivery was received, epoch milliseconds: start of push-to-applied. */
  readonly receivedAt?: number | undefined;
}

/** Names one pull or merge request. */
export interface PullRequestKey {
  /** Id of the configured forge. */
  readonly forge: string;
  /** The base repository as the forge names it: `org/repo`. */
  readonly repoName: string;
  readonly number: number;
}

/** `forge:org/repo#7`, for logs and queues. */
export function pullRequestText({ forge, repoName, number }: PullRequestKey): string {
  return `${forge}:${repoName}#${number}`;
}

/** Why a pull request is to be previewed. */
export type PreviewCause =
  | "pull-request" // the forge told that it changed
  | "base" // the branch it would be merged into moved, or was deployed
  | "sweep"; // a look at the forge found what no webhook told

/** Find out what merging one pull request would change. */
export interface PreviewRequest {
  readonly kind: "preview";
  readonly pullRequest: PullRequestKey;
  readonly cause: PreviewCause;
  readonly delivery?: string | undefined;
  readonly receivedAt?: number | undefined;
}

/** Bring a pull request's comment and statuses on its forge in line with its report. */
export interface ReportRequest {
  readonly kind: "report";
  readonly pullRequest: PullRequestKey;
}

/** A commit that was pushed to a branch which deployments follow. */
export interface CommitKey {
  readonly forge: string;
  readonly repoName: string;
  readonly commit: string;
}

/** Bring a pushed commit's statuses on its forge in line with what became of it in the cluster. */
export interface CommitStatusRequest {
  readonly kind: "commit-status";
  readonly commit: CommitKey;
  readonly repo: RepoId;
}

/** What one request wants brought up to date; at most one job per subject runs and one waits. */
export function subjectOf(request: Request): string {
  switch (request.kind) {
    case "reconcile":
      return `reconcile:${keyText(request.deployment)}`;
    case "preview":
    case "report":
      return `${request.kind}:${pullRequestText(request.pullRequest)}`;
    case "commit-status": {
      const { forge, repoName, commit } = request.commit;
      return `commit-status:${forge}:${repoName}@${commit}`;
    }
  }
}

/** One try at what a request wants. */
export interface Attempt {
  /** From 1; neither a lease held elsewhere, nor waiting for a forge, nor a hand-back counts. */
  readonly attempt: number;
  readonly lastAttempt: boolean;
  /** Aborts when the work is to be handed back, or with a SupersededError when it is of no use any more. */
  readonly signal: AbortSignal;
}

/** What came of a request. Failures of the work are outcomes too, so that they are reported. */
export type Outcome =
  | { readonly kind: "done"; readonly deployed?: boolean | undefined; readonly commit?: string | undefined }
  | { readonly kind: "skipped"; readonly why: string }
  /** `retry` says who can mend it: time ("soon"), or a person who changes something ("person"). */
  | { readonly kind: "failed"; readonly retry: "soon" | "person"; readonly message: string }
  /** Nothing is wrong with the work: somebody else (a forge, its rate limit) needs time. Does not count as a try. */
  | { readonly kind: "later"; readonly afterMs: number; readonly why: string };

// ---------------------------------------------------------------------------------------------------------------
// A KluctlDeployment (gitops.kluctl.io/v1beta1), parsed where it enters (kube/custom-resource.ts)

export interface CredentialRef {
  readonly host?: string | undefined;
  readonly path?: string | undefined;
  readonly secretName: string;
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
  readonly gitCredentials: readonly CredentialRef[];
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
  /** Somebody asked, in the way of the older API, that it is deployed whether or not anything changed. */
  readonly deployAsked?: boolean | undefined;
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
  /** The hash that a prune which waits for somebody to confirm it has named. */
  confirmPrune: "towline.dev/confirm-prune",
  /** Comma-separated names, `name` or `namespace/name`, of the deployments that have to be ready before this one. */
  dependsOn: "towline.dev/depends-on",
} as const;

/** Upstream's finalizer; the same, so that either controller can finish what the other began. */
export const finalizer = "finalizers.gitops.kluctl.io";

// ---------------------------------------------------------------------------------------------------------------
// What kluctl gives back

export interface ObjectRef {
  readonly group?: string | undefined;
  readonly version?: string | undefined;
  readonly kind: string;
  readonly name: string;
  readonly namespace?: string | undefined;
}

/** One changed field; `unifiedDiff` has no header lines. */
export interface Change {
  readonly type: "insert" | "update" | "delete";
  readonly jsonPath: string;
  readonly oldValue?: unknown;
  readonly newValue?: unknown;
  readonly unifiedDiff?: string | undefined;
}

export interface ResultObject {
  readonly ref: ObjectRef;
  readonly changes: readonly Change[];
  readonly new: boolean;
  readonly orphan: boolean;
  readonly deleted: boolean;
  readonly hook: boolean;
  /** JSON exactly as kluctl wrote it: what the project says, what was there, what the API server answered. */
  readonly rendered?: string | undefined;
  readonly remote?: string | undefined;
  readonly applied?: string | undefined;
}

export interface ResultError {
  readonly ref: ObjectRef;
  readonly message: string;
}

/** What `diff`, `deploy`, `prune`, `delete` or `poke-images` reports. */
export interface CommandResult {
  /** The whole document, as kluctl wrote it: what is stored is this, with a few fields added. */
  readonly document: Readonly<Record<string, unknown>>;
  readonly objects: readonly ResultObject[];
  readonly errors: readonly ResultError[];
  readonly warnings: readonly ResultError[];
  /** Hash over the rendered objects in deployment order, equal to kluctl's own `lastObjectsHash`. */
  readonly objectsHash: string;
}

export interface ValidateResult {
  readonly document: Readonly<Record<string, unknown>>;
  readonly ready: boolean;
  readonly errors: readonly ResultError[];
  readonly warnings: readonly ResultError[];
}
