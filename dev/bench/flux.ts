/** Beside Flux: what Towline's trigger saves, and the same objects deployed by Towline and by Flux. */
import { tools } from "../tool-table.ts";
import { intervals } from "./flux-project.ts";
import { type FluxSteps, measurePolled, type Polled } from "./flux-polled.ts";
import { type Pushed, type Side, startFluxSide, startTowlineSide } from "./flux-sides.ts";
import {
  type Goal,
  type Measurement,
  median,
  megabytes,
  milliseconds,
  quantile,
  type Report,
  seconds,
  type Table,
} from "./measurement.ts";
import type { Stage } from "./stage.ts";
import { timeIn } from "./timeline.ts";
import type { Ran } from "./towline.ts";

const goals = { oneRatio: 0.9, manyRatio: 0.8, cpuRatio: 1, growth: 2.1 } as const;

/** The pushes of both sides with one deployment, or with so many. */
interface Round {
  readonly deployments: number;
  readonly towline: readonly Pushed[];
  readonly flux: readonly Pushed[];
}

export const besideFlux: Measurement = {
  name: "flux",
  title: "Beside Flux",
  async run(stage) {
    const flux = await stage.startFlux();
    const polled = await measurePolled(stage);
    const one = await measureOne(stage, () => startFluxSide(stage, flux, "bench-flux-one"));
    const counts = stage.quick ? [100] : [100, 200];
    const pushes = stage.quick ? 1 : 3;
    const ofFlux = await measureMany(stage, await startFluxSide(stage, flux, "bench-flux-many"), counts, pushes);
    await flux.stop();
    const ofTowline = await measureMany(stage, await startTowlineSide(stage, "bench-flux-many-ours"), counts, pushes);
    const many = counts.map((deployments, i) => ({ deployments, towline: ofTowline[i]!, flux: ofFlux[i]! }));
    return toReport(polled, one, many, pushes);
  },
};

/** One deployment each. The pushes alternate, so that neither disturbs the other and both meet the same machine. */
async function measureOne(stage: Stage, startFlux: () => Promise<Side>): Promise<Round> {
  const pushes = stage.quick ? 5 : 30;
  stage.say(`  ${pushes} pushes for one deployment of Towline, and as many of Flux …`);
  const sides = [await startTowlineSide(stage, "bench-flux-one-ours"), await startFlux()] as const;
  const found: readonly [Pushed[], Pushed[]] = [[], []];
  for (const side of sides) await side.grow(1);
  const warmUps = 2;
  for (let i = 0; i < pushes + warmUps; i++) {
    for (const [which, side] of sides.entries()) {
      const pushed = await side.push();
      if (i >= warmUps) found[which as 0 | 1].push(pushed);
    }
  }
  for (const side of sides) await side.stop();
  return { deployments: 1, towline: found[0], flux: found[1] };
}

/** Returns the pushes for each number of deployments. */
async function measureMany(stage: Stage, side: Side, counts: readonly number[], pushes: number): Promise<Pushed[][]> {
  const rounds: Pushed[][] = [];
  for (const count of counts) {
    await side.grow(count);
    const round: Pushed[] = [];
    for (let i = 0; i < pushes; i++) {
      const pushed = await side.push();
      stage.say(`  ${side.name}: ${count} deployments after ${seconds(pushed.changedMs)}`);
      round.push(pushed);
    }
    rounds.push(round);
  }
  await side.stop();
  return rounds;
}

const changedOf = (pushed: readonly Pushed[]) => median(pushed.map(({ changedMs }) => changedMs));

/** Median of what the pushes took, for each deployment. */
function perDeployment({ deployments }: Round, pushed: readonly Pushed[], of: (one: Pushed) => number): number {
  return median(pushed.map(of)) / deployments;
}

function toReport(polled: Polled, one: Round, many: readonly Round[], pushes: number): Report {
  const { gitRepository, deployment } = intervals;
  const version = (name: "source-controller" | "kustomize-controller") => `${name} ${tools[name].build?.version}`;
  const counts = many.map(({ deployments }) => deployments).join(" and ");
  return {
    how:
      `Flux's own ${version("source-controller")} and ${version("kustomize-controller")}, with the options of Flux's manifests, deploy three ConfigMaps; a push changes all of them. ` +
      `GitRepositories have \`interval: ${gitRepository}\`, as \`flux create source git\` gives, Kustomizations and KluctlDeployments \`interval: ${deployment}\`, and otherwise the defaults: KluctlDeployments are validated, Kustomizations wait for nothing. ` +
      "The clock starts when `git push` has ended and stops when a watch of the API server shows the last changed object. " +
      `First, ${polled.alone.length} applications on Gitea get a push each, spread over one interval, and Flux is left alone; then \`towline serve\` with \`flux.trigger: true\` gets Gitea's webhooks, and ${polled.triggered.length} pushes follow one after the other. ` +
      `Then Towline deploys the same objects from its own repository, with its own KluctlDeployment, and takes turns with Flux: ${one.towline.length} pushes each. Both are triggered at the moment the push is done, Towline by a delivery and Flux by the annotation on its GitRepository, so no git host's webhook is included. ` +
      `Finally, one push changes ${counts} deployments of one repository${pushes > 1 ? `, ${pushes} times each (medians)` : ""}, while the other side is stopped. CPU is that of the server with everything it starts, or of both controllers, from the push until the last status is written; the API server and Redis are not included. ` +
      "The server is compiled as in the image; it reconciles two at a time on this machine, the kustomize-controller four.",
    tables: [polledTable(polled), stepTable(polled), oneTable(one), manyTable(many)],
    goals: [oneGoal(one), ...many.flatMap(manyGoals), ...growthGoals(many)],
    memory: [],
  };
}

/** Median, 95th percentile and maximum as cells. */
function spread(values: readonly number[]): string[] {
  return [median(values), quantile(values, 0.95), quantile(values, 1)].map(milliseconds);
}

const spreadHead = ["p50", "p95", "max"];

function polledTable({ alone, triggered }: Polled): Table {
  const totals = triggered.map(({ totalMs }) => totalMs);
  const ratio = (of: (values: readonly number[]) => number | undefined) =>
    ((of(alone) ?? NaN) / (of(totals) ?? NaN)).toFixed(0);
  return {
    head: ["push done → applied by Flux", ...spreadHead],
    rows: [
      ["Flux alone", ...spread(alone)],
      ["Flux, triggered by Towline", ...spread(totals)],
      ["ratio", ...[0.5, 0.95, 1].map((share) => ratio((values) => quantile(values, share)))],
    ],
  };
}

function stepTable({ triggered }: Polled): Table {
  const steps = triggered.flatMap((one) => one.steps ?? []);
  const row = (what: string, of: (steps: FluxSteps) => number) => [what, ...spread(steps.map(of))];
  return {
    head: ["Flux, triggered by Towline", ...spreadHead],
    rows: [
      row("push done → delivery received", ({ webhook }) => webhook),
      row("delivery received → fetch requested", ({ request }) => request),
      row("fetch requested → applied by Flux", ({ flux }) => flux),
    ],
  };
}

function oneTable({ towline, flux }: Round): Table {
  const row = (what: string, pushed: readonly Pushed[]) => [what, ...spread(pushed.map(({ changedMs }) => changedMs))];
  return {
    head: ["triggered when the push is done → objects changed", ...spreadHead],
    rows: [
      row("Towline", towline),
      row("Flux", flux),
      ["ratio of the medians", ratioOf(changedOf(towline), changedOf(flux)), "", ""],
    ],
  };
}

function manyTable(many: readonly Round[]): Table {
  const rows = many.flatMap((round) => {
    const { deployments, towline, flux } = round;
    const row = (what: string, of: (pushed: readonly Pushed[]) => number, show: (value: number) => string) => [
      `${deployments} deployments: ${what}`,
      ...[of(towline), of(flux)].map(show),
      ratioOf(of(towline), of(flux)),
    ];
    return [
      row("until all objects are changed", changedOf, seconds),
      row("CPU per deployment", (pushed) => perDeployment(round, pushed, ({ cpuMs }) => cpuMs), milliseconds),
      row("memory, at most", (pushed) => Math.max(...pushed.map(({ memoryBytes }) => memoryBytes)), megabytes),
    ];
  });
  const [growth] = growthsOf(many);
  return {
    head: ["one push for many deployments", "Towline", "Flux", "ratio"],
    rows: [...rows, ...(growth ? [[growth.what, growth.towline.toFixed(2), growth.flux.toFixed(2), ""]] : [])],
  };
}

function ratioOf(towline: number, flux: number): string {
  return (towline / flux).toFixed(2);
}

/** A ratio that should not exceed the limit; compared as displayed. */
function atMost(limit: number, { what, measured, why }: Pick<Goal, "what" | "measured" | "why">): Goal {
  return { what, wanted: `≤ ${limit}`, measured, met: Number(measured) <= limit, why };
}

function oneGoal({ towline, flux }: Round): Goal {
  const during = (...names: string[]) =>
    milliseconds(
      median(
        towline.map(({ doneAt, changedAt, ran }) =>
          timeIn({ receivedAt: doneAt, seenAt: changedAt, recordedAt: changedAt }, ran, names),
        ),
      ),
    );
  return atMost(goals.oneRatio, {
    what: `push for one deployment, both triggered at once, p50 of ${towline.length} pushes: Towline / Flux`,
    measured: ratioOf(changedOf(towline), changedOf(flux)),
    why:
      `of Towline's ${milliseconds(changedOf(towline))}, the run of kluctl takes ${during("kluctl deploy", "kluctl diff")} until the objects are changed, and the git commands ` +
      `that contact the remote ${during("git fetch", "git ls-remote")}; Flux applies in the processes that are running already.`,
  });
}

function manyGoals(round: Round): Goal[] {
  const { deployments, towline, flux } = round;
  const cpu = (pushed: readonly Pushed[]) => perDeployment(round, pushed, (one) => one.cpuMs);
  const own = perDeployment(round, towline, ({ ownCpuMs }) => ownCpuMs);
  const runs = (command: string) => perDeployment(round, towline, ({ ran }) => runsOf(ran, command)).toFixed(1);
  const why =
    `of the ${milliseconds(cpu(towline))} of CPU that Towline takes per deployment, ${milliseconds(own)} are the server's own; nearly all of the rest is kluctl, which runs ` +
    `${runs("deploy")} times to deploy and ${runs("validate")} times to validate. Flux takes ${milliseconds(cpu(flux))}, in processes that are running already.`;
  return [
    atMost(goals.manyRatio, {
      what: `${deployments} deployments, one push, until all objects are changed: Towline / Flux`,
      measured: ratioOf(changedOf(towline), changedOf(flux)),
      why,
    }),
    atMost(goals.cpuRatio, {
      what: `${deployments} deployments, one push, CPU per deployment: Towline / Flux`,
      measured: ratioOf(cpu(towline), cpu(flux)),
      why,
    }),
  ];
}

/** The number of these runs of kluctl. */
function runsOf(ran: readonly Ran[], command: string): number {
  return ran.filter(({ args }) => args.some((arg) => /(^|\/)kluctl$/.test(arg)) && args.includes(command)).length;
}

function growthsOf(many: readonly Round[]) {
  const [few, more] = [many[0], many[1]];
  if (few === undefined || more === undefined) return [];
  const growth = (of: (round: Round) => readonly Pushed[]) => changedOf(of(more)) / changedOf(of(few));
  const what = `time for ${more.deployments} / time for ${few.deployments}`;
  return [{ what, towline: growth(({ towline }) => towline), flux: growth(({ flux }) => flux) }];
}

function growthGoals(many: readonly Round[]): Goal[] {
  return growthsOf(many).map(({ what, towline, flux }) =>
    atMost(goals.growth, {
      what: `one push, until all objects of Towline are changed: ${what}`,
      measured: towline.toFixed(2),
      why: `Flux's time grows by ${flux.toFixed(2)} on the same machine.`,
    }),
  );
}
