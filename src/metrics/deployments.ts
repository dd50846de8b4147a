/**
 * Metrics of each deployment, with the names and labels of kluctl's own controller, so that its dashboards and alerts
 * continue to work. Values from spec and status are read at each scrape, so they disappear together with the
 * deployment; measured durations disappear a little later. Two bugs of the original are fixed: `dry_run_enabled` says
 * whether it is a dry run (there it contains the interval), and `deployment_interval_seconds` exists.
 */
import { Counter, Gauge } from "prom-client";
import { type Deployment, isMalformed, type Key, keyText, type MalformedDeployment } from "../model.ts";
import { withoutLogin } from "../model/repo-url.ts";
import { addTextGauge, addTextHistogram, type Labels, type TextRegistry } from "./text-metrics.ts";

type Entry = Deployment | MalformedDeployment;

export interface DeploymentMetricsOptions {
  readonly registry: TextRegistry;
  readonly deployments: () => readonly Entry[];
  /** Whether the server applies nothing, whatever the deployments specify. */
  readonly dryRun: () => boolean;
  readonly concurrency: () => number;
}

export interface DeploymentMetrics {
  kluctlRan(deployment: Key, command: string, seconds: number): void;
  pruned(deployment: Key, seconds: number): void;
  reconcileStarted(): void;
  reconciled(deployment: Key, result: string, seconds: number): void;
  /** The deployment was deleted. */
  gone(deployment: Key): void;
}

type Sample = readonly [value: number, labels?: Labels];

const prefix = "kluctldeployments_";
const kind = "KluctlDeployment";
const own = ["namespace", "name"];
const ofToolkit = ["kind", "name", "namespace"];
const modes: Readonly<Record<string, string>> = { deploy: "full-deploy", "poke-images": "poke-images" };
/** kluctl's abbreviations in the message of a drift, and our label values. */
const drifts: Readonly<Record<string, string>> = { new: "new", chg: "changed", orp: "orphan", del: "deleted" };
/** Ten buckets from 10 ms to half an hour, as in Flux. */
const toolkitBuckets = Array.from({ length: 10 }, (_, i) => 0.01 * 180_000 ** (i / 9));
/** The default buckets of Prometheus's own libraries. */
const defaultBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
/** How long the durations of a deleted deployment can still be scraped, for example that of its deletion. */
const keptMs = 10 * 60_000;

export function createDeploymentMetrics(options: DeploymentMetricsOptions): DeploymentMetrics {
  const { registry, deployments } = options;
  const registers = [registry];
  const lastStatus = createLastStatus();

  /** Each entry is read once: any change replaces it by another object. */
  function gauge(
    name: string,
    help: string,
    labelNames: readonly string[],
    read: (entry: Entry) => readonly Sample[],
    version?: () => unknown,
  ): void {
    addTextGauge(
      registry,
      { name, help, labelNames },
      {
        all: deployments,
        version,
        read(entry) {
          const { namespace, name } = entry.key;
          const first: Labels = labelNames.includes("kind") ? { kind, name, namespace } : { namespace, name };
          return read(entry).map(([value, more]) => [value, { ...first, ...more }]);
        },
      },
    );
  }

  function ofSpec(name: string, help: string, read: (spec: Deployment["spec"]) => number): void {
    gauge(prefix + name, help, own, (entry) => (isMalformed(entry) ? [] : [[read(entry.spec)]]), options.dryRun);
  }
  ofSpec("prune_enabled", "Whether objects that are no longer in the project are pruned.", (spec) =>
    Number(spec.prune),
  );
  ofSpec("delete_enabled", "Whether the objects are deleted together with the deployment.", (spec) =>
    Number(spec.delete),
  );
  ofSpec("dry_run_enabled", "Whether deploys are dry runs.", (spec) => Number(options.dryRun() || spec.dryRun));
  ofSpec(
    "deployment_interval_seconds",
    "The deploy interval if it is set, otherwise the interval of checks.",
    (spec) => (spec.deployIntervalMs ?? spec.intervalMs) / 1_000,
  );
  gauge(
    `${prefix}source_spec`,
    "Source of the project, as labels; the value has no meaning.",
    [...own, "url", "path", "ref"],
    (entry) => (isMalformed(entry) ? [] : [[0, sourceLabels(entry.spec.source)]]),
  );

  type Count = "changedObjects" | "deletedObjects" | "orphanObjects";
  function ofResult(name: string, help: string, count: Count): void {
    gauge(prefix + name, help, own, ({ status }) =>
      status.lastDeployResult ? [[status.lastDeployResult[count]]] : [],
    );
  }
  ofResult("number_of_changed_objects", "Objects that the last deploy changed.", "changedObjects");
  ofResult("number_of_deleted_objects", "Objects that the last deploy deleted.", "deletedObjects");
  ofResult(
    "number_of_orphan_objects",
    "Objects that the last deploy found and that are no longer in the project.",
    "orphanObjects",
  );
  for (const what of ["errors", "warnings"] as const) {
    gauge(`${prefix}number_of_${what}`, `Number of ${what} of the last deploy.`, [...own, "action"], ({ status }) => {
      const { lastDeployResult: last } = status;
      return last ? [[last[what], { action: commandOf(last.document).command ?? "deploy" }]] : [];
    });
  }
  gauge(`${prefix}last_deploy_start_timestamp_seconds`, "Start time of the last deploy.", own, ({ status }) => {
    const startedAt = Date.parse(commandOf(status.lastDeployResult?.document).startTime ?? "");
    return Number.isNaN(startedAt) ? [] : [[startedAt / 1_000]];
  });
  gauge(`${prefix}last_object_status`, "1 if the last reconciliation succeeded, otherwise 0.", own, (entry) => {
    const value = lastStatus(entry, deployments);
    return value === undefined ? [] : [[value]];
  });

  gauge(
    "towline_deployment_drifted_objects",
    "Objects that differ from git as of the last check, by kind of difference.",
    [...own, "how"],
    ({ status: { lastDriftDetectionResultMessage: message } }) =>
      message === undefined ? [] : Object.entries(drifts).map(([word, how]) => [countOf(word, message), { how }]),
  );

  gauge(
    "gotk_reconcile_condition",
    "The condition Ready of a deployment.",
    [...ofToolkit, "type", "status"],
    (entry) => {
      const status = entry.deletionTimestamp === undefined ? (readyOf(entry) ?? "Unknown") : "Deleted";
      return ["True", "False", "Unknown", "Deleted"].map((one) => [
        Number(one === status),
        { type: "Ready", status: one },
      ]);
    },
  );
  gauge("gotk_suspend_status", "Whether a deployment is suspended.", ofToolkit, (entry) =>
    isMalformed(entry) ? [] : [[Number(entry.spec.suspend)]],
  );

  const timed = (name: string, help: string, labelNames: readonly string[], buckets = defaultBuckets) =>
    addTextHistogram(registry, { name, help, labelNames, buckets });
  const deploySeconds = timed(`${prefix}deployment_duration_seconds`, "Duration of a deploy.", [...own, "mode"]);
  const validateSeconds = timed(`${prefix}validate_duration_seconds`, "Duration of a validation.", own);
  const pruneSeconds = timed(`${prefix}prune_duration_seconds`, "Duration of a prune.", own);
  const deleteSeconds = timed(`${prefix}delete_duration_seconds`, "Duration of deleting all objects.", own);
  const lookSeconds = timed(
    "gotk_reconcile_duration_seconds",
    "Duration of a reconciliation.",
    ofToolkit,
    toolkitBuckets,
  );

  const controller = "kluctldeployment";
  const looks = new Counter({
    name: "controller_runtime_reconcile_total",
    help: "Reconciliations of deployments, by result.",
    labelNames: ["controller", "result"],
    registers,
  });
  const failedLooks = new Counter({
    name: "controller_runtime_reconcile_errors_total",
    help: "Failed reconciliations of deployments.",
    labelNames: ["controller"],
    registers,
  });
  const working = new Gauge({
    name: "controller_runtime_active_workers",
    help: "Deployments being reconciled.",
    labelNames: ["controller"],
    registers,
  });
  new Gauge({
    name: "controller_runtime_max_concurrent_reconciles",
    help: "Maximum number of concurrent reconciliations.",
    labelNames: ["controller"],
    registers,
    collect() {
      this.set({ controller }, options.concurrency());
    },
  });
  failedLooks.inc({ controller }, 0);
  working.set({ controller }, 0);

  function forget({ namespace, name }: Key): void {
    for (const mode of Object.values(modes)) deploySeconds.remove({ namespace, name, mode });
    for (const histogram of [validateSeconds, pruneSeconds, deleteSeconds]) histogram.remove({ namespace, name });
    lookSeconds.remove({ kind, name, namespace });
  }

  return {
    kluctlRan({ namespace, name }, command, seconds) {
      const mode = modes[command];
      if (mode !== undefined) deploySeconds.observe({ namespace, name, mode }, seconds);
      else if (command === "validate") validateSeconds.observe({ namespace, name }, seconds);
      else if (command === "delete") deleteSeconds.observe({ namespace, name }, seconds);
    },
    pruned: ({ namespace, name }, seconds) => pruneSeconds.observe({ namespace, name }, seconds),
    reconcileStarted: () => working.inc({ controller }),
    reconciled({ namespace, name }, result, seconds) {
      working.dec({ controller });
      const failed = result === "failed";
      looks.inc({ controller, result: failed ? "error" : "success" });
      if (failed) failedLooks.inc({ controller });
      lookSeconds.observe({ kind, name, namespace }, seconds);
    },
    gone(key) {
      setTimeout(() => {
        if (!deployments().some((entry) => keyText(entry.key) === keyText(key))) forget(key);
      }, keptMs).unref();
    },
  };
}

/** `1 new/2 chg`: kluctl's abbreviations of what it counts. */
function countOf(word: string, message: string): number {
  return Number(new RegExp(`(\\d+) ${word}\\b`).exec(message)?.[1] ?? 0);
}

function readyOf({ status }: Entry): string | undefined {
  return status.conditions.find(({ type }) => type === "Ready")?.status;
}

/** During a reconciliation the condition is unknown: the last known value then counts. */
function createLastStatus() {
  let known = new Map<string, number>();
  return (entry: Entry, deployments: () => readonly Entry[]): number | undefined => {
    const ready = readyOf(entry);
    if (ready === "True" || ready === "False") known.set(entry.uid, Number(ready === "True"));
    if (known.size > 2 * deployments().length + 100) {
      const there = new Set(deployments().map(({ uid }) => uid));
      known = new Map([...known].filter(([uid]) => there.has(uid)));
    }
    return known.get(entry.uid);
  };
}

function commandOf(document: Readonly<Record<string, unknown>> = {}): { command?: string; startTime?: string } {
  return (document["commandInfo"] ?? {}) as { command?: string; startTime?: string };
}

function sourceLabels(source: Deployment["spec"]["source"]): Labels {
  return { url: withoutLogin(source.url), path: source.path, ref: refText(source) };
}

function refText(source: Deployment["spec"]["source"]): string {
  if (source.kind === "oci") {
    const { tag, digest } = source.ref;
    return digest === undefined ? (tag ?? "latest") : `${tag ?? ""}@${digest}`;
  }
  const { branch, tag, commit } = source.ref;
  if (tag !== undefined) return `refs/tags/${tag}`;
  return branch !== undefined ? `refs/heads/${branch}` : (commit ?? "");
}
