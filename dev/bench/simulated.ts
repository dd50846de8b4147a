/**
 * Ten thousand deployments with a stand-in for kluctl, which sleeps as long as the real one took in this run and prints
 * its recorded result. Everything else is real. Measures how the server itself scales, and how servers share the work.
 */
import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Measurement, megabytes, median, milliseconds, type Report, seconds } from "./measurement.ts";
import { gather, loops, type Population, type PushedAll, populate, settled, watchIdle } from "./population.ts";
import { startSlowWay } from "./slow-way.ts";
import type { Stage } from "./stage.ts";
import { growth, type Towline } from "./towline.ts";
import { startSampling } from "./usage.ts";

const concurrency = 8;
const perRepository = 100;
/** Delay in each direction. */
const slowMs = 50;

interface Push extends PushedAll {
  readonly what: string;
  /** Number of jobs that each server ran. */
  readonly shares: readonly number[];
  readonly cores: number;
}

export const simulated: Measurement = {
  name: "simulated",
  title: "Ten thousand deployments, with a simulated kluctl",
  async run(stage) {
    const count = stage.deployments ?? (stage.quick ? 200 : 10_000);
    const recorded = await record(stage);
    const kluctl = await writeStandIn(stage, recorded);
    const namespace = "bench-simulated";
    const repositories = Math.ceil(count / perRepository);
    const { all, start } = await gather(stage, {
      ...{ namespace, deployments: count, repositories, interval: "1h", concurrency, upToDate: true },
      servers: { kluctl, warm: "off" },
    });
    const { server, readyMs } = await start("1");
    const watched = { settleMs: stage.quick ? 3_000 : 20_000, forMs: stage.quick ? 5_000 : 20_000 };
    const idle = await watchIdle(server, watched);

    const servers = [server];
    const nth = (n: number) => Math.min(n, repositories - 1);
    const another = async (name: string) => void servers.push((await start(name)).server);
    const pushes = [await push("one server", all, 0, servers)];
    await another("2");
    pushes.push(await push("two servers", all, nth(1), servers));
    await Promise.all([another("3"), another("4")]);
    pushes.push(await push("four servers", all, nth(2), servers));
    await Promise.all(servers.map((server) => server.stop()));
    const way = await startSlowWay(await readFile(stage.cluster.kubeconfig, "utf8"), slowMs);
    stage.defer(() => way.stop());
    const slowConfig = join(stage.stateDir, "slow-kubeconfig");
    await writeFile(slowConfig, way.kubeconfig, { mode: 0o600 });
    const { server: slow } = await start("slow", { kubeconfig: slowConfig });
    pushes.push(await push(`one server, ${2 * slowMs} ms from the API server`, all, nth(3), [slow]));
    await slow.stop();
    for (const { what, ms } of pushes) stage.say(`  ${what}: ${seconds(ms)}`);

    return {
      how:
        `${count} deployments of ${repositories} repositories that are up to date according to their status, with \`interval: 1h\`. kluctl is simulated by a script that sleeps as long as the real kluctl took for the same project (diff ${milliseconds(recorded.diff.ms)}, deploy ${milliseconds(recorded.deploy.ms)}; medians of this run) and returns the same result. ` +
        `Git, Redis and the API server are real. Each server reconciles ${concurrency} at a time; all servers share one Redis and one machine. Each push affects the ${perRepository} deployments of one repository.`,
      tables: [
        {
          head: [`one server, ${count} deployments`, ""],
          rows: [
            ["start → ready", milliseconds(readyMs)],
            ["idle: memory", megabytes(idle.serverBytes)],
            ["idle: CPU, of one core", `${(idle.cores * 100).toFixed(2)} %`],
            ...idle.scrapeRows,
          ],
        },
        {
          head: ["push handled by", "deployments", "until all are Ready", "jobs of each server", "cores, all servers"],
          rows: pushes.map(({ what, deployments, ms, shares, cores }) => [
            what,
            String(deployments),
            seconds(ms),
            shares.join(", "),
            cores.toFixed(2),
          ]),
        },
      ],
      goals: [],
      memory: [],
    } satisfies Report;
  },
};

async function push(what: string, all: Population, repository: number, servers: readonly Towline[]): Promise<Push> {
  const count = () => Promise.all(servers.map((server) => server.metrics()));
  const before = await count();
  const sampled = servers.map(({ pid }) => startSampling(pid, 5_000));
  const done = await all.push(repository, servers[0]!);
  const cores = sampled.reduce((sum, sample) => sum + sample().cores, 0);
  const after = await count();
  for (const server of servers) await settled(server);
  return { what, ...done, shares: after.map((one, i) => growth(before[i]!, one, loops)), cores };
}

interface Recorded {
  readonly diff: { readonly ms: number; readonly result: string };
  readonly deploy: { readonly ms: number; readonly result: string };
}

const recordedName = "d00000";

/** Lets the real kluctl deploy one of these deployments a few times, and records its results and durations. */
async function record(stage: Stage): Promise<Recorded> {
  const namespace = "bench-recorded";
  const here = join(stage.stateDir, namespace);
  await mkdir(here, { recursive: true });
  const recorder = join(here, "kluctl");
  const script = `#!/bin/bash
if [ "$1" = version ]; then exec ${stage.kluctl} "$@"; fi
for argument; do case $argument in yaml=*) out=\${argument#yaml=};; esac; done
${stage.kluctl} "$@"; status=$?
cp "$out" ${here}/"$1".yaml
exit $status
`;
  await writeFile(recorder, script);
  await chmod(recorder, 0o755);
  const one = await populate(stage, {
    ...{ namespace, deployments: 1, repositories: 1, interval: "1h", upToDate: false },
  });
  const server = await stage.startTowline({
    ...{ name: namespace, namespace, concurrency: 1, kluctl: recorder, warm: "off" as const },
    fullInterval: "0s", // so that each deployment is compared first
  });
  for (let i = 0; i < 4; i++) await one.push(0, server);
  const processes = await server.processes();
  await server.stop();
  const read = async (command: "diff" | "deploy") => {
    const took = processes.filter(({ args }) => args.includes(command)).map(({ from, to }) => to - from);
    return { ms: median(took.slice(1)), result: await readFile(join(here, `${command}.yaml`), "utf8") };
  };
  return { diff: await read("diff"), deploy: await read("deploy") };
}

/** Writes a kluctl that prints the recorded results with the name and the release of each deployment. */
async function writeStandIn(stage: Stage, { diff, deploy }: Recorded): Promise<string> {
  const here = join(stage.stateDir, "simulated");
  await mkdir(here, { recursive: true });
  const path = join(here, "kluctl");
  await writeFile(join(here, "diff.yaml"), diff.result);
  await writeFile(join(here, "deploy.yaml"), deploy.result);
  const script = `#!/bin/bash
if [ "$1" = version ]; then echo 2.22.1; exit; fi
for argument; do case $argument in
  yaml=*) out=\${argument#yaml=};;
  --args-from-file=*) args=$(<"\${argument#*=}");;
  --project-dir=*) project=\${argument#*=};;
esac; done
[[ $args =~ \\"name\\":\\ *\\"([^\\"]*)\\" ]] && name=\${BASH_REMATCH[1]}
release=$(<"$project/release.yaml"); release=\${release#*: }; release=\${release//\\"/}
if [ "$1" = diff ]; then sleep ${(diff.ms / 1_000).toFixed(3)}; else sleep ${(deploy.ms / 1_000).toFixed(3)}; fi
exec sed -e "s/${recordedName}/$name/g" -e "s/release: \\"4\\"/release: \\"$release\\"/" ${here}/"$1".yaml > "$out"
`;
  await writeFile(path, script);
  await chmod(path, 0o755);
  return path;
}
