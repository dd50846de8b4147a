/** Conditions and their messages, in kluctl's own format, because other tools read them. Pure. */
import type {
  CommandResult,
  CommandSummary,
  Condition,
  Deployment,
  DeploymentSpec,
  DeploymentStatus,
  Health,
  ResultError,
} from "../../model.ts";
import { isInterrupted } from "../decide.ts";
import { inOneLine, withFirstError } from "./first-error.ts";

export const reason = {
  progressing: "Progressing",
  prepareFailed: "PrepareFailed",
  diffFailed: "DiffFailed",
  deployFailed: "DeployFailed",
  pruneFailed: "PruneFailed",
  reconcileFailed: "ReconcileFailed",
  validateFailed: "ValidateFailed",
  /** Deployed; its health checks wait for objects. */
  healthPending: "HealthCheckPending",
  healthFailed: "HealthCheckFailed",
  /** The annotation with its health checks is invalid. */
  healthInvalid: "HealthCheckInvalid",
  succeeded: "ReconciliationSucceeded",
} as const;

/** Reasons of events; events about a condition use the condition's reason. */
export const eventReason = {
  waitingForApproval: "WaitingForApproval",
  pruneWaits: "PruneWaits",
  sharedDiscriminator: "SharedDiscriminator",
  deleteFailed: "DeleteFailed",
} as const;

/** Not one of kluctl's: only deployments with health checks have it. */
const healthyType = "Healthy";
const ownTypes: readonly string[] = ["Ready", "Reconciling", healthyType];

/** The API server accepts up to 32 768 characters; kluctl's own controller truncates at this length. */
const maxMessageLength = 20_000;

interface Finding {
  readonly status: Condition["status"];
  readonly reason: string;
  readonly message: string;
}

/** What `Ready` is to say. */
export interface Verdict extends Finding {
  /** What `Healthy` is to say; absent if the deployment has no health checks, or they were not looked at. */
  readonly health?: Finding | undefined;
}

export const inProgress: Verdict = {
  status: "Unknown",
  reason: reason.progressing,
  message: "Reconciliation in progress",
};

/**
 * The verdict for a project that could not be prepared, in the words of the kluctl version in use, because clients wait
 * for those words: the 2.22 controller puts the whole error into Ready, later ones a pointer to it.
 */
export function prepareError(
  message: string,
  inKluctlsWords: string | undefined,
  kluctlVersion: string | undefined,
): { readonly ready: Verdict; readonly error: string } {
  const [major = 0, minor = 0] = (kluctlVersion ?? "").split(".").map(Number);
  const tellsAll = major === 2 && minor <= 22;
  const words = tellsAll ? inKluctlsWords : inKluctlsWords?.replace(": authe", ": http transport: authe");
  const [, count] = /(\d+) errors? occurred:/.exec(message) ?? [];
  const pointer = `prepare failed${count ? ` with ${count} errors` : ""}. Check status.lastPrepareError for details`;
  return {
    ready: {
      status: "False",
      reason: reason.prepareFailed,
      message: tellsAll ? (words ?? message) : `${pointer}: ${inOneLine(message)}`,
    },
    error: words === undefined ? message : `${words} (${message})`,
  };
}

export function readyCondition(status: DeploymentStatus): Condition | undefined {
  return status.conditions.find((condition) => condition.type === "Ready");
}

/** What `Ready` says, and `Healthy` with it. */
export function verdictIn(status: DeploymentStatus): Verdict | undefined {
  const ready = readyCondition(status);
  return ready && { ...ready, health: status.conditions.find(({ type }) => type === healthyType) };
}

/** Whether a reconciliation is in progress, according to the status. */
export function isReconciling({ conditions }: DeploymentStatus): boolean {
  return conditions.some(({ type, status }) => type === "Reconciling" && status === "True");
}

/**
 * The conditions after a step: Ready and Healthy as given (or unchanged), and Reconciling with a message while work is in progress.
 * Conditions of other types belong to other controllers and are kept.
 */
export function toConditions(
  old: readonly Condition[],
  generation: number,
  ready: Verdict | undefined,
  reconciling: string | undefined,
  now: string,
): Condition[] {
  const others = old.filter(({ type }) => !ownTypes.includes(type));
  const verdict = ready ?? old.find(({ type }) => type === "Ready") ?? inProgress;
  const health = ready === undefined ? old.find(({ type }) => type === healthyType) : ready.health;
  const next = [...others, toCondition(old, "Ready", verdict, generation, now)];
  if (health !== undefined) next.push(toCondition(old, healthyType, health, generation, now));
  if (reconciling !== undefined) {
    const working: Verdict = { status: "True", reason: reason.progressing, message: reconciling };
    next.push(toCondition(old, "Reconciling", working, generation, now));
  }
  return next;
}

function toCondition(
  old: readonly Condition[],
  type: string,
  { status, reason, message }: Finding,
  observedGeneration: number,
  now: string,
): Condition {
  const before = old.find((condition) => condition.type === type);
  const lastTransitionTime = before?.status === status ? before.lastTransitionTime : now;
  return { type, status, reason, message: shorten(message), lastTransitionTime, observedGeneration };
}

function shorten(message: string): string {
  return message.length > maxMessageLength ? `${message.slice(0, maxMessageLength)}...` : message;
}

/** The verdict that follows from the recorded results. */
export function verdictOf(spec: DeploymentSpec, status: DeploymentStatus): Verdict {
  const { lastDeployResult: deploy, lastValidateResult: validate } = status;
  if (deploy === undefined) {
    return { status: "False", reason: reason.deployFailed, message: "deployment status unknown" };
  }
  if (isInterrupted(status)) {
    const message =
      "The last deploy failed or was interrupted: which objects were applied is unknown until the next deploy.";
    return { status: "False", reason: reason.deployFailed, message };
  }
  const said = resultMessage(deploy, "deploy");
  if (spec.validate && validate === undefined) {
    return { status: "False", reason: reason.validateFailed, message: `${said} Validation status unknown.` };
  }
  const message = spec.validate && validate ? `${said} ${baseMessage(validate, "validate")}` : said;
  const failed = (why: string): Verdict => ({ status: "False", reason: why, message: withFirstError(message, status) });
  if (deploy.errors > 0) return failed(reason.deployFailed);
  if (spec.validate && validate && validate.errors > 0) return failed(reason.validateFailed);
  return { status: "True", reason: reason.succeeded, message };
}

/** Whether everything is deployed, and only its health checks wait. */
export function isAwaitingHealth(status: DeploymentStatus): boolean {
  const ready = readyCondition(status);
  return ready?.status === "Unknown" && ready.reason === reason.healthPending;
}

const unlessHealthy = {
  waiting: { status: "Unknown", reason: reason.healthPending },
  unhealthy: { status: "False", reason: reason.healthFailed },
  invalid: { status: "False", reason: reason.healthInvalid },
} as const;

const healthy: Finding = { status: "True", reason: reason.succeeded, message: "All objects are healthy." };

/** What is deployed is Ready only if it is healthy too. */
export function withHealth(verdict: Verdict, health: Health | undefined): Verdict {
  if (verdict.status !== "True" || health === undefined) return verdict;
  if (health.kind === "healthy") return { ...verdict, health: healthy };
  const is = unlessHealthy[health.kind];
  const { message } = health;
  return { ...is, message: withNotes(verdict.message, [message]), health: { ...is, message } };
}

/** The verdict with the sentences that `Ready` has beside its health, which `Healthy` has too. */
export function withNotesOf(status: DeploymentStatus, verdict: Verdict): Verdict {
  const { message = verdict.message, health } = verdictIn(status) ?? {};
  return { ...verdict, message: health ? message.replace(` ${health.message}`, () => "") : message };
}

/** Appends our sentences to kluctl's message, which may lack a full stop. */
export function withNotes(message: string, notes: readonly string[]): string {
  return [notes.length === 0 || message.endsWith(".") ? message : `${message}.`, ...notes].join(" ");
}

const pendingPattern = / Suspended: commit ([0-9a-f]{40,64}) is not deployed\.$/;

/** The message of `Ready` for a suspended deployment, with the newer commit that is not deployed, if there is one. */
export function withPendingCommit(message: string, commit: string | undefined): string {
  const plain = message.replace(pendingPattern, "");
  return commit === undefined ? plain : withNotes(plain, [`Suspended: commit ${commit} is not deployed.`]);
}

/** The newer commit that a suspended deployment does not deploy, according to its status. */
export function pendingCommitOf({ spec, status }: Pick<Deployment, "spec" | "status">): string | undefined {
  const [, commit] = pendingPattern.exec(readyCondition(status)?.message ?? "") ?? [];
  return spec.suspend && commit !== status.observedCommit ? commit : undefined;
}

/** `deploy succeeded with 1 warnings. 2 changed objects.` */
export function resultMessage(summary: CommandSummary, command: string): string {
  const counts: [number, string][] = [
    [summary.newObjects, "new objects"],
    [summary.changedObjects, "changed objects"],
    [summary.appliedHookObjects, "hooks run"],
    [summary.deletedObjects, "deleted objects"],
    [summary.orphanObjects, "orphan objects"],
  ];
  const parts = counts.filter(([count]) => count > 0).map(([count, what]) => ` ${count} ${what}.`);
  return baseMessage(summary, command) + parts.join("");
}

/** `deploy failed with 2 errors and 1 warnings.` */
export function baseMessage({ errors, warnings }: { errors: number; warnings: number }, command: string): string {
  if (errors > 0) return `${command} failed with ${errors} errors${warnings > 0 ? ` and ${warnings} warnings` : ""}.`;
  return warnings > 0 ? `${command} succeeded with ${warnings} warnings.` : `${command} succeeded.`;
}

/** Returns `undefined` if the command succeeded. */
export function failureOf({ errors, warnings }: Pick<CommandResult, "errors" | "warnings">, command: string) {
  return errors.length > 0 ? baseMessage({ errors: errors.length, warnings: warnings.length }, command) : undefined;
}

/** The first three errors, for an Event. They must already be masked. */
export function firstErrors(errors: readonly ResultError[]): string {
  return errors
    .slice(0, 3)
    .map(({ ref, message }) => (ref.name ? `${ref.kind}/${ref.name}: ${message}` : message))
    .join(" · ");
}
