/**
 * `towline reconcile|suspend|resume`: sends a request to deployments and waits for the outcome. Requests use the annotations
 * and status fields of `kluctl gitops`, so that kluctl's own controller understands them too; for the legacy API those of
 * `flux reconcile`.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import { ApiError, ConfigError } from "../errors.ts";
import { askingManager, resourcePath, suspendPatch } from "../apis/api.ts";
import { apiOf } from "../apis/apis.ts";
import type { KubeClient } from "../kube/client.ts";
import { createLimit } from "../kit/limit.ts";
import { type AnyDeployment, keyText } from "../model.ts";
import { parseDuration } from "../kit/duration.ts";
import { isReconciling } from "../reconcile/status/conditions.ts";
import { stateOf } from "../views/state.ts";
import { createReader, listAllDeployments } from "./list-deployments.ts";
import { clusterConfig, type ClusterFlags, type FoundDeployment, whyUnwatched, withClusterFlags } from "./cluster.ts";
import type { Define, ProgramDeps } from "./commands.ts";
import { untilInterrupted } from "./interrupt.ts";
import { dataOption, toData } from "./output.ts";
import { selectDeployments } from "./select.ts";
import { plain } from "./table.ts";

interface Flags extends ClusterFlags {
  readonly selector?: string;
  readonly all?: true;
  readonly wait: boolean;
  readonly timeout: string;
  readonly output: "text" | "json" | "yaml";
}

/** A request to one deployment. */
interface DeploymentRequest {
  /** Body of the merge patch. */
  readonly patch: Readonly<Record<string, unknown>>;
  /** Printed once the request is written. */
  readonly requested: string;
  /** `undefined` while there is no answer yet. */
  readonly answer: (now: FoundDeployment) => Answer | undefined;
}

/** The request to this deployment, or the answer if nothing is requested. `isNamed`: by name, not by label or `--all`. */
type PlanRequest = (found: FoundDeployment, isNamed: boolean) => DeploymentRequest | Answer;

interface Answer {
  readonly ok: boolean;
  readonly words: string;
}

/** Interval between reads of one deployment; with many deployments, at most `mostPerSecond` reads in total. */
const pollMs = 1_000;
const mostPerSecond = 50;
/** Limit of concurrent requests to the API server. */
const atOnce = 16;

const names = `
Select deployments by name, by label (-l), or all in the selected namespaces (--all). Deployments of the legacy API
(flux.kluctl.io) are supported too: docs/migrate.md.`;

const exitCodes = `
Exit codes:
  0  Done for all deployments; with --no-wait: requested for all
  1  Failed for at least one deployment, or it did not finish within the timeout
  2  Invalid command line or configuration`;

const reconcileHelp = `${names}

Sends the same request as \`kluctl gitops reconcile\` and waits for the result: the newest commit is rendered and compared, and
deployed if something changed. A change that is waiting for approval is not deployed.

A suspended deployment is reconciled only if you name it. It is then deployed like any other, as with kluctl's controller,
and stays suspended. --all and --selector skip suspended deployments. A deployment of the legacy API cannot be reconciled
while it is suspended.

Examples:
  towline reconcile shop/staging
  towline reconcile -n shop --all
  towline reconcile -l team=shop --no-wait        Send the request only
  towline reconcile shop/prod --timeout 30m
${exitCodes}`;

const suspendHelp = `${names}

Sets spec.suspend and waits until the server has observed it. From then on nothing is deployed, whatever is pushed. A
reconciliation in progress is finished first. If the KluctlDeployment itself is managed in git, set spec.suspend there: the
tool that applies it may revert the change.

Examples:
  towline suspend shop/prod
  towline suspend -n shop --all
${exitCodes}`;

const resumeHelp = `${names}

Clears spec.suspend and waits until the changes missed in the meantime are deployed.

Examples:
  towline resume shop/prod
  towline resume -l team=shop
${exitCodes}`;

export const defineReconcile: Define = (command, deps, onCode) => {
  define(command.addHelpText("after", reconcileHelp), deps, onCode, (found, isNamed) => {
    if (isSuspended(found) && !isNamed) return { ok: true, words: "skipped: suspended" };
    return reconcile(found, isNamed);
  });
};

function isSuspended({ resource }: FoundDeployment): boolean {
  return (resource["spec"] as { suspend?: unknown } | undefined)?.suspend === true;
}

function reconcile(found: FoundDeployment, isNamed: boolean): ReturnType<PlanRequest> {
  const api = apiOf(found.deployment);
  if (isSuspended(found) && !api.reconcilesSuspended) {
    const words = `suspended: ${api.name} cannot reconcile a suspended deployment, run \`towline resume\` first`;
    return { ok: false, words };
  }
  // Only this version is patched, so that a deployment suspended in between is not deployed unless it is named.
  const { resourceVersion } = (isNamed ? {} : (found.resource["metadata"] ?? {})) as { resourceVersion?: string };
  const request = { id: randomUUID(), at: new Date().toISOString(), resourceVersion };
  return {
    patch: api.requestPatch("reconcile", request),
    requested: "requested",
    answer({ deployment, resource }) {
      const answered = api.answerTo("reconcile", request, deployment, resource);
      if (answered === undefined) return undefined;
      const { commandError, reconcileId, startTime = "" } = answered;
      if (commandError) return { ok: false, words: commandError };
      // Where requests are acknowledged first, they are done when no reconciliation is in progress any more.
      if (reconcileId === undefined) return isReconciling(deployment.status) ? undefined : verdictOf(deployment);
      // kluctl's own controller answers a moment before it writes the rest of the status.
      const { document, endTime } = deployment.status.lastDriftDetectionResult ?? {};
      const isWritten = document?.["reconcileId"] === reconcileId || (endTime ?? "") > startTime;
      return isWritten ? verdictOf(deployment, reconcileId) : undefined;
    },
  };
}

export const defineSuspend: Define = (command, deps, onCode) => {
  define(command.addHelpText("after", suspendHelp), deps, onCode, () => ({
    patch: suspendPatch(true),
    requested: "spec.suspend is set",
    answer: ({ deployment }) =>
      isSettled(deployment) ? { ok: true, words: "suspended: nothing is deployed" } : undefined,
  }));
};

export const defineResume: Define = (command, deps, onCode) => {
  define(command.addHelpText("after", resumeHelp), deps, onCode, () => ({
    patch: suspendPatch(false),
    requested: "spec.suspend is cleared",
    answer: ({ deployment }) => (isSettled(deployment) ? verdictOf(deployment) : undefined),
  }));
};

function define(
  command: Command,
  { env, out, err }: ProgramDeps,
  onCode: (code: number) => void,
  planRequest: PlanRequest,
) {
  withClusterFlags(command)
    .argument("[names...]", "Deployments: name or namespace/name")
    .option("-l, --selector <labels>", "Deployments with these labels: team=shop,tier!=db")
    .option("--all", "All deployments in the selected namespaces")
    .option("--no-wait", "Send the request without waiting for the result")
    .option("--timeout <duration>", "How long to wait", "10m")
    .addOption(dataOption())
    .action(async (given: readonly string[], flags: Flags) => {
      const timeoutMs = parseDuration(flags.timeout);
      if (timeoutMs === undefined) {
        throw new ConfigError(`--timeout: ${JSON.stringify(flags.timeout)} is not a duration; use 90s, 5m or 1h30m`);
      }
      const ways = [given.length > 0, flags.selector !== undefined, flags.all === true].filter(Boolean).length;
      if (ways !== 1)
        throw new ConfigError("select deployments by name, with --selector or with --all, and only one of these ways");
      const cluster = clusterConfig(env, flags);
      const { kubernetes, namespaces } = cluster;
      const { createKubeClient } = await import("../kube/client.ts"); // `--help` does not wait for it
      const client = createKubeClient(kubernetes);
      try {
        const wanted = { names: given, selector: flags.selector, namespaces };
        const found = await selectDeployments(wanted, (places, selector) =>
          listAllDeployments(client, { ...cluster, namespaces: places, selector, err }),
        );
        if (found.length === 0) throw new Error("no KluctlDeployment matches");
        const wait = flags.wait ? timeoutMs : undefined;
        const limit = createLimit(atOnce);
        const everyMs = Math.max(pollMs, (found.length * 1_000) / mostPerSecond);
        const request: KubeClient["request"] = (one) => limit.run(() => client.request(one));
        const read = createReader({ request });
        const planWatched: PlanRequest = (one, isNamed) => {
          const why = whyUnwatched(one.deployment.key.namespace, cluster);
          return why === undefined ? planRequest(one, isNamed) : { ok: false, words: `not requested: ${why}` };
        };
        const forPeople = flags.output === "text";
        const results = await untilInterrupted((signal) =>
          Promise.all(
            found.map(async (one): Promise<Answer & { deployment: string }> => {
              const deployment = keyText(one.deployment.key);
              const answer = await sendRequest(one, {
                isNamed: given.length > 0,
                request,
                read,
                planRequest: planWatched,
                wait,
                everyMs,
                err,
                signal,
              });
              if (forPeople) (answer.ok ? out : err)(`${deployment}: ${answer.words}\n`);
              return { deployment, ...answer };
            }),
          ),
        );
        if (results === undefined) err("interrupted; the requests stay in effect\n");
        else if (flags.output !== "text") out(toData(flags.output, results));
        onCode(results?.every(({ ok }) => ok) ? 0 : 1);
      } finally {
        client.close();
      }
    });
}

interface SendDeps extends Pick<ProgramDeps, "err"> {
  readonly request: KubeClient["request"];
  readonly read: ReturnType<typeof createReader>;
  readonly planRequest: PlanRequest;
  readonly isNamed: boolean;
  /** Timeout in milliseconds; `undefined`: do not wait. */
  readonly wait: number | undefined;
  readonly everyMs: number;
  readonly signal: AbortSignal;
}

const gone: Answer = { ok: false, words: "the deployment no longer exists" };

/** Writes progress to stderr while waiting. */
async function sendRequest(found: FoundDeployment, deps: SendDeps): Promise<Answer> {
  const { request, read, planRequest, isNamed, wait, everyMs, err, signal } = deps;
  const { key } = found.deployment;
  const name = keyText(key);
  const planned = planRequest(found, isNamed);
  if ("words" in planned) return planned;
  const { patch, requested, answer } = planned;
  try {
    const path = resourcePath(apiOf(found.deployment), key);
    await request({ method: "PATCH", path, query: { fieldManager: askingManager }, body: patch });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status !== 409) return { ok: false, words: `not requested: ${error.message}` };
    const now = await read(found);
    return now === undefined ? gone : sendRequest(now, deps);
  }
  if (wait === undefined) return { ok: true, words: requested };
  const until = Date.now() + wait;
  let shown = "";
  for (;;) {
    const now = await read(found);
    if (now === undefined) return gone;
    const answered = answer(now);
    if (answered !== undefined) return answered;
    const step = stepOf(now.deployment);
    if (Date.now() > until) {
      const hint = "Check that the server runs and watches this namespace: towline doctor";
      return { ok: false, words: `timed out (${step}). ${hint}` };
    }
    if (step !== shown) err(`${name}: ${(shown = step)} …\n`);
    await sleep(everyMs, undefined, { signal });
  }
}

function stepOf({ status }: AnyDeployment): string {
  const step = status.conditions.find(({ type, status: is }) => type === "Reconciling" && is === "True");
  return step === undefined ? "waiting for the server" : plain(step.message) || "in progress";
}

/** Whether the server has observed the current spec and no reconciliation is in progress. */
function isSettled({ status, generation }: AnyDeployment): boolean {
  return (status.observedGeneration ?? 0) >= generation && !isReconciling(status);
}

/** `reconcileId`: the ID of the requested reconciliation. */
function verdictOf(deployment: AnyDeployment, reconcileId?: string): Answer {
  const { ready, why, commit, suspended } = stateOf(deployment, Date.now());
  const message = deployment.status.conditions.find(({ type }) => type === "Ready")?.message ?? "";
  const at = commit === undefined ? "" : ` at ${commit.slice(0, 7)}`;
  if (suspended) {
    const isDeployed = deployment.status.lastDeployResult?.document["reconcileId"] === reconcileId;
    const done = isDeployed ? `deployed because you named it. ${plain(message)}` : "nothing deployed";
    return { ok: true, words: `suspended${at}: ${done}` };
  }
  if (ready === "True") return { ok: true, words: `ready${at}. ${plain(why ?? message)}` };
  return { ok: false, words: plain(why ?? message) };
}
