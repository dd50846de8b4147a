/** The resources of an idle server by the number of deployments that it watches. */
import { setTimeout as delay } from "node:timers/promises";
import { now } from "./clock.ts";
import { compileServer } from "./compiled.ts";
import { type MemoryRow, type Measurement, megabytes, milliseconds, type Report } from "./measurement.ts";
import { specOf, upToDate } from "./project.ts";
import type { Stage } from "./stage.ts";
import { startSampling } from "./usage.ts";

const most = { bytes: 150 * 1024 * 1024, cores: 0.01 };

interface Footprint {
  readonly deployments: number;
  readonly readyMs: number;
  readonly usage: Omit<MemoryRow, "when">;
}

export const footprint: Measurement = {
  name: "footprint",
  title: "Memory and CPU of an idle server",
  async run(stage) {
    const counts = stage.quick ? [0, 20] : [0, 200, 1_000];
    const [settleMs, forMs] = stage.quick ? [3_000, 5_000] : [20_000, 60_000];
    const program = await compileServer(stage.stateDir);
    const found: Footprint[] = [];
    for (const deployments of counts) found.push(await measure(stage, deployments, { program, settleMs, forMs }));
    const last = found.at(-1)!;
    const what = `idle server with ${last.deployments} deployments`;
    const { withChildrenBytes, cores } = last.usage;
    return {
      how:
        `A server that has just started, compiled as in the image, with deployments that are up to date: according to its status, each was just deployed and has an interval of one hour. ` +
        `Sampled for ${forMs / 1_000} s, ${settleMs / 1_000} s after it was ready: by then it has released the memory that only the start needs. Its only child is the small process that starts git and kluctl; pages that both share count once. It has not run kluctl yet, so the fork server with warm renderers (40 MB) is not running either.`,
      tables: [
        {
          head: ["deployments", "start → ready", "memory", "with child processes", "CPU, of one core"],
          rows: found.map(({ deployments, readyMs, usage }) => [
            String(deployments),
            milliseconds(readyMs),
            megabytes(usage.serverBytes),
            megabytes(usage.withChildrenBytes),
            `${(usage.cores * 100).toFixed(2)} %`,
          ]),
        },
      ],
      goals: [
        {
          what: `${what}: memory`,
          wanted: `< ${megabytes(most.bytes)}`,
          measured: megabytes(withChildrenBytes),
          met: withChildrenBytes < most.bytes,
          why: "the server releases the memory that only the start needs, but how much of it is released at once varies by a few megabytes from start to start.",
        },
        {
          what: `${what}: CPU, of one core`,
          wanted: `< ${most.cores * 100} %`,
          measured: `${(cores * 100).toFixed(2)} %`,
          met: cores < most.cores,
        },
      ],
      memory: [],
    } satisfies Report;
  },
};

async function measure(
  stage: Stage,
  deployments: number,
  { program, settleMs, forMs }: { program: string; settleMs: number; forMs: number },
): Promise<Footprint> {
  const namespace = `bench-footprint-${deployments}`;
  const { url, first } = await stage.countedRepository(namespace);
  const { cluster } = stage;
  await cluster.createNamespace(namespace);
  for (let i = 0; i < deployments; i++) {
    const name = `app-${String(i).padStart(4, "0")}`;
    await cluster.createDeployment(namespace, name, specOf({ url, namespace, name, interval: "1h" }));
    await cluster.setStatus(namespace, name, upToDate(first));
  }
  const startedAt = now();
  const server = await stage.startTowline({ name: namespace, namespace, concurrency: 2, program });
  const readyMs = now() - startedAt;
  await delay(settleMs);
  const sampled = startSampling(server.pid, 1_000);
  await delay(forMs);
  const usage = sampled();
  const processes = await server.processes();
  if (processes.some(({ args }) => args.includes("diff") || args.includes("deploy")))
    throw new Error("The server ran kluctl, so it was not idle.");
  await server.stop();
  return { deployments, readyMs, usage };
}
