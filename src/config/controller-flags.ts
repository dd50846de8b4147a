/**
 * The options of `kluctl controller run` and the configuration keys that they set, so that Towline's image can replace kluctl's
 * without changes to arguments and `KLUCTL_*` variables. Pure.
 */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { ConfigError } from "../errors.ts";
import type { KluctlFile } from "./kluctl-file.ts";
import type { ConfigSources } from "./merge.ts";

export interface ControllerFlag {
  /** `--kubeconfig` */
  readonly name: string;
  readonly kind: "text" | "boolean" | "integer";
  readonly description: string;
  /** The configuration key that it sets; absent: accepted without effect. */
  readonly path?: string;
  /** Converts the value, if the key has other values. */
  readonly to?: (value: string | boolean | number) => unknown;
}

export const controllerFlags: readonly ControllerFlag[] = [
  { name: "--kubeconfig", kind: "text", path: "kubernetes.kubeconfig", description: "Kubeconfig" },
  { name: "--context", kind: "text", path: "kubernetes.context", description: "Kubeconfig context" },
  {
    name: "--controller-name",
    kind: "text",
    path: "controllerName",
    description: "Name used as field manager and as source of Events (default: kluctl-controller)",
  },
  {
    name: "--controller-namespace",
    kind: "text",
    path: "controllerNamespace",
    description: "Namespace of this controller and of its leader election Lease (default: kluctl-system)",
  },
  {
    name: "--namespace",
    kind: "text",
    description: "Namespace to watch in addition to the controller's own (default: all)",
  },
  {
    name: "--metrics-bind-address",
    kind: "text",
    path: "metrics.bindAddress",
    description: "Address to listen on for /metrics; 0 disables it (default: :8080)",
  },
  {
    name: "--health-probe-bind-address",
    kind: "text",
    path: "probes.bindAddress",
    description: "Address to listen on for /healthz and /readyz; 0 disables both (default: :8081)",
  },
  {
    name: "--source-override-bind-address",
    kind: "text",
    path: "sourceOverride.bindAddress",
    description: "Address to listen on for source overrides of kluctl gitops; 0 disables it (default: :8082)",
  },
  {
    name: "--leader-elect",
    kind: "boolean",
    path: "leaderElection",
    to: (on) => (on ? "exclusive" : "off"),
    description: "Let only one controller be active at a time",
  },
  {
    name: "--concurrency",
    kind: "integer",
    path: "concurrency",
    to: (count) => Math.max(1, Number(count)),
    description: "Maximum number of concurrent reconciliations (default: 4)",
  },
  {
    name: "--default-service-account",
    kind: "text",
    path: "defaultServiceAccount",
    description: "Service account of deployments without serviceAccountName",
  },
  { name: "--dry-run", kind: "boolean", path: "dryRun", description: "Dry run for all deployments: apply nothing" },
  {
    name: "--command-result-namespace",
    kind: "text",
    path: "results.namespace",
    description: "Namespace of stored results (default: kluctl-results)",
  },
  {
    name: "--write-command-result",
    kind: "boolean",
    path: "results.write",
    description: "Store results in the cluster (default: true)",
  },
  {
    name: "--keep-command-results-count",
    kind: "integer",
    path: "results.keepCommands",
    description: "Command results to keep per project and target (default: 5)",
  },
  {
    name: "--keep-validate-results-count",
    kind: "integer",
    path: "results.keepValidates",
    description: "Validate results to keep per project and target (default: 2)",
  },
  {
    name: "--debug",
    kind: "boolean",
    path: "log.level",
    to: (on) => (on ? "debug" : undefined),
    description: "Log at level debug",
  },
  {
    name: "--use-system-python",
    kind: "boolean",
    path: "kluctl.systemPython",
    description: "Render with python3 on PATH",
  },
  // Options of kluctl's other commands, or specific to Go programs.
  { name: "--force-write-command-result", kind: "boolean", description: "No effect, as in kluctl's controller" },
  { name: "--no-update-check", kind: "boolean", description: "No effect: there is no update check" },
  { name: "--no-color", kind: "boolean", description: "No effect: log lines are JSON" },
  { name: "--cpu-profile", kind: "text", description: "No effect: not a Go program" },
  { name: "--gops-agent", kind: "boolean", description: "No effect: not a Go program" },
  { name: "--gops-agent-addr", kind: "text", description: "No effect: not a Go program" },
];

/** Defaults of kluctl's controller that differ from Towline's, so that replacing it changes no behavior. */
const defaults = {
  "log.format": "json",
  leaderElection: "off",
  "metrics.bindAddress": ":8080",
  "probes.bindAddress": ":8081",
  "sourceOverride.bindAddress": ":8082",
  "admin.enabled": false,
  "webhooks.port": 8083, // 8080 is used for metrics
  "prune.confirm": false, // kluctl's controller never waits for confirmation
  "shutdown.drain": "5s", // the grace period of its pods is 10 s
};

export interface ControllerInput {
  /** By the option's name: a string, or true for an option without a value. */
  readonly argv: Readonly<Record<string, unknown>>;
  readonly env: ConfigSources["env"];
  /** kluctl's own configuration file, if it exists. */
  readonly file?: KluctlFile | undefined;
  /** Default of `dataDir`. */
  readonly dataDir: string;
  /** Memory limit of the container; 0: unlimited. */
  readonly memoryBytes: number;
}

/**
 * Translates to sources of Towline's configuration. Options take precedence over `KLUCTL_*` variables, these over kluctl's
 * file, and all of them over `TOWLINE_*` variables and Towline's file.
 */
export function toConfigSources({
  argv,
  env,
  file,
  dataDir,
  memoryBytes,
}: ControllerInput): Required<Pick<ConfigSources, "flags" | "flagNames" | "defaults">> {
  const flags: Record<string, unknown> = {};
  const flagNames: Record<string, string> = {};
  const problems: string[] = [];
  const given = new Map<string, string>();
  for (const flag of controllerFlags) {
    const [origin, raw] = find(flag, { argv, env, file });
    if (raw === undefined || raw === "") continue;
    const value = parse(flag, raw);
    if (value === undefined) problems.push(`  ${origin}  must be ${words[flag.kind]}`);
    else if (flag.kind === "text") given.set(flag.name, String(value));
    const ours = value === undefined ? undefined : (flag.to?.(value) ?? (flag.to ? undefined : value));
    if (flag.path === undefined || ours === undefined) continue;
    flags[flag.path] = ours;
    flagNames[flag.path] = origin;
  }
  if (problems.length > 0) throw new ConfigError(["the command line is invalid", ...problems].join("\n"));

  const namespace = given.get("--namespace");
  const controllerNamespace =
    given.get("--controller-namespace") ?? (env["TOWLINE_CONTROLLER_NAMESPACE"] || "kluctl-system");
  if (namespace !== undefined) {
    // kluctl's controller also watches its own namespace.
    flags["kubernetes.namespaces"] = [...new Set([namespace, controllerNamespace])];
    flagNames["kubernetes.namespaces"] = "--namespace";
  }
  // Controllers for several clusters or namespaces may run on one machine, and kluctl has no option for a directory.
  const which = [given.get("--kubeconfig"), given.get("--context"), namespace, controllerNamespace];
  const id = createHash("sha256").update(JSON.stringify(which)).digest("hex").slice(0, 8);
  return {
    flags,
    flagNames,
    defaults: {
      ...defaults,
      concurrency: concurrencyFor(memoryBytes),
      dataDir: join(dataDir, id), // short, because the paths of renderers' sockets are limited
    },
  };
}

/** The value of an option and its origin: command line, variable or file, in this order. */
function find(
  { name }: ControllerFlag,
  { argv, env, file }: Pick<ControllerInput, "argv" | "env" | "file">,
): readonly [origin: string, value: unknown] {
  if (argv[name] !== undefined) return [name, argv[name]];
  const key = name.slice(2);
  const variable = `KLUCTL_${key.replaceAll("-", "_").toUpperCase()}`;
  const inFile = file?.values[key] ?? undefined;
  return env[variable] || file === undefined || inFile === undefined
    ? [variable, env[variable]]
    : [`${file.path}: ${key}`, inFile];
}

/**
 * kluctl's default of 4, limited by memory: kluctl's pods have 512 MiB shared by its workers, while here each reconciliation
 * runs a process of about 120 MB, in addition to 160 MB for the server, its Redis and its renderers.
 */
function concurrencyFor(memoryBytes: number): number {
  if (memoryBytes <= 0) return 4;
  return Math.min(4, Math.max(1, Math.floor((memoryBytes / 1_000_000 - 160) / 120)));
}

const words = { text: "text", boolean: "true or false", integer: "a whole number" };

/** Parses like Go's flag package; `undefined` for invalid values. Values of a file may also be integers and booleans. */
function parse({ kind }: ControllerFlag, raw: unknown): string | boolean | number | undefined {
  const value = Number.isInteger(raw) ? String(raw) : raw;
  if (typeof value === "object") return undefined;
  if (kind === "text")
    return typeof value === "boolean" ? String(value) : typeof value === "string" ? value : undefined;
  if (kind === "boolean") {
    if (value === true || /^(?:1|t|T|true|TRUE|True)$/.test(String(value))) return true;
    return /^(?:0|f|F|false|FALSE|False)$/.test(String(value)) ? false : undefined;
  }
  return /^[+-]?\d{1,9}$/.test(String(value)) ? Number(value) : undefined;
}
