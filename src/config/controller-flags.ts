/**
 * The options of `kluctl controller run`, and what each is in our configuration: an image can be exchanged and its
 * arguments and `KLUCTL_*` variables stay. Pure.
 */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { ConfigError } from "../errors.ts";
import type { KluctlFile } from "./kluctl-file.ts";
import type { ConfigSources } from "./merge.ts";

export interface ControllerFlag {
  /** As it is written: `--kubeconfig`. */
  readonly name: string;
  readonly kind: "text" | "boolean" | "integer";
  readonly description: string;
  /** The key of ours that it sets; without one it has no meaning here, and is taken so that nothing has to be changed. */
  readonly path?: string;
  /** Where the key speaks another language. */
  readonly to?: (value: string | boolean | number) => unknown;
}

export const controllerFlags: readonly ControllerFlag[] = [
  { name: "--kubeconfig", kind: "text", path: "kubernetes.kubeconfig", description: "kubeconfig to use" },
  { name: "--context", kind: "text", path: "kubernetes.context", description: "context in the kubeconfig" },
  {
    name: "--controller-name",
    kind: "text",
    path: "controllerName",
    description: "field manager, event source and label of metrics (kluctl-controller)",
  },
  {
    name: "--controller-namespace",
    kind: "text",
    path: "controllerNamespace",
    description: "namespace that the controller runs in (kluctl-system)",
  },
  { name: "--namespace", kind: "text", description: "namespace to watch, besides the controller's own; else all" },
  {
    name: "--metrics-bind-address",
    kind: "text",
    path: "metrics.bindAddress",
    description: "address of /metrics, 0 for none (:8080)",
  },
  {
    name: "--health-probe-bind-address",
    kind: "text",
    path: "probes.bindAddress",
    description: "address of /healthz and /readyz, 0 for none (:8081)",
  },
  {
    name: "--source-override-bind-address",
    kind: "text",
    path: "sourceOverride.bindAddress",
    description: "address for source overrides, 0 for none (:8082)",
  },
  {
    name: "--leader-elect",
    kind: "boolean",
    path: "leaderElection",
    to: (on) => (on ? "exclusive" : "off"),
    description: "let only one controller work at a time",
  },
  {
    name: "--concurrency",
    kind: "integer",
    path: "concurrency",
    to: (count) => Math.max(1, Number(count)),
    description: "how many KluctlDeployments are worked on at once (4)",
  },
  {
    name: "--default-service-account",
    kind: "text",
    path: "defaultServiceAccount",
    description: "service account of deployments that name none",
  },
  { name: "--dry-run", kind: "boolean", path: "dryRun", description: "apply nothing, whatever the deployments say" },
  {
    name: "--command-result-namespace",
    kind: "text",
    path: "results.namespace",
    description: "namespace of stored results (kluctl-results)",
  },
  {
    name: "--write-command-result",
    kind: "boolean",
    path: "results.write",
    description: "store results in the cluster (true)",
  },
  {
    name: "--keep-command-results-count",
    kind: "integer",
    path: "results.keepCommands",
    description: "command results to keep of each project and target (5)",
  },
  {
    name: "--keep-validate-results-count",
    kind: "integer",
    path: "results.keepValidates",
    description: "validate results to keep of each project and target (2)",
  },
  {
    name: "--debug",
    kind: "boolean",
    path: "log.level",
    to: (on) => (on ? "debug" : undefined),
    description: "log more",
  },
  {
    name: "--use-system-python",
    kind: "boolean",
    path: "kluctl.systemPython",
    description: "render with python3 on PATH",
  },
  // Of kluctl's other commands, or of programs written in Go.
  { name: "--force-write-command-result", kind: "boolean", description: "without effect, as in kluctl's controller" },
  { name: "--no-update-check", kind: "boolean", description: "without effect: there is no such check" },
  { name: "--no-color", kind: "boolean", description: "without effect: log lines are JSON" },
  { name: "--cpu-profile", kind: "text", description: "without effect: this is no Go program" },
  { name: "--gops-agent", kind: "boolean", description: "without effect: this is no Go program" },
  { name: "--gops-agent-addr", kind: "text", description: "without effect: this is no Go program" },
];

/** What is kluctl's default, or would change what runs already, where ours is another. */
const defaults = {
  "log.format": "json",
  leaderElection: "off",
  "metrics.bindAddress": ":8080",
  "probes.bindAddress": ":8081",
  "sourceOverride.bindAddress": ":8082",
  "admin.enabled": false,
  "webhooks.port": 8083, // 8080 is the metrics'
  "prune.confirm": false, // there, nothing waits for a word
  "shutdown.drain": "5s", // its pods have 10 s to end
};

export interface ControllerInput {
  /** By the option's name, as typed: a text, or true for one without a value. */
  readonly argv: Readonly<Record<string, unknown>>;
  readonly env: ConfigSources["env"];
  /** kluctl's own configuration file, if there is one. */
  readonly file?: KluctlFile | undefined;
  /** Where a server would keep its data that is told of no other place. */
  readonly dataDir: string;
  /** What the container may use; 0 if that is not limited. */
  readonly memoryBytes: number;
}

/**
 * For the one configuration there is. Options come before `KLUCTL_*`, these before kluctl's file, and all before
 * `TOWLINE_*` and Towline's file.
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
  if (problems.length > 0) throw new ConfigError(["the command line is not valid", ...problems].join("\n"));

  const namespace = given.get("--namespace");
  const controllerNamespace =
    given.get("--controller-namespace") ?? (env["TOWLINE_CONTROLLER_NAMESPACE"] || "kluctl-system");
  if (namespace !== undefined) {
    // kluctl's controller also sees the deployments beside itself.
    flags["kubernetes.namespaces"] = [...new Set([namespace, controllerNamespace])];
    flagNames["kubernetes.namespaces"] = "--namespace";
  }
  // Controllers of several clusters or namespaces may run on one machine, and were never told of a directory.
  const which = [given.get("--kubeconfig"), given.get("--context"), namespace, controllerNamespace];
  const id = createHash("sha256").update(JSON.stringify(which)).digest("hex").slice(0, 8);
  return {
    flags,
    flagNames,
    defaults: {
      ...defaults,
      concurrency: concurrencyFor(memoryBytes),
      dataDir: join(dataDir, id), // short: what renderers are started from must not have a long path
    },
  };
}

/** Where it is said, and what: by an option, a variable or the file, in this order. */
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
 * kluctl's 4, unless the memory would not do: its pods have 512 MiB, which its workers share, and here each runs a
 * process of about 120 MB beside the 160 MB of the server, its Redis and its renderers.
 */
function concurrencyFor(memoryBytes: number): number {
  if (memoryBytes <= 0) return 4;
  return Math.min(4, Math.max(1, Math.floor((memoryBytes / 1_000_000 - 160) / 120)));
}

const words = { text: "text", boolean: "true or false", integer: "a whole number" };

/** As Go's own parsers read it; `undefined` if they would not. A file has whole numbers and booleans of its own. */
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
