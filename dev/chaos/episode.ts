/** One episode: builds a world, runs the commands in it, ends all faults and checks the invariants. */
import { createHash } from "node:crypto";
import { appendFile, mkdir, rm } from "node:fs/promises";
import { loadavg } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import type { GiteaLogin } from "../parts/gitea.ts";
import { always, atRest, checkAlways, type Violation } from "./checker.ts";
import type { Command, Real } from "./commands/command.ts";
import { aStory } from "./commands/story.ts";
import { readMe, writeEvidence } from "./evidence.ts";
import { createFaults } from "./faults.ts";
import type { Traits } from "./orders.ts";
import { settle } from "./settle.ts";
import { deployAll } from "./deploy-all.ts";
import { type Stage, type StageOptions, startStage } from "./stage.ts";
import { collectStrays, describeError } from "./strays.ts";
import { tryStories } from "./tries.ts";

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
  /** Plays the shorter story that an earlier search found, by its path. */
  readonly path?: string | undefined;
  /** Halves the number of commands. */
  readonly isShort?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface EpisodeReport {
  readonly violations: readonly Violation[];
  /** Number of invariants that were checked. */
  readonly checked: number;
  /** Why the episode could not be played to its end; the result then does not judge the server. */
  readonly broken?: string | undefined;
  readonly commands: number;
  readonly faults: readonly string[];
  /** Unusual settings of the episode. */
  readonly traits: readonly string[];
  readonly deploys: number;
  readonly seconds: number;
  /** Processes that ran or waited for a processor, on average of the last minutes: on a machine that is too busy, Leases are lost. */
  readonly load: number;
  /** The folder with the evidence of a failed episode. */
  readonly folder?: string | undefined;
  /** The command that plays the failed story again. */
  readonly replay?: string | undefined;
}

export const invariants = [...always, ...atRest].length;

interface Settings {
  readonly replicas: number;
  readonly pauseMs: number;
  readonly clocksMs: readonly number[];
  readonly sweeps: boolean;
}

/** The settings, whether all servers live to the end and, with pull requests, the Gitea that has them. */
export type Scene = Settings & Pick<Traits, "keepsServers"> & Pick<StageOptions, "gitea">;

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

/**
 * Keeps the folder of an episode that fails, and removes all others. Resolves to `undefined` if it was aborted before
 * anything failed.
 */
export async function playEpisode(options: EpisodeOptions): Promise<EpisodeReport | undefined> {
  const startedAt = performance.now();
  const traits = traitsOf(options);
  const gitea = traits.proposes ? await options.findGitea?.() : undefined;
  const tried = await tryStories<[Settings, readonly Command[]], Played>({
    stories: storiesOf(traits),
    seed: seedOf(options),
    path: options.path,
    shrinks: options.shrinks === true,
    isFailure: ({ folder }) => folder !== undefined,
    async play([chosen, commands], tryNumber) {
      const scene = { ...toScene(chosen, traits, options), gitea };
      return play(scene, commands, options, tryNumber);
    },
  });
  if (tried === undefined) return undefined;
  const { report, path } = tried;
  const { folder } = report;
  const isShorter = path?.includes(":") === true;
  const replay = isShorter ? `${options.replay} --path ${path}` : options.replay;
  if (folder !== undefined && isShorter) await appendFile(join(folder, readMe), `\nReplay this story: ${replay}\n`);
  const measured = { seconds: (performance.now() - startedAt) / 1_000, load: loadavg()[1] ?? 0 };
  return { ...report, ...measured, ...(folder !== undefined && { replay }) };
}

type DrawOptions = Pick<
  EpisodeOptions,
  "seed" | "episode" | "replicas" | "isShort" | "findGitea" | "versions" | "kluctl"
>;

/** What `playEpisode` plays with these options. */
export function drawEpisode(options: DrawOptions): { readonly scene: Scene; readonly commands: readonly Command[] } {
  const traits = traitsOf(options);
  const [story] = fc.sample(storiesOf(traits), { seed: seedOf(options), numRuns: 1 });
  const [chosen, commands] = story as [Settings, readonly Command[]];
  return { scene: toScene(chosen, traits, options), commands };
}

const storiesOf = (traits: Traits) => fc.tuple(settings, aStory(traits));

/**
 * Pull requests are only guaranteed to be right after a sweep has listed the open ones, and without sweeps no server is
 * replaced.
 */
function toScene(chosen: Settings, { proposes, replaces, keepsServers }: Traits, options: DrawOptions): Scene {
  const sweeps = chosen.sweeps || proposes || replaces;
  return { ...chosen, keepsServers, replicas: options.replicas ?? chosen.replicas, sweeps };
}

function traitsOf(options: DrawOptions): Traits {
  const seed = seedOf(options);
  const replaces = options.versions.length > 1;
  return {
    isShort: options.isShort === true,
    replaces,
    proposes: options.findGitea !== undefined && seed % 3 === 0,
    keepsServers: !replaces && seed % 2 === 0,
    isReal: options.kluctl !== undefined,
  };
}

/** Derives the seed of an episode from its number, so that it can be replayed without those before it. */
function seedOf({ seed, episode }: Pick<EpisodeOptions, "seed" | "episode">): number {
  return createHash("sha256").update(`${seed} ${episode}`).digest().readInt32BE(0);
}

type Played = Omit<EpisodeReport, "seconds" | "load" | "replay">;

async function play(
  { gitea, ...chosen }: Scene,
  commands: readonly Command[],
  options: EpisodeOptions,
  tryNumber: number,
): Promise<Played | undefined> {
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
  let checked = 0;
  const strays = collectStrays();
  try {
    stage = await startStage({ ...options, ...chosen, gitea, dir: folder, namespace });
    await deployAll(stage);
    const acting = createFaults(stage, (words) => void story.push(words));
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
    checked = invariants;
  } catch (error) {
    broken = describeError(error);
  }
  if (stage && broken !== undefined) {
    violations = checkAlways(stage.history()); // it never came to rest
    checked = always.length;
  }
  const deploys = stage?.journal.runs().filter((run) => run.mutating).length ?? 0;
  if (strays.errors.length > 0) broken = [...(broken === undefined ? [] : [broken]), ...strays.errors].join("\n");
  if (stage && (violations.length > 0 || broken !== undefined))
    await writeEvidence(folder, { stage, chosen, story, faults, violations, broken }, options.replay);
  await stage?.stop().catch((error: unknown) => (broken ??= `could not be put away: ${String(error)}`));
  strays.stop();
  const failed = !signal?.aborted && (violations.length > 0 || broken !== undefined);
  if (!failed) await rm(folder, { recursive: true, force: true });
  if (signal?.aborted) return undefined;
  const report = {
    violations,
    checked,
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
