/** `npm run soak`: runs many deployments at a steady rate for a long time, and checks whether anything grows meanwhile. */
import { mkdir, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { now } from "./bench/clock.ts";
import { openCluster } from "./bench/cluster.ts";
import { toSvg } from "./bench/plot.ts";
import { onStage } from "./bench/stage.ts";
import { endOfRun } from "./end-of-run.ts";
import { readOptions } from "./options.ts";
import { riseOf } from "./soak/growth.ts";
import { describeSeconds, type Measure, measures, playSoak, type Sample, type SoakReport } from "./soak/play.ts";
import { findTools } from "./tools.ts";
import { startWorld } from "./world.ts";

const help = `npm run soak [-- options]

Deploys 200 projects of 20 repositories with the real kluctl, then pushes to one repository after the other at a steady rate, and
samples the memory, file descriptors and Redis data of the server. Fails if memory, heap, file descriptors or Redis data grow over
the second half, if a push is not deployed, or if a skip was wrong. Leaves plots and samples in a folder.

  --minutes N      Push for N minutes: 60
  --deployments N  Deploy N projects: 200
  --every N        Push every N seconds: 15
  --folder DIR     Write plots and samples to DIR: soak/ in this checkout
  --help           Show this help
`;

const options = readOptions(
  {
    minutes: { type: "string", default: "60" },
    deployments: { type: "string", default: "200" },
    every: { type: "string", default: "15" },
    folder: { type: "string" },
  },
  help,
);

const say = (line: string) => void process.stdout.write(`${line}\n`);
const repositories = 20;
const sampleEveryMs = 10_000;
/** Samples per printed line. */
const linesEvery = 6;

await main();
process.exit();

async function main(): Promise<void> {
  if (process.platform !== "linux") throw new Error("The soak test reads /proc, so it needs Linux.");
  const signal = endOfRun();
  const [minutes, deployments, every] = [wholeNumber("minutes"), wholeNumber("deployments"), wholeNumber("every")];
  const folder = resolve(options.folder ?? join(import.meta.dirname, "../soak"));
  await mkdir(folder, { recursive: true });
  const progress = { say: (line: string) => void process.stderr.write(`${line}\n`) };
  const { kluctl } = await findTools(["kluctl"], progress);
  const world = await startWorld(["controlPlane", "redis"], progress);
  const cluster = openCluster((await world.part("controlPlane")).kubeconfig, now);
  let samples = 0;
  try {
    say(`${deployments} deployments, a push every ${every} s for ${minutes} minutes`);
    const report = await onStage({ world, cluster, kluctl, quick: false, ...progress }, (stage) =>
      playSoak(stage, {
        ...{ minutes, deployments, repositories: Math.min(repositories, deployments), sampleEveryMs, signal },
        everyMs: every * 1_000,
        onSample: (sample) => samples++ % linesEvery === 0 && say(describe(sample)),
      }),
    );
    await write(folder, report);
    summarize(report);
    say(`details: ${folder}`);
    if (report.findings.length > 0) process.exitCode = 1;
  } finally {
    cluster.close();
    await world.stop();
  }
}

function describe({ minutes, ...sample }: Sample): string {
  const parts = (Object.keys(measures) as Measure[]).map((measure) => {
    const { title, unit } = measures[measure];
    return `${title.toLowerCase()} ${words(sample[measure], unit)}`;
  });
  return `${minutes.toFixed(0)} min: ${parts.join(", ")}`;
}

function words(value: number, unit: string): string {
  return unit === "" ? value.toFixed(0) : `${value.toFixed(1)} ${unit}`;
}

function summarize({ samples, pushes, skippedPushes, reconciliations, skipped, findings }: SoakReport): void {
  say(
    `${pushes.length} pushes, ${skippedPushes} more were not sent because the previous one was still in progress; ${describeSeconds(pushes)}`,
  );
  say(`${reconciliations} reconciliations; ${skipped} checks were skipped`);
  for (const measure of Object.keys(measures) as Measure[]) {
    const values = samples.map((sample) => sample[measure]);
    const { title, unit } = measures[measure];
    const [last, rise] = [values.at(-1) ?? NaN, riseOf(values)];
    say(`${title}: ${words(last, unit)}, ${words(rise, unit)} more over the second half`);
  }
  for (const finding of findings) say(`FOUND ${finding}`);
}

async function write(folder: string, report: SoakReport): Promise<void> {
  await writeFile(join(folder, "soak.json"), `${JSON.stringify(report, undefined, 2)}\n`);
  const plots = (Object.keys(measures) as Measure[]).map((measure) => ({
    name: measure,
    title: measures[measure].title,
    y: measures[measure].unit,
    points: report.samples.map((sample) => [sample.minutes, sample[measure]] as const),
  }));
  const latency = {
    name: "latency",
    title: "From a push until its deployments are ready",
    y: "s",
    points: report.pushes.map(({ minutes, seconds }) => [minutes, seconds] as const),
  };
  for (const plot of [...plots, latency]) {
    await writeFile(join(folder, `${plot.name}.svg`), toSvg({ ...plot, x: "minutes" }));
  }
}

function wholeNumber(name: "minutes" | "deployments" | "every"): number {
  const text = options[name];
  if (/^[1-9]\d*$/.test(text)) return Number(text);
  process.stderr.write(`--${name}: ${JSON.stringify(text)} is not a whole number\n`);
  return process.exit(2);
}
