/** `npm run chaos`: runs pushes, user actions and faults at random moments and checks that nothing is lost. */
import { execFile } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { randomInt } from "node:crypto";
import { promisify } from "node:util";
import { type EpisodeReport, invariants, playEpisode } from "./chaos/episode.ts";
import type { Version } from "./chaos/replica.ts";
import { collectStrays } from "./chaos/strays.ts";
import { endOfRun } from "./end-of-run.ts";
import { readOptions } from "./options.ts";
import { findTools } from "./tools.ts";
import { startWorld } from "./world.ts";

const help = `npm run chaos [-- options]

Plays episodes, one after the other. Each has a real API server and Redis, replicas of \`towline serve\`, and twelve deployments of
four repositories. Users push, edit, delete and, in one of three episodes, open pull requests on a real Gitea, while servers, Redis,
the git host and the network fail, also two of them at one moment. Then it checks that nothing was lost.
A failed episode leaves a folder with its story, journal, ledger and logs. Everything else is removed.

  --minutes N    Start no new episode after N minutes: 60
  --seed N       Repeat the episodes of this seed
  --episode N    Play only episode N of the seed
  --replicas N   Start N servers, instead of two, or three in one of ten episodes
  --real         Use the real kluctl instead of a model of it
  --shrink       Search for a shorter story of each episode that fails, and report the command that plays it again
  --path PATH    Play the shorter story that --shrink found, with --seed and --episode
  --server DIR   Run the server of another checkout, with its node_modules
  --previous DIR Start with the server of another checkout; each episode replaces servers with those of this checkout and back,
                 and ends with those of this checkout
  --keep-going   Continue after an episode has failed
  --folder DIR   Keep failed episodes in DIR: chaos/ in this checkout
  --help         Show this help
`;

const options = readOptions(
  {
    minutes: { type: "string", default: "60" },
    seed: { type: "string" },
    episode: { type: "string" },
    replicas: { type: "string" },
    real: { type: "boolean", default: false },
    shrink: { type: "boolean", default: false },
    path: { type: "string" },
    server: { type: "string" },
    previous: { type: "string" },
    "keep-going": { type: "boolean", default: false },
    folder: { type: "string" },
  },
  help,
);

/** Time limit for stopping the processes and removing the mounts of an aborted episode. */
const putAwayWithinMs = 30_000;
const withReal =
  "with the real kluctl: faults strike when a run starts, has rendered or ends, not between two objects," +
  " and which run wrote an object is derived from the times";
const root = join(import.meta.dirname, "..");
const say = (line: string) => void process.stdout.write(`${line}\n`);

await main();
// A failed episode may leave handles open, which must not keep the process running.
process.exit();

async function main(): Promise<void> {
  if (process.platform !== "linux") throw new Error("The chaos tests read /proc, so they need Linux.");
  if (options.path !== undefined && (options.seed === undefined || options.episode === undefined))
    fail("--path needs --seed and --episode: it is the path to a shorter story of that episode");
  const signal = endOfRun();
  const progress = { say: (line: string) => void process.stderr.write(`${line}\n`) };
  const tools = await findTools(options.real ? ["redis-server", "kluctl"] : ["redis-server"], progress);
  const world = await startWorld(["controlPlane"], progress);
  // The episode is cleaned up first, unless that takes too long; a second Ctrl-C does not wait for it.
  signal.addEventListener("abort", () =>
    setTimeout(() => void world.stop().finally(() => process.exit(130)), putAwayWithinMs),
  );
  try {
    await playEpisodes(world, tools, signal);
  } finally {
    await world.stop();
  }
}

type World = Awaited<ReturnType<typeof startWorld>>;
type Tools = Readonly<Record<"redis-server", string> & Partial<Record<"kluctl", string>>>;

async function playEpisodes(world: World, tools: Tools, signal: AbortSignal): Promise<void> {
  const minutes = wholeNumber("minutes") ?? 60;
  const seed = wholeNumber("seed") ?? randomInt(1, 1_000_000);
  const only = wholeNumber("episode");
  const replicas = wholeNumber("replicas");
  const dir = resolve(options.folder ?? join(root, "chaos"));
  await mkdir(dir, { recursive: true });
  const { kubeconfig } = await world.part("controlPlane");
  const checkouts = [options.server ?? root, ...(options.previous === undefined ? [] : [options.previous])];
  const versions = await Promise.all(checkouts.map((checkout) => toVersion(resolve(checkout))));
  const strays = collectStrays();

  const startedAt = performance.now();
  const left = () => minutes * 60_000 - (performance.now() - startedAt);
  const reports: EpisodeReport[] = [];
  say(`seed ${seed}: ${invariants} invariants, ${only === undefined ? `${minutes} minutes` : `episode ${only}`}`);
  if (options.real) say(withReal);
  for (let episode = only ?? 1; left() > 0 && !signal.aborted; episode++) {
    const report = await playEpisode({
      seed,
      episode,
      replay: replayOf(seed, episode),
      dir,
      kubeconfig,
      redisServer: tools["redis-server"],
      kluctl: tools.kluctl,
      versions,
      findGitea: () => world.part("gitea"),
      replicas,
      shrinks: options.shrink,
      path: options.path,
      signal,
    });
    if (signal.aborted) process.exitCode = 130;
    if (report === undefined) break;
    reports.push(report);
    const failed = report.folder !== undefined;
    say(`seed ${seed} ${describe(episode, report, Math.max(0, left()))}`);
    if (failed) process.exitCode ||= 1;
    if (only !== undefined || (failed && !options["keep-going"])) break;
  }
  say(summarize(seed, reports));
  // Those of an episode are in its report.
  const late = strays.errors.filter((error) => !reports.some(({ broken }) => broken?.includes(error)));
  if (late.length > 0) say(["Errors after the end of an episode:", ...late].join("\n"));
}

/** The command that plays the episode again, with all options that influence it. */
function replayOf(seed: number, episode: number): string {
  const others = (["replicas", "server", "previous"] as const).flatMap((name) => {
    const value = options[name];
    return value === undefined ? [] : [`--${name} ${value}`];
  });
  const words = [`--seed ${seed}`, `--episode ${episode}`, ...others, ...(options.real ? ["--real"] : [])];
  return `npm run chaos -- ${words.join(" ")}`;
}

/** Older checkouts do not have the setting; their skips are then judged only by the objects in the cluster. */
async function toVersion(dir: string): Promise<Version> {
  const run = promisify(execFile);
  const { stdout } = await run(process.execPath, [join(dir, "src/cli.ts"), "config", "schema"], { cwd: dir });
  return {
    dir,
    auditsSkips: stdout.includes("auditSkips"),
    adapts: stdout.includes("adaptive"),
    confines: stdout.includes("isolation"),
  };
}

function describe(
  episode: number,
  { violations, checked, broken, faults, traits, commands, deploys, seconds, load, folder, replay }: EpisodeReport,
  leftMs: number,
): string {
  const verdict = broken === undefined ? (violations.length === 0 ? "ok" : "VIOLATED") : "BROKEN";
  const facts = [
    ...traits,
    `${checked} of ${invariants} invariants checked`,
    `${commands} commands`,
    `${deploys} deploys`,
    `${Math.round(seconds)} s`,
    `load ${Math.round(load)}`,
  ].join(", ");
  const head = `episode ${episode}: ${verdict} (${facts}; ${Math.ceil(leftMs / 60_000)} min left) ${faults.join(", ")}`;
  const found = violations.map(({ invariant, what }) => `    ${invariant}: ${what}`);
  const why = broken === undefined ? [] : [`    ${broken}`];
  const details = folder === undefined ? [] : [`    details: ${folder}`, `    replay: ${replay}`];
  return [head, ...found, ...why, ...details].join("\n");
}

function summarize(seed: number, reports: readonly EpisodeReport[]): string {
  const count = (is: (report: EpisodeReport) => boolean) => reports.filter(is).length;
  const faults = reports.reduce((sum, report) => sum + report.faults.length, 0);
  const deploys = reports.reduce((sum, report) => sum + report.deploys, 0);
  const failed = count(({ violations }) => violations.length > 0);
  const broken = count((report) => report.broken !== undefined);
  return `seed ${seed}: ${reports.length} episodes, ${faults} faults, ${deploys} deploys; ${failed} violated an invariant, ${broken} broken`;
}

function wholeNumber(name: "minutes" | "seed" | "episode" | "replicas"): number | undefined {
  const text = options[name];
  if (text === undefined) return undefined;
  if (/^\d+$/.test(text)) return Number(text);
  return fail(`--${name}: ${JSON.stringify(text)} is not a whole number`);
}

function fail(message: string): never {
  process.stderr.write(`${message}\n`);
  process.exit(2);
}
