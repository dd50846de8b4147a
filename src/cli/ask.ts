/**
 * `towline reconcile|suspend|resume`: what people ask of deployments, and waiting for the answer. They speak as
 * `kluctl gitops` does, by annotation and status, so that kluctl's own controller understands them too; with those of the
 * older API as `flux reconcile` does.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import { ApiError, ConfigError } from "../errors.ts";
import { addressOf, askingManager, isLegacy, legacyRequestPatch, requestPatch, suspendPatch } from "../kube/asking.ts";
import type { KubeClient } from "../kube/client.ts";
import { isSuspended, lastHandledReconcile } from "../kube/legacy/asked.ts";
import { createLimit } from "../limit.ts";
import { type Deployment, keyText, type MalformedDeployment, manualResultField } from "../model.ts";
import { parseDuration } from "../duration.ts";
import { isReconciling } from "../reconcile/conditions.ts";
import { stateOf } from "../reconcile/state.ts";
import { createReader, listOfBothApis } from "./both-apis.ts";
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

type Entry = Deployment | MalformedDeployment;

/** What is asked of one deployment. */
interface Ask {
  /** Of a merge patch. */
  readonly patch: Readonly<Record<string, unknown>>;
  /** What is said once it is asked. */
  readonly asked: string;
  /** `undefined` while there is no answer yet. */
  readonly answer: (now: FoundDeployment) => Answer | undefined;
}

/** What to ask of this one, or the answer where it is not asked. `isNamed`: not picked by label, or with all others. */
type AskOf = (found: FoundDeployment, isNamed: boolean) => Ask | Answer;

interface Answer {
  readonly ok: boolean;
  readonly words: string;
}

/** How often one is looked at; with many, all together no more often than this a second. */
const pollMs = 1_000;
const mostPerSecond = 50;
/** Requests to the API server that are under way at once. */
const atOnce = 16;

const names = `
Instead of names, -l picks by label, and --all takes all of the namespaces. Those of the older API (flux.kluctl.io) are asked
in its own way: docs/migrate.md.`;

const exitCodes = `
Exit codes:
  0  it is done, for all of them; with --no-wait: it is asked for
  1  it failed for one of them, or there was no answer in time
  2  the command line or the configuration is wrong`;

const reconcileHelp = `${names}

It asks as \`kluctl gitops reconcile\` does, and waits for the result: the newest commit is rendered and compared, and
deployed if something changed. What waits for approval is not deployed.

A suspended deployment is reconciled only if you name it. It is then deployed like any other, as with kluctl's controller,
and stays suspended. --all and --selector skip suspended deployments. One of the legacy API cannot be reconciled while it
is suspended.

  towline reconcile shop/staging
  towline reconcile -n shop --all
  towline reconcile -l team=shop --no-wait        only ask
  towline reconcile shop/prod --timeout 30m
${exitCodes}`;

const suspendHelp = `${names}

It sets spec.suspend, and waits until the server has seen it: nothing is deployed any more, whatever is pushed. What
runs already is finished. Where the KluctlDeployment itself comes from git, set spec.suspend there: whoever applies it may set
it back.

  towline suspend shop/prod
  towline suspend -n shop --all
${exitCodes}`;

const resumeHelp = `${names}

It takes spec.suspend back, and waits until what was missed is deployed.

  towline resume shop/prod
  towline resume -l team=shop
${exitCodes}`;

export const defineReconcile: Define = (command, deps, onCode) => {
  define(command.addHelpText("after", reconcileHelp), deps, onCode, ({ deployment, resource }, isNamed) => {
    if (isSuspended(resource) && !isNamed) return { ok: true, words: "skipped: suspended" };
    return isLegacy(deployment) ? reconcileOlder(resource) : reconcileNewer(isNamed ? undefined : resource);
  });
};

/** `unchanged`: only while it is as it was read, so that one which is suspended in between is not deployed. */
function reconcileNewer(unchanged?: FoundDeployment["resource"]): Ask {
  const requestValue = randomUUID();
  const { resourceVersion } = (unchanged?.["metadata"] ?? {}) as { resourceVersion?: string };
  return {
    patch: requestPatch("reconcile", requestValue, resourceVersion),
    asked: "asked for",
    answer({ deployment }) {
      const result = deployment.status[manualResultField("reconcile")];
      if (result?.request.requestValue !== requestValue || !result.endTime) return undefined;
      const { commandError, reconcileId, startTime } = result;
      if (commandError) return { ok: false, words: commandError };
      // kluctl's own controller answers a moment before it writes the rest of the status.
      const { document, endTime } = deployment.status.lastDriftDetectionResult ?? {};
      const isWritten = document?.["reconcileId"] === reconcileId || (endTime ?? "") > startTime;
      return isWritten ? verdictOf(deployment, reconcileId) : undefined;
    },
  };
}

function reconcileOlder(resource: FoundDeployment["resource"]): ReturnType<AskOf> {
  if (isSuspended(resource)) {
    return {
      ok: false,
      words: "suspended: the legacy API reconciles no suspended deployment, run `towline resume` first",
    };
  }
  const requestValue = new Date().toISOString(); // as `flux reconcile` writes it
  return {
    patch: legacyRequestPatch("reconcile", requestValue),
    asked: "asked for",
    // It is taken first, and done when nothing is at work any more.
    answer: ({ deployment, resource: now }) =>
      lastHandledReconcile(now) === requestValue && !isReconciling(deployment.status)
        ? verdictOf(deployment)
        : undefined,
  };
}

export const defineSuspend: Define = (command, deps, onCode) => {
  define(command.addHelpText("after", suspendHelp), deps, onCode, () => ({
    patch: suspendPatch(true),
    asked: "spec.suspend is set",
    answer: ({ deployment }) =>
      isSettled(deployment) ? { ok: true, words: "suspended: nothing is deployed" } : undefined,
  }));
};

export const defineResume: Define = (command, deps, onCode) => {
  define(command.addHelpText("after", resumeHelp), deps, onCode, () => ({
    patch: suspendPatch(false),
    asked: "spec.suspend is taken back",
    answer: ({ deployment }) => (isSettled(deployment) ? verdictOf(deployment) : undefined),
  }));
};

function define(command: Command, { env, out, err }: ProgramDeps, onCode: (code: number) => void, askOf: AskOf) {
  withClusterFlags(command)
    .argument("[names...]", "which: name, or namespace/name")
    .option("-l, --selector <labels>", "those with these labels: team=shop,tier!=db")
    .option("--all", "all of the namespaces")
    .option("--no-wait", "ask, and do not wait for what comes of it")
    .option("--timeout <duration>", "how long to wait", "10m")
    .addOption(dataOption())
    .action(async (given: readonly string[], flags: Flags) => {
      const timeoutMs = parseDuration(flags.timeout);
      if (timeoutMs === undefined) throw new ConfigError(`--timeout ${flags.timeout} is none: write 90s, 10m or 1h`);
      const ways = [given.length > 0, flags.selector !== undefined, flags.all === true].filter(Boolean).length;
      if (ways !== 1) throw new ConfigError("which ones? Give names, or --selector, or --all; see --help");
      const cluster = clusterConfig(env, flags);
      const { kubernetes, namespaces } = cluster;
      const { createKubeClient } = await import("../kube/client.ts"); // `--help` does not wait for it
      const client = createKubeClient(kubernetes);
      try {
        const wanted = { names: given, selector: flags.selector, namespaces };
        const found = await selectDeployments(wanted, (places, selector) =>
          listOfBothApis(client, { ...cluster, namespaces: places, selector, err }),
        );
        if (found.length === 0) throw new Error("there is no KluctlDeployment that fits");
        const wait = flags.wait ? timeoutMs : undefined;
        const limit = createLimit(atOnce);
        const everyMs = Math.max(pollMs, (found.length * 1_000) / mostPerSecond);
        const request: KubeClient["request"] = (one) => limit.run(() => client.request(one));
        const read = createReader({ request });
        const askWatched: AskOf = (one, isNamed) => {
          const why = whyUnwatched(one.deployment.key.namespace, cluster);
          return why === undefined ? askOf(one, isNamed) : { ok: false, words: `not asked: ${why}` };
        };
        const forPeople = flags.output === "text";
        const results = await untilInterrupted((signal) =>
          Promise.all(
            found.map(async (one): Promise<Answer & { deployment: string }> => {
              const deployment = keyText(one.deployment.key);
              const told = await askOne(one, {
                isNamed: given.length > 0,
                request,
                read,
                askOf: askWatched,
                wait,
                everyMs,
                err,
                signal,
              });
              if (forPeople) (told.ok ? out : err)(`${deployment}: ${told.words}\n`);
              return { deployment, ...told };
            }),
          ),
        );
        if (results === undefined) err("not waiting any longer; what is asked for goes on\n");
        else if (flags.output !== "text") out(toData(flags.output, results));
        onCode(results?.every(({ ok }) => ok) ? 0 : 1);
      } finally {
        client.close();
      }
    });
}

interface AskDeps extends Pick<ProgramDeps, "err"> {
  readonly request: KubeClient["request"];
  readonly read: ReturnType<typeof createReader>;
  readonly askOf: AskOf;
  readonly isNamed: boolean;
  /** For how long; `undefined`: not at all. */
  readonly wait: number | undefined;
  readonly everyMs: number;
  readonly signal: AbortSignal;
}

const gone: Answer = { ok: false, words: "it is gone" };

/** Progress is told on the way. */
async function askOne(found: FoundDeployment, deps: AskDeps): Promise<Answer> {
  const { request, read, askOf, isNamed, wait, everyMs, err, signal } = deps;
  const { key } = found.deployment;
  const name = keyText(key);
  const ask = askOf(found, isNamed);
  if ("words" in ask) return ask;
  const { patch, asked, answer } = ask;
  try {
    const path = addressOf(key, isLegacy(found.deployment));
    await request({ method: "PATCH", path, query: { fieldManager: askingManager }, body: patch });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status !== 409) return { ok: false, words: `not asked: ${error.message}` };
    const now = await read(found);
    return now === undefined ? gone : askOne(now, deps);
  }
  if (wait === undefined) return { ok: true, words: asked };
  const until = Date.now() + wait;
  let said = "";
  for (;;) {
    const now = await read(found);
    if (now === undefined) return gone;
    const told = answer(now);
    if (told !== undefined) return told;
    const step = stepOf(now.deployment);
    if (Date.now() > until) {
      const hint = "Does the server run, and watch this namespace? towline doctor says";
      return { ok: false, words: `no answer in time (${step}). ${hint}` };
    }
    if (step !== said) err(`${name}: ${(said = step)} …\n`);
    await sleep(everyMs, undefined, { signal });
  }
}

function stepOf({ status }: Entry): string {
  const step = status.conditions.find(({ type, status: is }) => type === "Reconciling" && is === "True");
  return step === undefined ? "waiting for the server" : plain(step.message) || "at work";
}

/** Whether the server has seen the spec as it is, and is through with it. */
function isSettled({ status, generation }: Entry): boolean {
  return (status.observedGeneration ?? 0) >= generation && !isReconciling(status);
}

/** `reconcileId`: of the reconciliation that was requested. */
function verdictOf(deployment: Entry, reconcileId?: string): Answer {
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
