/** From a push to what Flux has applied: at the interval of its GitRepositories, and with Towline's trigger. */
import { setTimeout as delay } from "node:timers/promises";
import type { Seen } from "./cluster.ts";
import { compileServer } from "./compiled.ts";
import { haveRelease, isApplied, manifests } from "./flux-project.ts";
import { createGitRepository, createKustomization, suspend, watch } from "./flux-sides.ts";
import { pushChange } from "./project.ts";
import type { Stage } from "./stage.ts";
import { receivedAt } from "./timeline.ts";
import type { LogLine, Towline } from "./towline.ts";

const namespace = "bench-flux";
const intervalMs = 60_000;
const patienceMs = 180_000;

export interface Polled {
  /** Milliseconds from the end of each push until its objects were changed, without Towline. */
  readonly alone: readonly number[];
  readonly triggered: readonly Triggered[];
}

export interface Triggered {
  /** Milliseconds from the end of the push until its objects were changed. */
  readonly totalMs: number;
  /** What follows each other in this time; absent if Flux has found the push by itself before the webhook arrived. */
  readonly steps?: FluxSteps | undefined;
}

/** Milliseconds. */
export interface FluxSteps {
  /** From the end of the push until the server received the delivery. */
  readonly webhook: number;
  /** Until a fetch by Flux was requested. */
  readonly request: number;
  /** Until all objects were changed. */
  readonly flux: number;
}

type App = Awaited<ReturnType<typeof createApp>>;

export async function measurePolled(stage: Stage): Promise<Polled> {
  const { cluster } = stage;
  const [count, pushes] = stage.quick ? [4, 5] : [20, 30];
  await cluster.createNamespace(namespace);
  const objects = await watch(stage, "ConfigMap", namespace);
  const kustomizations = await watch(stage, "Kustomization", namespace);
  const apps: App[] = [];
  for (let i = 0; i < count; i++) apps.push(await createApp(stage, `app-${i}`, objects));
  for (const { name, first } of apps)
    await kustomizations.until(`${name} applied`, (all) => isApplied(all.get(name), first), patienceMs);

  stage.say(`  ${count} pushes that Flux finds at its interval …`);
  // Spread over one interval, so that a few pushes meet all of it.
  const alone = await Promise.all(
    apps.map(async ({ push }, i) => {
      await delay(((i + Math.random()) / count) * intervalMs);
      const { doneAt, changedAt } = await push();
      return changedAt - doneAt;
    }),
  );

  stage.say(`  ${pushes} pushes that Towline reports to Flux …`);
  const program = await compileServer(stage.stateDir);
  const server = await stage.startTowline({ name: namespace, namespace, program, fluxTrigger: true });
  for (const { repository } of apps)
    await repository.client.registerWebhook(repository.remote, { ...server.webhook, events: ["push"] });
  const triggered: Triggered[] = [];
  for (let i = 0; i < pushes; i++) triggered.push(await pushTriggered(apps[i % count]!, server));
  await server.stop();
  for (const { name } of apps) await suspend(cluster, namespace, name);
  return { alone, triggered };
}

/** A repository on Gitea, which Flux fetches and applies. */
async function createApp(stage: Stage, name: string, objects: Seen) {
  const repository = await stage.giteaRepository(`${namespace}-${name}`, manifests(namespace, "0"));
  await createGitRepository(stage.cluster, namespace, name, repository.url);
  await createKustomization(stage.cluster, namespace, name, name);
  let release = 0;
  return {
    name,
    repository,
    first: repository.first,
    async push() {
      const value = String(++release);
      const changes = manifests(namespace, value);
      const { commit, doneAt } = await pushChange(repository.copy, changes, { message: `Release ${value}` });
      const changedAt = await objects.until(value, (all) => haveRelease(all, [name], value), patienceMs);
      return { commit, doneAt, changedAt };
    },
  };
}

const isRequest = ({ msg }: LogLine) => msg === "requested a fetch by Flux";

async function pushTriggered({ name, push }: App, server: Towline): Promise<Triggered> {
  const { doneAt, changedAt } = await push();
  const totalMs = changedAt - doneAt;
  const requested = (await server.lines()).findLast(isRequest);
  if (requested?.["name"] !== name || requested.at < doneAt) return { totalMs };
  const accepted = (await server.lines()).find(
    ({ msg, delivery }) => msg === "push accepted" && delivery === requested["delivery"],
  );
  if (accepted === undefined) throw new Error("The server has requested a fetch without a delivery.");
  const received = receivedAt(accepted);
  const steps = { webhook: received - doneAt, request: requested.at - received, flux: changedAt - requested.at };
  return { totalMs, steps };
}
