/** `towline replay`: what recorded deliveries would affect with a changed configuration. */
import type { Config } from "../config.ts";
import { ConfigError } from "../errors.ts";
import { parseDuration } from "../kit/duration.ts";
import type { AnyDeployment } from "../model.ts";
import type { RecordedDelivery } from "../model/recorded-delivery.ts";
import { repoId } from "../model/repo-url.ts";
import type { ReadRecord, Recordings } from "../redis/recorded-deliveries.ts";
import { clusterConfig, type ClusterConfig } from "./cluster.ts";
import type { Define, ProgramDeps } from "./commands.ts";
import { createComparison, type MatchingDifference } from "./compare-matching.ts";
import { loadFromFlags, readFile } from "./configuration.ts";
import { describeError } from "./describe-error.ts";
import { describeReplay, type Replay, totalsOf } from "./describe-replay.ts";
import { untilInterrupted } from "./interrupt.ts";
import { listAllDeployments } from "./list-deployments.ts";
import { readManifests, withManifests } from "./manifests.ts";
import { dataOption, toData, withTimes } from "./output.ts";
import { withRedis } from "./redis.ts";
import { createProgress } from "./terminal.ts";

interface Flags {
  readonly since: string;
  readonly config?: string;
  readonly currentConfig?: string;
  readonly deployments?: readonly string[];
  readonly forge?: string;
  readonly repo?: string;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly output: "text" | "json" | "yaml";
}

const help = `
Matches each recorded delivery against the current configuration and against the changed one, with the KluctlDeployments in
the cluster, and shows which deployments would be affected by only one of them, and why. Nothing is sent, queued or changed.

Deliveries are recorded if recording.enabled is set (docs/webhooks.md). They are in the server's Redis, so this command needs
the server's configuration: the variables, and the file in TOWLINE_CONFIG or --current-config. It also names the cluster.
Variables apply to both configurations. To have all of that, run the command in the server's pod.

  +   Affected with the changed configuration only; the reason why it is not affected now
  -   Affected with the current configuration only; the reason why it would not be any more

Signatures are not checked again: a changed webhook secret makes no difference here.

Examples:
  towline replay --since 7d --config new.yaml
  towline replay --since 36h --deployments deploy/              With changed KluctlDeployments
  towline replay --config new.yaml --repo acme/shop -o json | jq '.deployments'
  kubectl exec -i deploy/towline -- towline replay --config - < new.yaml

Exit codes:
  0  No difference, as with diff
  1  At least one delivery would be handled differently
  2  Nothing could be compared: the message says why; or invalid command line or configuration`;

export const defineReplay: Define = (command, deps, onCode) => {
  command
    .option("--since <age>", "Only deliveries that are not older, such as 90m, 12h or 7d", "7d")
    .option("-c, --config <file>", "The changed configuration file; -: stdin")
    .option(
      "--deployments <files...>",
      "Changed KluctlDeployments, in files or directories; others stay as in the cluster",
    )
    .option("--current-config <file>", "The server's current configuration file (TOWLINE_CONFIG)")
    .option("--forge <id>", "Only deliveries from this forge")
    .option("--repo <name>", "Only deliveries about this repository: org/repo or its URL")
    .option("--kubeconfig <file>", "Kubeconfig; default: KUBECONFIG, ~/.kube/config or the pod's service account")
    .option("--context <name>", "Kubeconfig context; default: the current one")
    .addOption(dataOption())
    .addHelpText("after", help)
    .action(async (flags: Flags) => {
      try {
        const replay = await untilInterrupted((signal) => replayRecorded(flags, deps, signal));
        if (replay === undefined) throw new Error("interrupted");
        deps.out(flags.output === "text" ? describeReplay(replay) : toData(flags.output, replay, withTimes));
        onCode(replay.differences.length > 0 ? 1 : 0);
      } catch (error) {
        // 1 means that there are differences.
        deps.err(`towline: ${describeError(error)}\n`);
        onCode(2);
      }
    });
};

async function replayRecorded(flags: Flags, deps: ProgramDeps, signal: AbortSignal): Promise<Replay> {
  const { env, err } = deps;
  const maxAgeMs = parseAge(flags.since);
  if (flags.config === undefined && flags.deployments === undefined) {
    throw new ConfigError(
      "there is nothing to compare with: pass a changed configuration file (--config) or changed KluctlDeployments (--deployments)",
    );
  }
  const { currentConfig, kubeconfig, context } = flags;
  const current = clusterConfig(env, { config: currentConfig, kubeconfig, context });
  const changed = flags.config === undefined ? current.config : await loadChanged(flags.config, deps);
  if (current.config.recording.keys.length === 0) {
    throw new ConfigError(
      `deliveries are not recorded: ${current.config.recording.enabled ? "" : "recording.enabled is false, and "}there is no recording.keys; set both in the server's configuration, and pass it with --current-config or TOWLINE_CONFIG`,
    );
  }
  checkForge(flags.forge, [current.config, changed]);
  const deployments = await listOnce(current, changed, err);
  const overlaid = flags.deployments ? withManifests(deployments, readManifests(flags.deployments)) : deployments;
  const compare = createComparison({ config: current.config, deployments }, { config: changed, deployments: overlaid });

  return withRedis(current.config, async (connection) => {
    const { createRecordings } = await import("../redis/recorded-deliveries.ts"); // not for an invalid command line
    const { recording, redis } = current.config;
    const recordings = createRecordings({ connection, prefix: redis.prefix, recording });
    const progress = createProgress(err);
    try {
      const found = await compareAll({ recordings, maxAgeMs, isWanted: filterOf(flags), compare, progress, signal });
      await explainMissing(found, { recordings, current: current.config, flags, err });
      const differences = found.differences.toReversed();
      return {
        sinceAt: Date.now() - maxAgeMs,
        deliveries: found.deliveries,
        unreadable: found.unreadable.length,
        differences,
        deployments: totalsOf(differences),
      };
    } finally {
      progress.clear();
    }
  });
}

interface Compared {
  /** Those that were compared. */
  readonly deliveries: number;
  /** Oldest first. */
  readonly differences: readonly MatchingDifference[];
  readonly unreadable: readonly Extract<ReadRecord, string>[];
}

interface CompareDeps {
  readonly recordings: Recordings;
  readonly maxAgeMs: number;
  readonly isWanted: (delivery: RecordedDelivery) => boolean;
  readonly compare: (delivery: RecordedDelivery) => Promise<MatchingDifference | undefined>;
  readonly progress: ReturnType<typeof createProgress>;
  readonly signal: AbortSignal;
}

const quietMs = 2_000;

async function compareAll({
  recordings,
  maxAgeMs,
  isWanted,
  compare,
  progress,
  signal,
}: CompareDeps): Promise<Compared> {
  const startedAt = performance.now();
  const differences: MatchingDifference[] = [];
  const unreadable: Extract<ReadRecord, string>[] = [];
  let deliveries = 0;
  for await (const page of recordings.read(maxAgeMs, signal)) {
    for (const record of page) {
      if (typeof record === "string") {
        unreadable.push(record);
        continue;
      }
      if (!isWanted(record)) continue;
      deliveries++;
      const difference = await compare(record);
      if (difference !== undefined) differences.push(difference);
    }
    if (performance.now() - startedAt > quietMs) progress.show(`replayed ${deliveries} deliveries`);
  }
  return { deliveries, differences, unreadable };
}

interface MissingDeps {
  readonly recordings: Recordings;
  readonly current: Config;
  readonly flags: Flags;
  readonly err: (text: string) => void;
}

/** Throws if there was nothing to compare, and warns about records that could not be read. */
async function explainMissing({ deliveries, unreadable }: Compared, deps: MissingDeps): Promise<void> {
  const { recordings, current, flags, err } = deps;
  const countOf = (why: Compared["unreadable"][number]) => unreadable.filter((one) => one === why).length;
  const problems = [
    [
      countOf("unknown-key"),
      "were encrypted with a key that is not in recording.keys: add the previous key after the new one",
    ],
    [
      countOf("altered"),
      "were changed in Redis, so that they cannot be decrypted: look for other programs that write to it",
    ],
    [countOf("unknown-format"), "have a format that this version does not know: use the server's version of towline"],
  ].flatMap(([count, what]) => (count === 0 ? [] : [`${count} recorded deliveries ${what}`]));
  if (deliveries > 0) {
    for (const problem of problems) err(`not replayed: ${problem}\n`);
    return;
  }
  if (problems.length > 0) throw new Error(`no delivery could be replayed: ${problems.join("; ")}`);

  const filters = [flags.forge && ` from forge ${flags.forge}`, flags.repo && ` about ${flags.repo}`].join("");
  const what = `no delivery${filters} was recorded in the last ${flags.since}`;
  const stored = await recordings.count();
  if (stored > 0) throw new Error(`${what}; ${stored} are stored in total: use a longer --since, or other filters`);
  throw new Error(
    current.recording.enabled
      ? `${what}: pushes and pull requests are recorded from now on, for ${current.recording.days} days`
      : `${what}: recording.enabled is false`,
  );
}

/** Milliseconds of a Go duration, or of a number of days. Throws ConfigError. */
function parseAge(text: string): number {
  const [, days] = /^(\d{1,4})d$/.exec(text.trim()) ?? [];
  const ms = days === undefined ? parseDuration(text.trim()) : Number(days) * 24 * 3_600_000;
  if (ms !== undefined && ms > 0) return ms;
  throw new ConfigError(`--since: ${JSON.stringify(text)} is not a duration; use 90m, 12h or 7d`);
}

async function loadChanged(file: string, { env, stdin }: Pick<ProgramDeps, "env" | "stdin">): Promise<Config> {
  const given = file === "-" ? await stdin() : undefined;
  const read = (path: string) => (path === file && given !== undefined ? given : readFile(path));
  try {
    return loadFromFlags(env, { config: file }, read).config;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    throw new ConfigError(`${file === "-" ? "stdin" : file}: ${error.message}`);
  }
}

function checkForge(forge: string | undefined, configs: readonly Config[]): void {
  const ids = [...new Set(configs.flatMap(({ forges }) => forges.map(({ id }) => id)))];
  if (forge === undefined || ids.includes(forge)) return;
  throw new ConfigError(`--forge: no forge ${forge} is configured; configured: ${ids.join(", ") || "none"}`);
}

/** The deployments in all namespaces that one of the configurations watches. */
async function listOnce(
  { kubernetes, config }: ClusterConfig,
  changed: Config,
  err: (text: string) => void,
): Promise<readonly AnyDeployment[]> {
  const watched = [config.kubernetes.namespaces, changed.kubernetes.namespaces];
  const namespaces = watched.some((list) => list.length === 0) ? [] : [...new Set(watched.flat())];
  const { createKubeClient } = await import("../kube/client.ts"); // `--help` does not wait for it
  const client = createKubeClient(kubernetes);
  try {
    const found = await listAllDeployments(client, { namespaces, areNamed: false, watched: [], err });
    return found.map(({ deployment }) => deployment);
  } finally {
    client.close();
  }
}

function filterOf({ forge, repo }: Flags): (delivery: RecordedDelivery) => boolean {
  const id = repo === undefined ? undefined : repoId(repo);
  const name = repo?.toLowerCase();
  return (delivery) => {
    if (forge !== undefined && delivery.forge !== forge) return false;
    if (repo === undefined) return true;
    const { repoName, repoUrls } = delivery.event;
    return repoName.toLowerCase() === name || (id !== undefined && repoUrls.some((url) => repoId(url) === id));
  };
}
