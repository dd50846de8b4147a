/** The cost of one `kluctl diff` alone, with warm renderers and with cold ones. */
import { execFile } from "node:child_process";
import { cp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { cacheDir } from "../cache.ts";
import { type Measurement, median, milliseconds, type Report, spread } from "./measurement.ts";
import type { DiffOrder, Spawn } from "./run-diffs.ts";
import type { Repository, Stage } from "./stage.ts";

const run = promisify(execFile);
const goals = { wall: 0.5, cpu: 0.4 };
const program = join(import.meta.dirname, "run-diffs.ts");

export const spawnCost: Measurement = {
  name: "spawn",
  title: "One run of kluctl, with warm and cold renderers",
  async run(stage) {
    const name = "bench-spawn";
    const repository = await stage.countedRepository(name);
    await stage.cluster.createNamespace(name);
    const spawns = await runDiffs(stage, repository, name, { times: stage.quick ? 5 : 20, warm: true });
    const [warm, cold] = [spawns.filter((one) => one.warm), spawns.filter((one) => !one.warm)];
    const row = (what: string, of: readonly number[]) => [what, ...spread(of)];
    const ratio = (of: (spawn: Spawn) => number) => median(warm.map(of)) / median(cold.map(of));
    const goal = (what: string, wanted: number, of: (spawn: Spawn) => number) => ({
      what: `kluctl diff, warm / cold: ${what} time`,
      wanted: `≤ ${wanted}`,
      measured: ratio(of).toFixed(2),
      met: ratio(of) <= wanted,
    });
    return {
      how:
        `\`kluctl diff\` of a project of three objects, started as the server starts it. ${warm.length} runs with renderers that are kept warm alternate with as many runs with cold renderers. ` +
        "CPU is the CPU time of kluctl, its renderers and the processes that start them. All runs report the same result.",
      tables: [
        {
          head: ["", "median", "p90", "max"],
          rows: [
            row("wall time, warm", warm.map(wall)),
            row("wall time, cold", cold.map(wall)),
            row("CPU time, warm", warm.map(cpu)),
            row("CPU time, cold", cold.map(cpu)),
          ],
        },
      ],
      goals: [goal("wall", goals.wall, wall), goal("CPU", goals.cpu, cpu)],
      memory: [],
    } satisfies Report;
  },
};

const wall = ({ wallMs }: Spawn) => wallMs;
const cpu = ({ cpuMs }: Spawn) => cpuMs;

/** Milliseconds of one `kluctl diff` with cold renderers: the baseline for other figures of the same run. */
export async function coldDiffMs(stage: Stage, repository: Repository, namespace: string): Promise<number> {
  const spawns = await runDiffs(stage, repository, namespace, { times: stage.quick ? 3 : 9, warm: false });
  const ms = median(spawns.map(wall));
  stage.say(`  one cold kluctl diff: ${milliseconds(ms)}`);
  return ms;
}

async function runDiffs(
  stage: Stage,
  { copy }: Repository,
  namespace: string,
  { times, warm }: Pick<DiffOrder, "times" | "warm">,
): Promise<Spawn[]> {
  const here = join(stage.stateDir, `${namespace}-diffs`);
  const projectDir = join(here, "project");
  await cp(copy.dir, projectDir, { recursive: true });
  // A host without a login configured; kluctl does not contact it.
  await run("git", ["-C", projectDir, "remote", "set-url", "origin", "https://git.example.com/bench/project"]);
  const order: DiffOrder = {
    ...{ kluctl: stage.kluctl, kubeconfig: stage.cluster.kubeconfig, projectDir, times, warm },
    cacheDir: join(cacheDir(), "kluctl"),
    workDir: join(here, "work"),
    args: { name: "small", namespace },
  };
  const file = join(here, "order.json");
  await writeFile(file, JSON.stringify(order));
  const { stdout } = await run(process.execPath, [program, file], { maxBuffer: 16 * 1024 * 1024 });
  const spawns = JSON.parse(stdout) as Spawn[];
  const found = new Set(spawns.map((one) => one.found));
  if (found.size !== 1) throw new Error(`kluctl reported different results: ${[...found].join("; ")}`);
  return spawns;
}
