/** One episode: builds a world, runs the commands in it, ends all faults and checks the invariants. */
import { createHash } from "node:crypto";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import fc from "fast-check";
import type { GiteaLogin } from "../parts/gitea.ts";
import { always, atRest, checkAlways, checkAtRest, type Violation } from "./checker.ts";
import { aStory, type Command, type Real } from "./commands.ts";
import { createFaults } from "./faults.ts";
import type { Traits } from "./orders.ts";
import { deployAll, settleMs, type Stage, type StageOptions, startStage } from "./stage.ts";

export interface EpisodeOptions extends Pick<StageOptions, "kubeconfig" | "redisServer" | "kluctl" | "versions"> {
  /** Starts a Gitea or finds a running one; without it, there are no pull requests. */
  readonly findGitea?: (() => Promise<GiteaLogin>) | undefined;
  readonly seed: number;
  readonly episode: number;
  /** The command line that replays the episode. */
  readonly replay: string;
  /** The evidence of a failed episode is written to a folder of its own in here. */
  readonly dir: string;
  readonly replicas?: number | undefined;
  /** Searches for a shorter story that fails as well; each attempt is an episode. */
  readonly shrinks?: boolean | undefined;
  /** Halves the number of commands. */
  readonly isShort?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface EpisodeReport {
  readonly violations: readonly Violation[];
  /** Why the episode could not be played to its end; the result then does not judge the server. */
  readonly broken?: string | undefined;
  readonly commands: number;
  readonly faults: readonly string[];
  /** Unusual settings of the episode. */
  readonly traits: readonly string[];
  readonly deploys: number;
  readonly seconds: number;
  /** The folder with the evidence of a failed episode. */
  readonly folder?: string | undefined;
}

export const invariants = [...always, ...atRest].length;

/**
 * A violation counts only if the very same one persists this long: longer than a stuck request waits before it is
 * repeated. On a busy machine something is always in progress, but never the same thing for this long.
 */
const atMostMs = 150_000;
/** Limit for an episode whose violations keep changing. */
const neverMs = 600_000;

interface Settings {
  readonly replicas: number;
  readonly pauseMs: number;
  readonly clocksMs: readonly number[];
  readonly sweeps: boolean;
}

/** The settings, whether all servers live to the end and, with pull requests, the Gitea that has them. */
type Scene = Settings & Pick<Traits, "keepsServers"> & Pick<StageOptions, "gitea">;

const hour = 3_600_000;
const settings = fc.record<Settings>({
  replicas: fc.oneof({ weight: 9, arbitrary: fc.constant(2) }, { weight: 1, arbitrary: fc.constant(3) }),
  pauseMs: fc.integer({ min: 20, max: 400 }),
  clocksMs: fc.oneof(
    { weight: 3, arbitrary: fc.constant([0, 0, 0]) },
    { weight: 1, arbitrary: fc.array(fc.constantFrom(0, 2 * hour, -2 * hour, 90_000), { minLength: 3, maxLength: 3 }) },
  ),
  sweeps: fc.boolean(),
});

export async function playEpisode(options: EpisodeOptions): Promise<EpisodeReport> {
  const startedAt = performance.now();
  let last: Omit<EpisodeReport, "seconds"> | undefined;
  let tries = 0;
  const traits = traitsOf(options);
  const gitea = traits.proposes ? await options.findGitea?.() : undefined;
  const property = fc.asyncProperty(settings, aStory(traits), async (chosen, commands) => {
    const replicas = options.replicas ?? chosen.replicas;
    // Pull requests are only guaranteed to be right after a sweep has listed the open ones. Without a sweep, Redis may lose
    // nothing, and it is for what Redis loses that servers are kept.
    const sweeps = chosen.sweeps || traits.proposes || traits.keepsServers;
    last = await play(
      { ...chosen, keepsServers: traits.keepsServers, replicas, sweeps, gitea },
      commands,
      options,
      tries++,
    );
    return last.violations.length === 0 && last.broken === undefined;
  });
  const details = await fc.check(property, {
    seed: seedOf(options),
    numRuns: 1,
    endOnFailure: options.shrinks !== true,
  });
  if (last === undefined) throw new Error("no episode could be played", { cause: details.errorInstance });
  return { ...last, seconds: (performance.now() - startedAt) / 1_000 };
}

function traitsOf(options: EpisodeOptions): Traits {
  const seed = seedOf(options);
  const replaces = options.versions.length > 1;
  return {
    isShort: options.isShort === true,
    replaces,
    proposes: options.findGitea !== undefined && seed % 3 === 0,
    keepsServers: !replaces && seed % 2 === 0,
  };
}

/** Derives the seed of an episode from its number, so that it can be replayed without those before it. */
function seedOf({ seed, episode }: EpisodeOptions): number {
  return createHash("sha256").update(`${seed} ${episode}`).digest().readInt32BE(0);
}

type Played = Omit<EpisodeReport, "seconds">;

async function play(
  { gitea, ...chosen }: Scene,
  commands: readonly Command[],
  options: EpisodeOptions,
  tryNumber: number,
): Promise<Played> {
  const { seed, episode, signal } = options;
  const name = `chaos-${seed}-${episode}${tryNumber === 0 ? "" : `-${tryNumber}`}`;
  const folder = join(options.dir, name);
  await rm(folder, { recursive: true, force: true }); // left by an earlier run of the same episode
  await mkdir(folder, { recursive: true });
  const namespace = `${name}-${Date.now().toString(36)}`;
  let stage: Stage | undefined;
  const story: string[] = [];
  let faults: readonly string[] = [];
  let violations: Violation[] = [];
  let broken: string | undefined;
  try {
    stage = await startStage({ ...options, ...chosen, gitea, dir: folder, namespace });
    await deployAll(stage);
    const acting = createFaults(stage);
    faults = acting.struck;
    const real: Real = { stage, faults: acting, namespace, late: [], pending: [], story, signal };
    const model = { suspended: new Set<string>(), pushes: 0 };
    await fc.asyncModelRun(() => ({ model, real }), commands);
    signal?.throwIfAborted();
    acting.disarm();
    story.push(`${new Date().toISOString().slice(11, 23)} heal`);
    await stage.heal();
    await Promise.all(real.pending);
    violations = await settle(stage, signal);
  } catch (error) {
    broken = error instanceof Error ? (error.stack ?? error.message) : String(error);
  }
  const deploys = stage?.journal.runs().filter((run) => run.mutating).length ?? 0;
  const failed = violations.length > 0 || broken !== undefined;
  if (failed && stage) await writeEvidence(folder, { stage, chosen, story, faults, violations, broken }, options);
  await stage?.stop().catch((error: unknown) => (broken ??= `could not be put away: ${String(error)}`));
  const report = {
    violations,
    commands: commands.length,
    faults,
    traits: describeScene(chosen, stage?.pullRequests?.all.length),
    deploys,
  };
  return { ...report, ...(broken && { broken }), ...(failed && { folder }) };
}

function describeScene(
  { replicas, clocksMs, sweeps, keepsServers }: Scene,
  pullRequests: number | undefined,
): string[] {
  const differ = new Set(clocksMs.slice(0, replicas)).size > 1;
  return [
    ...(replicas === 2 ? [] : [`${replicas} replicas`]),
    ...(differ ? ["clocks that differ"] : []),
    ...(sweeps ? [] : ["no sweep"]),
    ...(keepsServers ? ["no restarts"] : []),
    ...(pullRequests === undefined ? [] : [`${pullRequests} pull requests`]),
  ];
}

/** Waits two sweeps and one Lease before judging anything; the server must be right by itself after that. */
async function settle(stage: Stage, signal: AbortSignal | undefined): Promise<Violation[]> {
  const from = performance.now();
  let since = new Map<string, number>();
  await sleep(settleMs, undefined, { signal });
  for (;;) {
    const left = checkAtRest(stage.history(), await stage.rest());
    const now = performance.now();
    since = new Map(left.map(({ what }) => [what, since.get(what) ?? now]));
    const stays = left.filter(({ what }) => now - (since.get(what) ?? now) > atMostMs);
    const isOver = left.length === 0 || stays.length > 0 || now - from > neverMs;
    if (isOver) return [...checkAlways(stage.history()), ...(stays.length > 0 ? stays : left)];
    if (signal?.aborted) throw new Error(`ended while ${left.map(({ what }) => what).join("; ")}`);
    await sleep(stage.pullRequests ? 3_000 : 500, undefined, { signal }).catch(() => undefined);
  }
}

interface Evidence {
  readonly stage: Stage;
  readonly chosen: Scene;
  readonly story: readonly string[];
  readonly faults: readonly string[];
  readonly violations: readonly Violation[];
  readonly broken: string | undefined;
}

/** Writes the evidence beside the logs, which are in the folder already. */
async function writeEvidence(
  folder: string,
  { stage, chosen, story, faults, violations, broken }: Evidence,
  { replay }: EpisodeOptions,
): Promise<void> {
  const history = stage.history();
  const pullRequests = (await stage.pullRequests?.facts().catch(() => undefined)) ?? [];
  const lines = (all: readonly unknown[]) => all.map((one) => `${JSON.stringify(one)}\n`).join("");
  const words = [
    `Replay: ${replay}`,
    `Settings: ${JSON.stringify(chosen)}`,
    "",
    ...violations.map(({ invariant, what }) => `VIOLATED: ${invariant}\n  ${what}`),
    ...(broken === undefined ? [] : [`BROKEN: ${broken}`]),
    "",
    "Story:",
    ...story,
    "",
    "Faults that struck:",
    ...faults,
  ];
  await Promise.all([
    writeFile(join(folder, "README.txt"), `${words.join("\n")}\n`),
    writeFile(join(folder, "journal.jsonl"), lines(history.runs)),
    writeFile(join(folder, "objects.jsonl"), lines(history.objects)),
    writeFile(join(folder, "leases.jsonl"), lines(history.leases)),
    writeFile(join(folder, "statuses.jsonl"), lines(history.statuses)),
    writeFile(join(folder, "pull-requests.jsonl"), lines(pullRequests)),
    writeFile(join(folder, "pushes.jsonl"), lines([...history.pushes, ...history.deliveries])),
  ]);
}
