/** Traces a commit through each deployment. Pure. */
import type { DeliveryRecord } from "../model/delivery-record.ts";
import { deployedCommitOf } from "../model/last-deploy.ts";
import type { Ignored } from "../model/receipt.ts";
import type { Preview } from "../model/report.ts";
import {
  type Deployment,
  type DeploymentStatus,
  isMalformed,
  keyText,
  type MalformedDeployment,
  manualCommands,
  manualResultField,
  type StoredCommand,
} from "../model.ts";
import { isReconciling, pendingCommitOf, readyCondition } from "../reconcile/status/conditions.ts";
import { namesIncludes } from "./rendered-from.ts";
import { stateOf } from "./state.ts";

export interface TraceStep {
  readonly step: "received" | "queued" | "rendered" | "applied" | "failed" | "healthy" | "note";
  /** Epoch milliseconds. */
  readonly at?: number | undefined;
  readonly words: string;
}

export interface TracedDeployment {
  /** `namespace/name` */
  readonly deployment: string;
  /**
   * `applied`: also if a newer commit was applied since. `unchanged`: the rendered objects do not differ, or it was only a
   * dry run. `in progress`: being reconciled, or interrupted when its server ended, without an outcome yet.
   */
  readonly state: "applied" | "unchanged" | "superseded" | "waiting" | "in progress" | "suspended" | "failed";
  readonly steps: readonly TraceStep[];
}

/** The result of a pull request's preview in one deployment. */
export interface ShownProposal {
  readonly deployment: string;
  /** Of Flux; absent for a KluctlDeployment. */
  readonly kind?: Preview["kind"];
  readonly verdict: string;
}

/** A pull request that proposes the commit, or once did. */
export interface TracedPullRequest {
  /** `gitea:example/shop#7` */
  readonly name: string;
  /** Only http or https. */
  readonly url?: string | undefined;
  readonly baseBranch?: string | undefined;
  /** The current head. */
  readonly head: string;
  /** Whether the current head is this commit. */
  readonly isHead: boolean;
  /** `unknown`: not previewed. */
  readonly state: "working" | "done" | "merged" | "closed" | "unknown";
  /** The commit that contains it, if it was merged and that is known. */
  readonly mergeCommit?: string | undefined;
  /** How the commit relates to the pull request, as a sentence. */
  readonly words: string;
  /** The verdict on the current head; empty if the pull request is closed. */
  readonly verdict: string;
  readonly previews: readonly ShownProposal[];
}

export interface Trace {
  /** The full hash, if known. */
  readonly commit: string | undefined;
  /** Set if the commit was not the newest of its push: the newest one, which is traced instead. */
  readonly within?: string | undefined;
  readonly deliveries: readonly DeliveryRecord[];
  readonly deployments: readonly TracedDeployment[];
  readonly ignored: readonly Ignored[];
  readonly pullRequests: readonly TracedPullRequest[];
}

export interface TraceFacts {
  /** The beginning of a hash, in lower case. */
  readonly commit: string;
  readonly deployments: readonly (Deployment | MalformedDeployment)[];
  /** Those that these deployments are from; empty or absent: all. */
  readonly namespaces?: readonly string[] | undefined;
  readonly results: readonly StoredCommand[];
  /** All stored deliveries. */
  readonly deliveries: readonly DeliveryRecord[];
  readonly pullRequests: readonly TracedPullRequest[];
  /** Deployments with a queued job, as `namespace/name`. */
  readonly queued?: ReadonlySet<string> | undefined;
  readonly now: number;
}

/** The deployments that a delivery of the commit affected, as `namespace/name`. */
export function toldOf(commit: string, deliveries: readonly DeliveryRecord[]): readonly string[] {
  return [...new Set(deliveries.flatMap((one) => (one.commit?.startsWith(commit) ? one.deployments : [])))];
}

export function traceCommit(facts: TraceFacts): Trace {
  const found = traceOne(facts);
  if (found.deployments.length > 0) return found;
  const pushes = facts.deliveries.filter((one) => one.event === "push" && findOther(one, facts.commit) !== undefined);
  // The commit may be on several branches: prefer a delivery for a followed one.
  const push = pushes.toSorted((a, b) => Number(b.matched > 0) - Number(a.matched > 0) || a.at - b.at)[0];
  if (push?.commit === undefined || (found.deliveries.length > 0 && push.matched === 0)) return found;
  const whole = { ...traceOne({ ...facts, commit: push.commit }), within: push.commit };
  return { ...whole, commit: findOther(push, facts.commit) };
}

function findOther({ others = [] }: DeliveryRecord, commit: string): string | undefined {
  return others.find((other) => other.startsWith(commit));
}

function traceOne(facts: TraceFacts): Trace {
  const { commit, deployments, namespaces = [] } = facts;
  const isSelected = (name: string) => namespaces.length === 0 || namespaces.includes(name.split("/")[0] ?? "");
  const isMeant = (other: string | undefined) => other?.startsWith(commit) === true;
  const deliveries = facts.deliveries
    .filter((one) => one.event === "push" && isMeant(one.commit))
    .toSorted((a, b) => a.at - b.at);
  const results = facts.results.filter((one) => isMeant(one.commit)).toSorted((a, b) => a.endedAt - b.endedAt);
  const concerned = new Set([...deliveries.flatMap(concernedBy), ...results.map((one) => one.deployment)]);
  const traced = deployments.filter(
    (one) =>
      concerned.has(keyText(one.key)) ||
      isMeant(one.status.observedCommit) ||
      (!isMalformed(one) && isMeant(pendingCommitOf(one))) ||
      isMeant(stateOf(one, facts.now).deployedCommit),
  );
  const known = [
    deliveries[0]?.commit,
    results[0]?.commit,
    ...traced.map(({ status }) => status.observedCommit),
    ...facts.pullRequests.map(({ head }) => head),
  ];
  return {
    commit: known.find(isMeant),
    deliveries,
    deployments: traced.map((one) =>
      traceDeployment(one, { ...facts, deliveries, results, all: facts.deliveries }, isMeant),
    ),
    ignored: deliveries
      .flatMap((one) => [...one.ignored, ...(one.including ?? []).map(includesIt)])
      .filter(({ deployment }) => isSelected(deployment) && traced.every(({ key }) => keyText(key) !== deployment))
      .toSorted((a, b) => (a.deployment < b.deployment ? -1 : 1)),
    pullRequests: facts.pullRequests,
  };
}

/** Nothing in its status or results names the commit. */
function includesIt(deployment: string): Ignored {
  return { deployment, reason: "includes this repository: it was reconciled, and its own commit stays the same" };
}

/** Includes deployments that ignored it because they were suspended. */
function concernedBy({ deployments, including = [], ignored }: DeliveryRecord): readonly string[] {
  const following = deployments.filter((deployment) => !including.includes(deployment));
  return [...following, ...ignored.flatMap(({ deployment, reason }) => (reason === "suspended" ? [deployment] : []))];
}

/** Longer than a push normally waits for its reconciliation. */
const settledMs = 5_000;

function traceDeployment(
  deployment: Deployment | MalformedDeployment,
  facts: TraceFacts & { readonly all: readonly DeliveryRecord[] },
  isMeant: (commit: string | undefined) => boolean,
): TracedDeployment {
  const name = keyText(deployment.key);
  const { status } = deployment;
  const received = facts.deliveries.find((one) => concernedBy(one).includes(name));
  const commands = facts.results.filter((one) => one.deployment === name && one.command === "deploy");
  const steps: TraceStep[] = received
    ? [
        { step: "received", at: received.at, words: `by forge ${received.forge}, response ${received.status}` },
        ...(received.deployments.includes(name)
          ? [{ step: "queued", at: received.at + received.ms, words: "" } as const]
          : []),
      ]
    : [];
  const [first] = commands;
  if (first) steps.push({ step: "rendered", at: first.startedAt, words: "" });
  for (const { errors, endedAt: at, changes, dryRun } of commands) {
    if (dryRun && errors === 0)
      steps.push({ step: "note", at, words: `dry run: ${changes || "nothing"} would be applied` });
    else if (errors > 0) steps.push({ step: "failed", at, words: errors === 1 ? "1 error" : `${errors} errors` });
    else steps.push({ step: "applied", at, words: changes || "no differences" });
  }
  const tried = commands.some(({ errors, dryRun }) => errors === 0 && dryRun);
  const applied = !tried && (commands.some(({ errors }) => errors === 0) || isDeployed(deployment, isMeant));
  const state = { deployment: name, steps };
  const observed = status.observedCommit;
  const inProgress = (): TracedDeployment => {
    const words = status.conditions.find(({ type }) => type === "Reconciling")?.message ?? "";
    return { ...state, state: "in progress", steps: [...steps, { step: "note", words }] };
  };
  const isSuspended = !isMalformed(deployment) && deployment.spec.suspend;
  const suspended = (): TracedDeployment => {
    const words = "not deployed until it is resumed (`towline resume`)";
    return { ...state, state: "suspended", steps: [...steps, { step: "note", words }] };
  };
  if (!isMeant(observed)) {
    const newer = observed?.slice(0, 7) ?? "none";
    // The result of a deploy is stored before the status is updated.
    const isAhead = (commands.at(-1)?.endedAt ?? 0) > (timeOf(status.lastDeployResult?.endTime) ?? 0);
    if (isAhead && isReconciling(status)) return inProgress();
    if (applied) steps.push({ step: "note", words: `superseded by ${newer}` });
    if (applied) return { ...state, state: "applied" };
    if (isSuspended) return suspended();
    const isOlder = received && facts.queued?.has(name) !== true && isBefore(received, status, facts);
    if (observed !== undefined && isOlder) {
      return { ...state, state: "superseded", steps: [...steps, { step: "note", words: `superseded by ${newer}` }] };
    }
    if (commands.length > 0) return { ...state, state: "failed" };
    const words = stateOf(deployment, facts.now).why ?? `still at ${newer}`;
    return { ...state, state: "waiting", steps: [...steps, { step: "note", words }] };
  }
  if (isReconciling(status) && !(applied && isDeployedBefore(status, commands))) return inProgress();
  if (isSuspended && !applied && isOnlyShown(status)) return suspended();
  // Its stored result may have been removed.
  const failed = !applied && !tried && isMeant(stateOf(deployment, facts.now).deployedCommit);
  return endOf(deployment, state, { applied, tried, failed }, facts.now);
}

/** Whether what the deployment reconciled is as new as this push, according to its status and the other deliveries. */
export function isBefore(
  push: DeliveryRecord,
  status: DeploymentStatus,
  { all, now }: { readonly all: readonly DeliveryRecord[]; readonly now: number },
): boolean {
  return isReconciledSince(status, push.at, now) || isPushedAfter(status.observedCommit, push, all);
}

/** Whether a reconciliation that began after this time has recorded its commit. */
export function isReconciledSince(status: DeploymentStatus, at: number, now: number): boolean {
  return isAfter(lookBegan(status), at, now);
}

/** Traces the end of a commit that is still the newest. */
function endOf(
  deployment: Deployment | MalformedDeployment,
  { deployment: name, steps }: Pick<TracedDeployment, "deployment" | "steps">,
  { applied, tried, failed }: { readonly applied: boolean; readonly tried: boolean; readonly failed: boolean },
  now: number,
): TracedDeployment {
  const { status } = deployment;
  const ready = readyCondition(status);
  const { why, deployedCommit } = stateOf(deployment, now);
  const more: TraceStep[] = [];
  const { lastValidateResult: validated, lastDeployResult: deployed } = status;
  const unchanged =
    !applied &&
    !tried &&
    !failed &&
    ready?.status === "True" &&
    status.lastPrepareError === undefined && // otherwise the rest of the status is of an earlier commit
    status.lastObjectsHash !== undefined &&
    status.lastObjectsHash === deployed?.document["renderedObjectsHash"];
  if (unchanged) {
    const words = `rendered objects unchanged since ${deployedCommit?.slice(0, 7) ?? "the last deploy"}`;
    more.push({ step: "rendered", at: lookedAt(status), words });
  } else if (!applied && steps.every(({ step }) => step !== "rendered") && status.lastPrepareError === undefined) {
    more.push({ step: "rendered", words: "" });
  }
  if ([...steps, ...more].some(({ step }) => step === "rendered")) more.push(...noteIncludes(deployment));
  const state = (of: TracedDeployment["state"]) => ({ deployment: name, state: of, steps: [...steps, ...more] });
  if (ready?.status === "False") {
    more.push({ step: "failed", words: why ?? ready.message });
    return state("failed");
  }
  if (!applied && !unchanged && !tried) {
    more.push({ step: "note", words: why ?? "not deployed yet" });
    return state("waiting");
  }
  if (ready?.status === "True") {
    const checked = !isMalformed(deployment) && deployment.spec.validate && validated?.errors === 0;
    const at = checked ? Date.parse(validated.endTime) : undefined;
    more.push({ step: "healthy", at, words: checked ? "validated" : "Ready; validation is disabled" });
  } else more.push({ step: "note", words: why ?? "not ready yet" });
  return state(applied ? "applied" : "unchanged");
}

/** A project may include a hundred, and what it includes now is also known of a commit that was not rendered. */
const mostIncludesNamed = 5;

function noteIncludes(deployment: Deployment | MalformedDeployment): TraceStep[] {
  const includes = namesIncludes(deployment);
  if (includes.length === 0) return [];
  const left = includes.length - mostIncludesNamed;
  const named = [...includes.slice(0, mostIncludesNamed), ...(left > 0 ? [`and ${left} more`] : [])];
  return [{ step: "note", words: `also rendered from ${named.join("; ")}` }];
}

/** Whether the current commit came with a later push: the only known time if a deployment cannot be rendered. */
function isPushedAfter(
  commit: string | undefined,
  { at, ref, repoName }: DeliveryRecord,
  all: readonly DeliveryRecord[],
): boolean {
  return all.some(
    (one) =>
      one.event === "push" && one.commit === commit && one.at > at && one.ref === ref && one.repoName === repoName,
  );
}

/** According to the status, if the stored result was removed. */
function isDeployed({ status }: Deployment | MalformedDeployment, isMeant: (commit: string | undefined) => boolean) {
  return isMeant(deployedCommitOf(status.lastDeployResult)) && status.lastDeployResult?.errors === 0;
}

/** Whether the outcome is that of an earlier reconciliation than the one in progress. */
function isDeployedBefore(status: DeploymentStatus, commands: readonly StoredCommand[]): boolean {
  const began = timeOf(status.conditions.find(({ type }) => type === "Reconciling")?.lastTransitionTime) ?? 0;
  return (commands.at(-1)?.endedAt ?? timeOf(status.lastDeployResult?.endTime) ?? Infinity) < began;
}

/** The commit was last seen by a requested command, such as a diff, and not by a reconciliation. */
function isOnlyShown(status: DeploymentStatus): boolean {
  const commands = manualCommands.map((kind) => status[manualResultField(kind)]?.endTime ?? "");
  return commands.some((endTime) => endTime > (status.lastDriftDetectionResult?.endTime ?? ""));
}

/** When the comparison or deploy in the status started: it cannot include later pushes. */
function lookBegan({ lastDriftDetectionResult: last }: DeploymentStatus): number | undefined {
  const { startTime } = (last?.document ?? {}) as { startTime?: string };
  return timeOf(startTime) ?? timeOf(last?.endTime);
}

function timeOf(text: string | undefined): number | undefined {
  const ms = Date.parse(text ?? "");
  return Number.isNaN(ms) ? undefined : ms;
}

function lookedAt({ lastDriftDetectionResult, lastDeployResult }: Deployment["status"]): number | undefined {
  const times = [lastDriftDetectionResult, lastDeployResult].map((one) => Date.parse(one?.endTime ?? ""));
  const known = times.filter((time) => !Number.isNaN(time));
  return known.length > 0 ? Math.max(...known) : undefined;
}

/**
 * Whether the reconciliation that ended at `second` came after the event at `ms`. The status only has whole seconds: within
 * the same second this is known only later, when a further reconciliation would have updated it.
 */
function isAfter(second: number | undefined, ms: number, now: number): boolean {
  if (second === undefined || second <= ms - 1_000) return false;
  return second > ms || now - ms > settledMs;
}
