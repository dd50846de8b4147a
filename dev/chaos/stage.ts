/** The world of one episode: repositories, replicas, everything between them, and the actions of users. */
import { join } from "node:path";
import { createKubeClient, type KubeClient } from "../../src/kube/client.ts";
import { wrongSkip } from "../../src/skipping/skip-audit.ts";
import type { GiteaLogin } from "../parts/gitea.ts";
import { startTcpProxy, type TcpProxy } from "../parts/tcp-proxy.ts";
import { createWorkCopy } from "../parts/work-copy.ts";
import { createExpectations } from "./expectations.ts";
import type { CommentEvent } from "./forge-proxy.ts";
import { type GitHost, otherBranch, startBareHost, useGiteaHost } from "./git-host.ts";
import type { History, Push, Rest } from "./history.ts";
import { findLeftovers } from "./leftovers.ts";
import { readQueue } from "./queue-state.ts";
import { startJournal, type Journal } from "./journal.ts";
import { type Ledger, startLedger } from "./ledger.ts";
import { writeModelKluctl } from "./model-program.ts";
import { createPeople, type People } from "./people.ts";
import { createPlan, type Plan } from "./projects.ts";
import { createPullRequests, type PullRequests } from "./pull-requests.ts";
import { createEpisodeRedis, type EpisodeRedis } from "./redis.ts";
import { createReplica, leaseMs, type Replica, sweeps, type Version } from "./replica.ts";
import { createRepository, type Repository } from "./repository.ts";
import { waitFor } from "./wait-for.ts";
import { createWebhooks, type Webhooks } from "./webhooks.ts";

export interface StageOptions {
  /** An empty directory; logs and configurations are written to it. */
  readonly dir: string;
  /** Path of a kubeconfig for an API server with the KluctlDeployment CRD. */
  readonly kubeconfig: string;
  readonly namespace: string;
  readonly redisServer: string;
  /** Puts the repositories on this Gitea, which has pull requests; otherwise on a host that has none. */
  readonly gitea?: GiteaLogin | undefined;
  /** Path of the real kluctl, if it replaces the model. */
  readonly kluctl?: string | undefined;
  readonly replicas: number;
  /** The first one is the version that runs at the end; a second one is the version that replicas start with. */
  readonly versions: readonly Version[];
  /** Sweeps every few seconds. Otherwise a lost webhook stays lost, and no fault makes Redis lose data. */
  readonly sweeps: boolean;
  /** Pause between two objects of a deploy. */
  readonly pauseMs: number;
  /** How far each replica's clock is ahead. */
  readonly clocksMs: readonly number[];
}

export interface Stage extends Pick<Webhooks, "deliver" | "deliverPullRequest"> {
  readonly plan: Plan;
  readonly repositories: ReadonlyMap<string, Repository>;
  readonly replicas: readonly Replica[];
  readonly redis: EpisodeRedis;
  /** The proxy between the replicas and the git host. */
  readonly git: TcpProxy;
  readonly gitHost: GitHost;
  readonly pullRequests?: PullRequests | undefined;
  readonly journal: Journal;
  readonly ledger: Ledger;
  readonly people: People;
  /** Replicas that are not started again. */
  readonly buried: Set<Replica>;
  readonly sweeps: boolean;
  /** The real kluctl deploys, which does not report when it writes what. */
  readonly isReal: boolean;
  /** Called for each comment that a replica writes, before and after it is written. */
  onComment(listener: CommentListener): void;
  /** Records how many files and sockets the servers have open before anything happens to them. */
  countDescriptors(): void;
  /** Ends all faults, and waits until the surviving replicas are ready in the version that runs at the end. */
  heal(): Promise<void>;
  history(): History;
  rest(): Promise<Rest>;
  stop(): Promise<void>;
}

export type CommentListener = (event: CommentEvent, by: Replica) => Promise<void>;

const webhookSecret = "a-webhook-secret-of-the-chaos-harness";

export async function startStage(options: StageOptions): Promise<Stage> {
  const { dir, kubeconfig, namespace, redisServer, versions } = options;
  const stops: (() => Promise<void> | void)[] = [];
  const stop = async () => {
    for (const one of stops.splice(0).reverse()) await one();
  };
  try {
    return await build();
  } catch (error) {
    await stop();
    throw error;
  }

  async function build(): Promise<Stage> {
    const client = createKubeClient({ kubeconfig });
    stops.push(() => client.close());
    await client.request({
      method: "POST",
      path: "/api/v1/namespaces",
      body: { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } },
    });
    stops.push(() => removeNamespace(client, namespace));

    const gitHost = options.gitea ? await useGiteaHost(options.gitea, namespace) : await startBareHost(dir);
    const { gitea } = gitHost;
    stops.push(() => gitHost.stop());
    const git = await startTcpProxy({ port: gitHost.port, host: "127.0.0.1" });
    stops.push(() => git.stop());
    const urlOf = (repo: string) => `http://127.0.0.1:${git.port}/${gitHost.prefix}${repo}.git`;

    const plan = createPlan(namespace, urlOf);
    const pushes: Push[] = [];
    const repositories = new Map(
      await Promise.all(
        plan.repositories.map(async (name) => {
          const remote = await gitHost.createRepository(name);
          const copy = await createWorkCopy(join(dir, "work", name), remote);
          const files = plan.files(name);
          const onPush = (push: Push) => void pushes.push(push);
          const repository = await createRepository({ name, url: urlOf(name), copy, files, onPush });
          if (gitea) await repository.propose(otherBranch, new Map(), "head");
          return [name, repository] as const;
        }),
      ),
    );

    const redis = createEpisodeRedis({ program: redisServer, dir, logFile: join(dir, "redis.log") });
    stops.push(() => redis.stop());
    await redis.start();

    const replicas: Replica[] = [];
    const commentListeners: CommentListener[] = [];
    const ledger = await startLedger(kubeconfig, namespace);
    stops.push(() => ledger.stop());
    const journal = await startJournal({
      socket: join(dir, "journal.sock"),
      replicaOf: (address) => replicas.find(({ api }) => api.server === address)?.name ?? address,
      deploymentOf: (discriminator) => discriminator.slice(namespace.length + 1),
      holderOf: ledger.holderOf,
    });
    stops.push(() => journal.stop());
    const kluctl = join(dir, "kluctl");
    await writeModelKluctl(kluctl, { socket: journal.socket, pauseMs: options.pauseMs, real: options.kluctl });
    for (let i = 0; i < options.replicas; i++) {
      const replica: Replica = await createReplica({
        name: `r${i + 1}`,
        dir,
        namespace,
        kubeconfig,
        redisSocket: redis.socket,
        kluctl,
        warm: options.kluctl !== undefined,
        webhookSecret,
        versions,
        version: versions.length - 1,
        sweepMs: options.sweeps ? sweeps.soon : sweeps.never,
        clockMs: options.clocksMs[i] ?? 0,
        gitea,
        async onComment(event) {
          for (const listener of commentListeners) await listener(event, replica);
        },
      });
      replicas.push(replica);
      stops.push(() => replica.stop());
    }
    await Promise.all(replicas.map((replica) => replica.start()));

    const webhooks = createWebhooks({ gitHost, urlOf, secret: webhookSecret });
    const people = createPeople({ client, namespace, ledger });
    const expectations = createExpectations(repositories, urlOf);
    const { treeOf } = expectations;
    const pullRequests =
      gitea && createPullRequests({ gitea, plan, repositories, treeOf, liveObjects: () => ledger.liveObjects() });
    const buried = new Set<Replica>();
    const firstDescriptors = new Map<string, number>();
    let healedAt = Infinity;

    return {
      plan,
      repositories,
      replicas,
      redis,
      git,
      gitHost,
      pullRequests,
      journal,
      ledger,
      people,
      buried,
      stop,
      sweeps: options.sweeps,
      isReal: options.kluctl !== undefined,
      deliver: webhooks.deliver,
      deliverPullRequest: webhooks.deliverPullRequest,
      onComment: (listener) => void commentListeners.push(listener),
      countDescriptors() {
        for (const { name, descriptors } of replicas) firstDescriptors.set(name, descriptors() ?? 0);
      },
      async heal() {
        git.heal();
        await gitHost.lag?.(false);
        await Promise.all(replicas.map((replica) => replica.heal()));
        await redis.start();
        redis.thaw();
        await redis.fill(false);
        await redis.demote(false);
        for (const replica of replicas) replica.kill("SIGCONT");
        for (const repository of repositories.values())
          if (repository.head() === undefined) await repository.restoreBranch();
        // A server that starts sweeps all repositories and would find what was lost.
        if (!options.sweeps && replicas.some((replica) => replica.isAlive() && !buried.has(replica)))
          for (const replica of replicas) if (!replica.isAlive()) buried.add(replica);
        const living = replicas.filter((replica) => !buried.has(replica));
        for (const replica of living) if (replica.version() !== 0) await replica.roll();
        await Promise.all(living.map((replica) => replica.start()));
        await waitFor("the replicas to be ready", async () => {
          // a replica that was told to stop may only just have ended
          await Promise.all(living.map((replica) => replica.start()));
          const ready = await Promise.all(living.map((replica) => replica.isReady().catch(() => false)));
          return ready.every(Boolean);
        });
        // The first push of each repository was made before there were deployments.
        if (!options.sweeps) await webhooks.redeliver(pushes.slice(repositories.size), living);
        healedAt = Date.now();
      },
      history: () => ({
        sweeps: options.sweeps,
        deployments: plan.deployments,
        runs: journal.runs(),
        objects: inOrder(ledger.objects),
        leases: inOrder(ledger.leases),
        statuses: ledger.statuses,
        pushes,
        deliveries: webhooks.deliveries,
        rendered: new Map(
          plan.deployments
            .filter(({ includes, reads }) => includes === undefined || reads !== undefined)
            .map((one) => [one.name, expectations.atPushes(one, pushes)]),
        ),
        wrongSkips: replicas.flatMap((replica) =>
          replica.logs().flatMap((line) => (line.msg === wrongSkip ? [JSON.stringify(line)] : [])),
        ),
      }),
      rest,
    };

    async function rest(): Promise<Rest> {
      const mayLeaveCauses = versions.length > 1 || replicas.some((replica) => replica.wasKilled());
      const { begun, ...queue } = await readQueue(redis, restMs, mayLeaveCauses);
      const since = Date.now() - restMs;
      const runs = journal.runs().filter(({ startedAt }) => startedAt >= since);
      return {
        expected: new Map(plan.deployments.map((one) => [one.name, expectations.atHead(one)])),
        ...queue,
        begun: [
          ...runs.map(({ command, deployment }) => ({ what: `a kluctl ${command}`, subject: deployment })),
          ...begun.map(({ lane, subject }) => ({ what: `a ${lane} job`, subject })),
        ],
        healedAt,
        leftovers: await findLeftovers(replicas, journal),
        pullRequests: (await pullRequests?.facts()) ?? [],
        descriptors: replicas.flatMap(({ name, descriptors }) => {
          const [first, last] = [firstDescriptors.get(name), descriptors()];
          return first === undefined || last === undefined ? [] : [{ replica: name, first, last }];
        }),
      };
    }
  }
}

async function removeNamespace(client: KubeClient, namespace: string): Promise<void> {
  const all = `/apis/gitops.kluctl.io/v1beta1/namespaces/${namespace}/kluctldeployments`;
  const { items } = await client.list(all);
  for (const { metadata } of items as { metadata: { name: string } }[]) {
    const path = `${all}/${metadata.name}`;
    await client.request({ method: "PATCH", path, body: { metadata: { finalizers: null } } }).catch(() => undefined);
    await client.request({ method: "DELETE", path }).catch(() => undefined);
  }
  await client.request({ method: "DELETE", path: `/api/v1/namespaces/${namespace}` }).catch(() => undefined);
}

/** Sorted by revision, because the events of three watches arrive in no common order. */
function inOrder<T extends { readonly version: number }>(writes: readonly T[]): T[] {
  return writes.toSorted((a, b) => a.version - b.version);
}

/** For this long nothing may begin, except for checks by the interval, so that the system counts as at rest. */
const restMs = 8_000;

/** Two sweeps and one Lease. */
export const settleMs = 2 * sweeps.soon + leaseMs;
