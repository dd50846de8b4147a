/** `npm run bench`: measures Towline, kluctl's own controller and Flux with real components. Everything that it starts ends with the run. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { now } from "./bench/clock.ts";
import { openCluster } from "./bench/cluster.ts";
import { describeMachine } from "./bench/machine.ts";
import type { Measurement } from "./bench/measurement.ts";
import { exhausting } from "./bench/exhausting.ts";
import { besideFlux } from "./bench/flux.ts";
import { footprint } from "./bench/footprint.ts";
import { gitops } from "./bench/gitops.ts";
import { idleLoop } from "./bench/idle-loop.ts";
import { intake, strangers } from "./bench/intake.ts";
import { large } from "./bench/large.ts";
import { leftOut } from "./bench/left-out.ts";
import { manyDeployments } from "./bench/many-deployments.ts";
import { notifications } from "./bench/notifications.ts";
import { previews } from "./bench/previews.ts";
import { page as thePage } from "./bench/page.ts";
import { pushToApplied } from "./bench/push-to-applied.ts";
import { toSvg } from "./bench/plot.ts";
import { readRecord, mergeRecords } from "./bench/record.ts";
import { type Finished, toMarkdown, toText } from "./bench/report.ts";
import { simulated } from "./bench/simulated.ts";
import { spawnCost } from "./bench/spawn.ts";
import { onStage } from "./bench/stage.ts";
import { thousand } from "./bench/thousand.ts";
import { watchOthers } from "./bench/usage.ts";
import { endOfRun } from "./end-of-run.ts";
import { findTools } from "./tools.ts";
import { startWorld } from "./world.ts";

const measurements: readonly Measurement[] = [
  spawnCost,
  pushToApplied,
  previews,
  gitops,
  idleLoop,
  leftOut,
  manyDeployments,
  besideFlux,
  intake,
  strangers,
  exhausting,
  notifications,
  large,
  footprint,
  thePage,
  thousand,
  simulated,
];
const quietCores = 0.1;
const docs = join(import.meta.dirname, "../docs");
const [page, figures] = [join(docs, "performance.md"), join(docs, "performance.json")];

const help = `npm run bench [-- options]

Starts a Kubernetes control plane, Redis, git hosts, \`towline serve\`, \`kluctl controller run\` and Flux's controllers, measures them,
and removes everything afterwards. It takes about an hour on two cores, a quarter of that for "flux". Flux's controllers are built once.
Run nothing else on the machine meanwhile.

  --only NAMES     Run only these measurements, separated by commas:
                   ${measurements.map(({ name }) => name).join(", ")}
  --deployments N  Use N deployments in "thousand" and "simulated", instead of 1000 and 10000
  --profile DIR    Write a CPU profile of each server to DIR when it ends
  --quick          Run a short version, to check that everything works; the figures are imprecise
  --write          Write the figures to docs/performance.md and .json; keep those of the other measurements
  --help           Show this help
`;

const { values: options } = parseArgs({
  options: {
    only: { type: "string" },
    quick: { type: "boolean", default: false },
    deployments: { type: "string" },
    profile: { type: "string" },
    write: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});

const deployments = options.deployments === undefined ? undefined : Number(options.deployments);
if (deployments !== undefined && !(Number.isInteger(deployments) && deployments >= 40))
  throw new Error("--deployments must be a whole number of at least 40.");

const say = (line: string) => void process.stderr.write(`${line}\n`);

if (options.help) process.stdout.write(help);
else await main(chosen(options.only));
// A failed measurement may leave handles open, which must not keep the process running.
process.exit();

async function main(wanted: readonly Measurement[]): Promise<void> {
  if (process.platform !== "linux") throw new Error("The bench reads /proc, so it needs Linux.");
  // Everything that was started ends with this process, and none of its data is needed afterwards.
  endOfRun().addEventListener("abort", () => process.exit(130));
  const { kluctl, ...tools } = await findTools(["kluctl", "kube-apiserver", "redis-server"], { say });
  const world = await startWorld(["controlPlane", "redis", "gitea"], { say });
  const cluster = openCluster((await world.part("controlPlane")).kubeconfig, now);
  const finished: Finished[] = [];
  const others = watchOthers();
  try {
    for (const { name, title, run } of wanted) {
      say(`${title} (${name}) …`);
      const from = now();
      const report = await onStage(
        { world, cluster, kluctl, quick: options.quick, profile: options.profile, deployments, say },
        run,
      ).catch(toFailure);
      if (report instanceof Error) process.exitCode = 1;
      finished.push({ name, title, report });
      say(report instanceof Error ? `  failed: ${report.message}` : `  done (${Math.round((now() - from) / 1_000)} s)`);
    }
    const busy = others();
    if (busy > quietCores)
      say(`The machine was not quiet (unrelated processes used ${busy.toFixed(1)} cores): the figures are imprecise.`);
    const machine = await describeMachine({ kluctl, ...tools }, busy);
    process.stdout.write(toText(finished, machine));
    if (options.write) {
      const measured = finished.flatMap(({ name, title, report }) =>
        report instanceof Error ? [] : { name, title, machine, quick: options.quick, report },
      );
      const names = measurements.map(({ name }) => name);
      const record = mergeRecords(await readRecord(figures), measured, names);
      await writeFile(figures, `${JSON.stringify(record, undefined, 2)}\n`);
      await writeFile(page, toMarkdown(record));
      for (const plot of record.flatMap(({ report }) => report.plots ?? [])) {
        await writeFile(join(docs, "images", `${plot.name}.svg`), toSvg(plot));
      }
      say(`wrote docs/performance.md: ${measured.map(({ name }) => name).join(", ") || "no new figures"}`);
    }
  } finally {
    cluster.close();
    await world.stop();
  }
}

function chosen(names: string | undefined): readonly Measurement[] {
  if (names === undefined) return measurements;
  return names.split(",").map((wanted) => {
    const found = measurements.find(({ name }) => name === wanted.trim());
    if (found) return found;
    throw new Error(
      `--only: there is no measurement "${wanted}"; use ${measurements.map(({ name }) => name).join(", ")}.`,
    );
  });
}

/** A failed measurement does not discard the figures of the others. The message contains all causes. */
function toFailure(error: unknown): Error {
  const words: string[] = [];
  for (let one = error; one !== undefined; one = one instanceof Error ? one.cause : undefined) {
    words.push(one instanceof Error ? one.message || one.name : String(one));
  }
  return new Error(words.join(": "), { cause: error });
}
