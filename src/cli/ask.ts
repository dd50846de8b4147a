/**
 * `towline reconcile|suspend|resume`: what people ask of deployments, and waiting for the answer. They speak as
 * `kluctl gitops` does, by annotation and status, so that kluctl's own controller understands them too.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import { ApiError, ConfigError } from "../errors.ts";
import { askingManager, requestPatch, suspendPatch } from "../kube/asking.ts";
import type { KubeClient } from "../kube/client.ts";
import { createLimit } from "../limit.ts";
import { type Deployment, type Key, keyText, type MalformedDeployment, manualResultField } from "../model.ts";
import { parseDuration } from "../duration.ts";
import { isReconciling } from "../reconcile/conditions.ts";
import { stateOf } from "../reconcile/state.ts";
import {
  clusterConfig,
  type ClusterFlags,
  deploymentPath,
  listDeployments,
  readDeployment,
  withClusterFlags,
} from "./cluster.ts";
import type { Define, ProgramDeps } from "./commands.ts";
import { untilInterrupted } from "./interrupt.ts";
import { selectDeployments } from "./select.ts";
import { plain } from "./table.ts";

interface Flags extends ClusterFlags {
  readonly selector?: string;
  readonly all?: true;
  readonly wait: boolean;
  readonly timeout: string;
}

type Entry = Deployment | MalformedDeployment;

/** What is asked of one deployment. */
interface Ask {
  /** Of a merge patch. */
  readonly patch: Readonly<Record<string, unknown>>;
  /** What is said once it is asked. */
  readonly asked: string;
  /** `undefined` while there is no answer yet; `left`: what it is at. */
  readonly answer: (deployment: Entry) => Answer | undefined;
}

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
by its own annotations: docs/migrate.md.`;

const exitCodes = `
Exit codes:
  0  it is done, for all of them; with --no-wait: it is asked for
  1  it failed for one of them, or there was no answer in time
  2  the command line or the configuration is wrong`;

const reconcileHelp = `${names}

It asks as \`kluctl gitops reconcile\` does, and waits for the result: the newest commit is rendered and compared, and
deployed if something changed. A deployment that is suspended, or waits for approval, is looked at and not deployed.

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
  define(command.addHelpText("after", reconcileHelp), deps, onCode, () => {
    const requestValue = randomUUID();
    return {
      patch: requestPatch("reconcile", requestValue),
      asked: "asked for",
      answer({ status, ...rest }) {
        const result = status[manualResultField("reconcile")];
        if (result?.request.requestValue !== requestValue || !result.endTime) return undefined;
        const { commandError } = result;
        return commandError ? { ok: false, words: commandError } : verdictOf({ status, ...rest } as Entry);
      },
    };
  });
};

export const defineSuspend: Define = (command, deps, onCode) => {
  define(command.addHelpText("after", suspendHelp), deps, onCode, () => ({
    patch: suspendPatch(true),
    asked: "spec.suspend is set",
    answer: (now) =>
      hasSeen(now) && !isReconciling(now.status) ? { ok: true, words: "suspended: nothing is deployed" } : undefined,
  }));
};

export const defineResume: Define = (command, deps, onCode) => {
  define(command.addHelpText("after", resumeHelp), deps, onCode, () => ({
    patch: suspendPatch(false),
    asked: "spec.suspend is taken back",
    answer: (now) => (hasSeen(now) && !isReconciling(now.status) ? verdictOf(now) : undefined),
  }));
};

function define(command: Command, { env, out, err }: ProgramDeps, onCode: (code: number) => void, ask: () => Ask) {
  withClusterFlags(command)
    .argument("[names...]", "which: name, or namespace/name")
    .option("-l, --selector <labels>", "those with these labels: team=shop,tier!=db")
    .option("--all", "all of the namespaces")
    .option("--no-wait", "ask, and do not wait for what comes of it")
    .option("--timeout <duration>", "how long to wait", "10m")
    .action(async (given: readonly string[], flags: Flags) => {
      const timeoutMs = parseDuration(flags.timeout);
      if (timeoutMs === undefined) throw new ConfigError(`--timeout ${flags.timeout} is none: write 90s, 10m or 1h`);
      const ways = [given.length > 0, flags.selector !== undefined, flags.all === true].filter(Boolean).length;
      if (ways !== 1) throw new ConfigError("which ones? Give names, or --selector, or --all; see --help");
      const { kubernetes, namespaces } = clusterConfig(env, flags);
      const { createKubeClient } = await import("../kube/client.ts"); // `--help` does not wait for it
      const client = createKubeClient(kubernetes);
      try {
        const wanted = { names: given, selector: flags.selector, namespaces };
        const found = await selectDeployments(wanted, (places, labels) => listDeployments(client, places, labels));
        if (found.length === 0) throw new Error("there is no KluctlDeployment that fits");
        const keys = found.map(({ deployment }) => deployment.key);
        const wait = flags.wait ? timeoutMs : undefined;
        const limit = createLimit(atOnce);
        const everyMs = Math.max(pollMs, (keys.length * 1_000) / mostPerSecond);
        const request: KubeClient["request"] = (one) => limit.run(() => client.request(one));
        const results = await untilInterrupted((signal) =>
          Promise.all(keys.map((key) => askOne(key, { client: { request }, ask, wait, everyMs, out, err, signal }))),
        );
        if (results === undefined) err("not waiting any longer; what is asked for goes on\n");
        onCode(results?.every(Boolean) ? 0 : 1);
      } finally {
        client.close();
      }
    });
}

interface AskDeps extends Pick<ProgramDeps, "out" | "err"> {
  readonly client: Pick<KubeClient, "request">;
  readonly ask: () => Ask;
  /** For how long; `undefined`: not at all. */
  readonly wait: number | undefined;
  readonly everyMs: number;
  readonly signal: AbortSignal;
}

/** Resolves with whether it went well. */
async function askOne(key: Key, { client, ask, wait, everyMs, out, err, signal }: AskDeps): Promise<boolean> {
  const { patch, asked, answer } = ask();
  const name = keyText(key);
  try {
    await client.request({
      method: "PATCH",
      path: deploymentPath(key),
      query: { fieldManager: askingManager },
      body: patch,
    });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    err(`${name}: not asked: ${error.message}\n`);
    return false;
  }
  if (wait === undefined) {
    out(`${name}: ${asked}\n`);
    return true;
  }
  const until = Date.now() + wait;
  let told = "";
  for (;;) {
    const now = await readDeployment(client, key);
    if (now === undefined) {
      err(`${name}: it is gone\n`);
      return false;
    }
    const found = answer(now.deployment);
    if (found !== undefined) {
      (found.ok ? out : err)(`${name}: ${found.words}\n`);
      return found.ok;
    }
    const step = stepOf(now.deployment);
    if (Date.now() > until) {
      err(`${name}: no answer in time (${step}). Does the server run, and watch this namespace? towline doctor says\n`);
      return false;
    }
    if (step !== told) err(`${name}: ${(told = step)} …\n`);
    await sleep(everyMs, undefined, { signal });
  }
}

function stepOf({ status }: Entry): string {
  const step = status.conditions.find(({ type, status: is }) => type === "Reconciling" && is === "True");
  return step === undefined ? "waiting for the server" : plain(step.message) || "at work";
}

function hasSeen({ status, generation }: Entry): boolean {
  return (status.observedGeneration ?? 0) >= generation;
}

function verdictOf(deployment: Entry): Answer {
  const { ready, why, commit, suspended } = stateOf(deployment, Date.now());
  const message = deployment.status.conditions.find(({ type }) => type === "Ready")?.message ?? "";
  const at = commit === undefined ? "" : ` at ${commit.slice(0, 7)}`;
  if (suspended) return { ok: true, words: `suspended${at}: it was looked at, and nothing is deployed` };
  if (ready === "True") return { ok: true, words: `ready${at}. ${plain(why ?? message)}` };
  return { ok: false, words: plain(why ?? message) };
}
