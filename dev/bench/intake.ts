/** Signed deliveries at a steady rate: at a high rate, while the resulting jobs run, and beside hostile clients. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { startProcess } from "../parts/process.ts";
import { createDelivery } from "./delivery.ts";
import { type Measurement, milliseconds, type Report } from "./measurement.ts";
import { specOf, upToDate } from "./project.ts";
import type { Order, Sent } from "./send-pushes.ts";
import type { Stage } from "./stage.ts";
import { type Strangers, type StrangersOptions, startStrangers } from "./strangers.ts";
import { growth } from "./towline.ts";
import { cpuSeconds, ownCpuSeconds, startSampling } from "./usage.ts";

const deployments = 50;
const perSecond = 1_000;
const bytes = 8 * 1024;
const connections = 64;
const warmSeconds = 3;
const goalMs = 50;

export const intake: Measurement = {
  name: "intake",
  title: "Webhook intake",
  async run(stage) {
    const namespace = "bench-intake";
    const repositories = await prepare(stage, namespace);
    const server = await stage.startTowline({ name: namespace, namespace, concurrency: 2 });
    const deliveries = repositories.map(({ url, commit }) =>
      createDelivery({ url, commit, paths: ["release.yaml"], bytes }, server.webhook.secret),
    );
    const seconds = stage.quick ? 5 : 20;
    const order: Order = { url: server.webhook.url, perSecond, seconds, warmSeconds, connections, deliveries };

    const sampled = startSampling(server.pid);
    const cpu = () => ({ own: ownCpuSeconds(server.pid), all: cpuSeconds(server.pid) });
    const cpuBefore = cpu();
    const before = await server.metrics();
    const sent = await send(stage, order);
    const usage = sampled();
    const cpuAfter = cpu();
    const eachMs = (what: "own" | "all") =>
      `${(((cpuAfter[what] - cpuBefore[what]) * 1_000) / (perSecond * (seconds + warmSeconds))).toFixed(2)} ms`;
    const jobs = growth(before, await server.metrics(), "towline_reconcile_duration_seconds_count");
    await server.stop();
    const lost = sent.sent - sent.accepted;
    return {
      how:
        `${sent.sent} signed deliveries of 8 KB, ${perSecond} a second, from a separate process that does not wait for answers. ` +
        `They are for ${deployments} deployments, each with its own repository. Every delivery is matched and stored in Redis (append-only file enabled), ` +
        "while the resulting jobs run: each asks git and finds no new commit. The sender, the git host and Redis share the machine with the server. " +
        "Latency counts from the moment at which a delivery was due, so that it includes delays of the sender.",
      tables: [
        {
          head: ["deliveries", ""],
          rows: [
            ["sent", String(sent.sent)],
            ["answered with 202", String(sent.accepted)],
            ["lost", describeLost(sent)],
            ["latency, p50", milliseconds(sent.p50)],
            ["latency, p99", milliseconds(sent.p99)],
            ["latency, max", milliseconds(sent.max)],
            ["largest delay of the sender", milliseconds(sent.latest)],
            ["jobs completed meanwhile", String(jobs)],
            ["CPU of the server process per delivery, including its part of the jobs", eachMs("own")],
            ["CPU per delivery, including the processes that the jobs start", eachMs("all")],
            ["CPU of the sender", `${sent.cores.toFixed(2)} cores`],
          ],
        },
      ],
      goals: [
        {
          what: `intake at ${perSecond}/s: p99`,
          wanted: `< ${goalMs} ms`,
          measured: milliseconds(sent.p99),
          met: sent.p99 < goalMs,
        },
        { what: `intake at ${perSecond}/s: lost`, wanted: "0", measured: String(lost), met: lost === 0 },
      ],
      memory: [{ when: `${perSecond} deliveries a second`, ...usage }],
    } satisfies Report;
  },
};

const perSecondBeside = 50;
const goalBesideMs = 200;
const [large, dribbling] = [8, 1_000];

export const strangers: Measurement = {
  name: "strangers",
  title: "Webhook intake with hostile clients",
  async run(stage) {
    const namespace = "bench-strangers";
    const repositories = await prepare(stage, namespace);
    const server = await stage.startTowline({ name: namespace, namespace, concurrency: 2 });
    const deliveries = repositories.map(({ url, commit }) =>
      createDelivery({ url, commit, paths: ["release.yaml"], bytes }, server.webhook.secret),
    );
    const { url } = server.webhook;
    const seconds = stage.quick ? 5 : 30;
    const order: Order = { url, perSecond: perSecondBeside, seconds, warmSeconds, connections, deliveries };
    const sampled = startSampling(server.pid);
    const sent = await besideStrangers(url, () => send(stage, order));
    const usage = sampled();
    await server.stop();
    const lost = sent.sent - sent.accepted;
    return {
      how:
        `${sent.sent} signed deliveries of 8 KB, ${perSecondBeside} a second, otherwise as above. Meanwhile clients that do not have the secret, from the same address as the sender, ` +
        `hold ${large} connections that send 10 MiB except the last byte, and ${dribbling} that send one byte of a body each second. A client whose connection is closed returns after a second. ` +
        "These clients, the sender, the git host and Redis share the machine with the server.",
      tables: [
        {
          head: ["deliveries", ""],
          rows: [
            ["sent", String(sent.sent)],
            ["answered with 202", String(sent.accepted)],
            ["lost", describeLost(sent)],
            ["latency, p50", milliseconds(sent.p50)],
            ["latency, p99", milliseconds(sent.p99)],
            ["latency, max", milliseconds(sent.max)],
            ["largest delay of the sender", milliseconds(sent.latest)],
          ],
        },
      ],
      goals: [
        {
          what: `intake at ${perSecondBeside}/s with hostile clients: p99`,
          wanted: `< ${goalBesideMs} ms`,
          measured: milliseconds(sent.p99),
          met: sent.p99 < goalBesideMs,
        },
        {
          what: `intake at ${perSecondBeside}/s with hostile clients: lost`,
          wanted: "0",
          measured: String(lost),
          met: lost === 0,
        },
      ],
      memory: [{ when: `${perSecondBeside} deliveries a second with hostile clients`, ...usage }],
    } satisfies Report;
  },
};

/** Starts the large senders first: they use up the room for bodies before the others request any. */
async function besideStrangers(url: string, work: () => Promise<Sent>): Promise<Sent> {
  const all: Strangers[] = [];
  const begin = async (options: Omit<StrangersOptions, "url">) => {
    const begun = startStrangers({ url, ...options });
    all.push(begun);
    while (begun.begun() < options.large + options.dribbling) await sleep(50);
  };
  try {
    await begin({ large, dribbling: 0 });
    await begin({ large: 0, dribbling });
    return await work();
  } finally {
    for (const { stop } of all) stop();
  }
}

export function describeLost({ sent, accepted, others }: Sent): string {
  const what = Object.entries(others).map(([outcome, times]) => `${outcome}: ${times}`);
  return [String(sent - accepted), ...what].join(", ");
}

/** Creates deployments that are up to date, with a status as another replica would have written it. */
async function prepare(stage: Stage, namespace: string): Promise<{ url: string; commit: string }[]> {
  const { host, copy, first } = await stage.countedRepository(namespace);
  const { cluster } = stage;
  await cluster.createNamespace(namespace);
  const repositories: { url: string; commit: string }[] = [];
  for (let i = 0; i < deployments; i++) {
    const name = `app-${String(i).padStart(2, "0")}`;
    const url = await host.createRepository(name);
    await copy.git("push", "--quiet", url, "HEAD:refs/heads/main");
    await cluster.createDeployment(namespace, name, specOf({ url, namespace, name, interval: "1h" }));
    await cluster.setStatus(namespace, name, upToDate(first));
    repositories.push({ url, commit: first });
  }
  return repositories;
}

export async function send({ stateDir }: Stage, order: Order): Promise<Sent> {
  const file = join(stateDir, "order.json");
  const logFile = join(stateDir, "logs", `sender-${Date.now()}.log`);
  await writeFile(file, JSON.stringify(order), { mode: 0o600 });
  const script = new URL("./send-pushes.ts", import.meta.url);
  const sender = await startProcess({
    name: "sender",
    command: process.execPath,
    args: [script.pathname, file],
    logFile,
  });
  const late = setTimeout(() => void sender.stop(), (order.warmSeconds + order.seconds + 30) * 1_000);
  const { ok, reason } = await sender.exited;
  clearTimeout(late);
  const text = await readFile(logFile, "utf8");
  if (!ok) throw new Error(`The sender ended with ${reason}: ${text}`);
  return JSON.parse(text.trim().split("\n").at(-1) ?? "") as Sent;
}
