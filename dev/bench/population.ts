/** Many small deployments of several repositories, and the watches that show their progress. */
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { stringify } from "yaml";
import { createLimit } from "../../src/kit/limit.ts";
import type { FileChanges } from "../parts/work-copy.ts";
import { now } from "./clock.ts";
import { isReady, type Seen } from "./cluster.ts";
import { createDelivery } from "./delivery.ts";
import { specOf, upToDate } from "./project.ts";
import { compileServer } from "./compiled.ts";
import { median, milliseconds } from "./measurement.ts";
import type { Stage, TowlineServerOptions } from "./stage.ts";
import { closeConnection, growth, type Towline } from "./towline.ts";
import { startSampling } from "./usage.ts";

/** One small object; a push changes one of its values. */
const smallProject: FileChanges = {
  ".kluctl.yaml": stringify({
    discriminator: "bench-{{ args.namespace }}-{{ args.name }}",
    args: [{ name: "name" }, { name: "namespace" }],
  }),
  "deployment.yaml": stringify({ deployments: [{ path: "app" }], vars: [{ file: "release.yaml" }] }),
  "release.yaml": stringify({ release: "0" }),
  "app/config.yaml": stringify({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "{{ args.name }}", namespace: "{{ args.namespace }}" },
    data: { release: "{{ release }}" },
  }),
};

export interface Population {
  readonly namespace: string;
  readonly names: readonly string[];
  /** Names of the deployments of the repository with this number. */
  members(repository: number): readonly string[];
  /**
   * Pushes a new release to the repository, delivers the event to the server, and resolves when all its deployments are
   * ready at it.
   */
  push(repository: number, server: Towline, during?: () => Promise<void>): Promise<PushedAll>;
  readonly seen: Seen;
  readonly first: string;
}

export interface PushedAll {
  readonly deployments: number;
  readonly ms: number;
}

export interface PopulationOptions {
  readonly namespace: string;
  readonly deployments: number;
  readonly repositories: number;
  readonly interval: string;
  /** Gives them a status that reports nothing to do, as another replica would have written it. */
  readonly upToDate: boolean;
}

/** Number of concurrent requests to the API server. */
const atOnce = 16;
const patienceMs = 240_000;

export async function populate(stage: Stage, options: PopulationOptions): Promise<Population> {
  const { namespace, deployments, repositories, interval } = options;
  const { cluster } = stage;
  const { host, copy } = await stage.countedRepository(namespace);
  const first = await copy.push(smallProject, { force: true });
  const urls: string[] = [];
  for (let i = 0; i < repositories; i++) {
    const url = await host.createRepository(`${namespace}-${i}`);
    await copy.git("push", "--quiet", url, "HEAD:refs/heads/main");
    urls.push(url);
  }
  await cluster.createNamespace(namespace);
  const seen = await cluster.watch("KluctlDeployment", namespace);
  stage.defer(() => seen.stop());
  const names = Array.from({ length: deployments }, (_, i) => `d${String(i).padStart(5, "0")}`);
  const limit = createLimit(atOnce);
  await Promise.all(
    names.map((name, i) =>
      limit.run(async () => {
        const url = urls[i % repositories]!;
        await cluster.createDeployment(namespace, name, specOf({ url, namespace, name, interval }));
        if (options.upToDate) await cluster.setStatus(namespace, name, upToDate(first));
      }),
    ),
  );
  const members = (repository: number) => names.filter((_, i) => i % repositories === repository);
  let release = 0;
  return {
    namespace,
    names,
    members,
    seen,
    first,
    async push(repository, server, during) {
      const url = urls[repository]!;
      const commit = await copy.push({ "release.yaml": stringify({ release: String(++release) }) });
      await copy.git("push", "--quiet", url, "HEAD:refs/heads/main");
      const startedAt = now();
      await deliver(server, url, commit);
      await during?.();
      const mine = members(repository);
      const all = (objects: Parameters<Parameters<Seen["until"]>[1]>[0]) =>
        mine.every((name) => isReady(objects.get(name), commit));
      const doneAt = await seen.until(`ready at ${commit}`, all, patienceMs);
      return { deployments: mine.length, ms: doneAt - startedAt };
    },
  };
}

/** Delivers a push that changed the release, as the git host's webhook would. */
export async function deliver({ webhook }: Towline, url: string, commit: string): Promise<void> {
  const { body, headers } = createDelivery({ url, commit, paths: ["release.yaml"] }, webhook.secret);
  const answer = await fetch(webhook.url, {
    method: "POST",
    headers: { ...headers, ...closeConnection, "x-gitea-delivery": randomUUID() },
    body,
  });
  if (answer.status !== 202)
    throw new Error(`The server responded with status ${answer.status}: ${await answer.text()}`);
}

export interface CrowdOptions extends Omit<PopulationOptions, "deployments"> {
  readonly deployments: number;
  readonly concurrency: number;
  /** Options for all servers that differ from the defaults. */
  readonly servers?: Partial<TowlineServerOptions> | undefined;
}

export interface Crowd {
  readonly all: Population;
  /**
   * Starts another server of this name for all deployments; all servers share the queue. Also returns the time until it
   * was ready.
   */
  start(name: string, more?: Partial<TowlineServerOptions>): Promise<{ server: Towline; readyMs: number }>;
}

/** Creates many deployments; their servers are compiled as in the image. */
export async function gather(stage: Stage, { concurrency, servers, ...options }: CrowdOptions): Promise<Crowd> {
  const { namespace } = options;
  const program = await compileServer(stage.stateDir);
  const all = await populate(stage, options);
  return {
    all,
    async start(name, more) {
      const startedAt = now();
      const server = await stage.startTowline({
        ...{ name: `${namespace}-${name}`, prefix: namespace, namespace, concurrency, program },
        ...servers,
        ...more,
      });
      return { server, readyMs: now() - startedAt };
    },
  };
}

/** Measures the resources of the server while nothing is pushed, and the duration and size of a scrape. */
export async function watchIdle(server: Towline, { settleMs, forMs }: Record<"settleMs" | "forMs", number>) {
  await delay(settleMs);
  const before = await server.metrics();
  const sampled = startSampling(server.pid, 1_000);
  await delay(forMs);
  const taken = { ...sampled(), seconds: forMs / 1_000, loops: growth(before, await server.metrics(), loops) };
  const scrapes = [];
  for (let i = 0; i < 10; i++) scrapes.push(await server.scrape());
  const scrapeRows = [
    ["`/metrics`: time, median of 10", milliseconds(median(scrapes.map(({ ms }) => ms)))],
    ["`/metrics`: size", `${Math.round((scrapes[0]?.bytes ?? 0) / 1024)} kB`],
  ];
  return { ...taken, scrapeRows };
}

/** The sample that counts reconciliations. */
export const loops = "towline_reconcile_duration_seconds_count";

/** Waits until no job is queued or in progress: the last status is written after the last object has changed. */
export async function settled(server: Towline, withinMs = 60_000): Promise<void> {
  const deadline = now() + withinMs;
  while ((await jobsIn(server)) > 0 && now() < deadline) await delay(250);
}

async function jobsIn(server: Towline): Promise<number> {
  const metrics = await server.metrics();
  const jobs = [...metrics].filter(([sample]) => sample.startsWith("towline_queue_jobs{"));
  return jobs.reduce((sum, [, value]) => sum + value, 0);
}
