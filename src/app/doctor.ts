/** Builds the doctor's checks from the server's own adapters, with a temporary directory. */
import { randomUUID } from "node:crypto";
import { access, constants, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Redis } from "ioredis";
import {
  checkRedis,
  connectProducer,
  createReadiness,
  describeRedisError,
  withinDeadline,
} from "../redis/connection.ts";
import { createRecordings } from "../redis/recorded-deliveries.ts";
import { type Config, knownSecrets } from "../config.ts";
import { examine, type Check } from "../doctor/check.ts";
import { listFluxDeployments } from "../apis/flux/deployments.ts";
import { listFluxSources } from "../apis/flux/sources.ts";
import { createDoctorCluster } from "../doctor/cluster.ts";
import { createCompare } from "../doctor/compare.ts";
import { type ExaminationDeps, examineDeployments } from "../doctor/deployments.ts";
import type { Section } from "../doctor/finding.ts";
import { findProgram } from "../kit/find-program.ts";
import { examineFlux } from "../doctor/flux.ts";
import { examineFluxPreviews } from "../doctor/flux-previews.ts";
import { examineFluxStatuses } from "../doctor/flux-statuses.ts";
import { examineClocks, examineWriteAccess } from "../doctor/forges.ts";
import { examineLegacy, readLegacy } from "../doctor/legacy.ts";
import { examineNamespaces } from "../doctor/namespaces.ts";
import { examinePermissions } from "../doctor/permissions.ts";
import { examinePreviewAccounts } from "../doctor/preview-accounts.ts";
import { examineRepositories } from "../doctor/repositories.ts";
import { examineController } from "../doctor/running-controller.ts";
import { examineServer } from "../doctor/server.ts";
import { examineWebhooks } from "../doctor/webhooks.ts";
import {
  examineDataDir,
  examineForge,
  examineKluctl,
  examineRecording,
  examineRedis,
  type RedisFacts,
} from "../doctor/surroundings.ts";
import { findAccount } from "../forge/account.ts";
import { recordNameOf } from "../kube/sent-notifications.ts";
import { createForge } from "../forge/create-forge.ts";
import { createHostWebhooks } from "../forge/create-host-webhooks.ts";
import { hostsOf } from "../forge/forge-hosts.ts";
import { findWriteAccess } from "../forge/write-access.ts";
import { createKluctl } from "../kluctl/kluctl.ts";
import { createKubeClient } from "../kube/client.ts";
import { toRemoteCluster } from "../kube/remote-cluster.ts";
import { createSecrets } from "../kube/secrets.ts";
import { createServiceAccounts } from "../kube/service-accounts.ts";
import { createLimit } from "../kit/limit.ts";
import { createLogger, type Logger } from "../log.ts";
import { type Deployment, followsGit, isMalformed, type Key, type MalformedDeployment } from "../model.ts";
import { readGitCredentials } from "../access/credentials.ts";
import { createReadIdentity } from "../access/identity.ts";
import { createSources } from "../source/sources.ts";
import { groupsToImpersonate } from "./page-actions.ts";
import { examineIsolation } from "./isolation.ts";
import { askRunner } from "./runner-isolation.ts";
import { loginOf } from "./previews.ts";
import { findRedis } from "./redis.ts";

export interface DoctorOptions {
  readonly config: Config;
  /** Account whose permissions are checked; default: the caller. */
  readonly serviceAccount?: Key | undefined;
  /** Whether to render and compare each deployment, which takes about a second each. */
  readonly compare: boolean;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly onProgress?: ((text: string) => void) | undefined;
  readonly signal: AbortSignal;
}

export async function runDoctor(options: DoctorOptions): Promise<readonly Section[]> {
  const { config, env, signal, onProgress } = options;
  // Failures are reported as findings, so nothing is logged.
  const log = createLogger({ level: "silent", format: "json", secrets: knownSecrets(config) });
  const now = () => Date.now();
  const client = createKubeClient({ ...config.kubernetes, untilAnsweredMs: 5_000 });
  const { namespaces } = config.kubernetes;
  const cluster = createDoctorCluster({ client, namespaces, serviceAccount: options.serviceAccount, now });
  const { defaultServiceAccount } = config;
  const secrets = createSecrets({ client, readAs: config.kubernetes.readSecretsAs, defaultServiceAccount });
  const dir = await mkdtemp(join(tmpdir(), "towline-doctor-"));
  const sources = createSources({
    cacheDir: join(dir, "git"),
    log,
    env,
    limits: { callMs: config.git.timeoutMs },
  });
  const kluctl = createKluctl({
    binary: config.kluctl.path ?? "kluctl",
    cacheDir: config.kluctl.cacheDir ?? (await cacheOf(config.dataDir, dir)),
    unpackedDir: config.kluctl.unpackedDir,
    workDir: join(dir, "kluctl-work"),
    kubeconfigFor: (impersonate) => client.kubeconfig(impersonate),
    env,
    log,
    warm: config.kluctl.warm,
  });
  const readIdentity = createReadIdentity({
    secrets,
    serviceAccounts: createServiceAccounts({ client }),
    toRemoteCluster: (kubeconfig, impersonate) =>
      toRemoteCluster(kubeconfig, { impersonate, allowUnsafe: config.kubernetes.allowUnsafeKubeconfigs }),
    serverSecrets: () => knownSecrets(config),
    defaultServiceAccount,
  });
  const compare = createCompare({
    secrets,
    sources,
    kluctl,
    clusterId: () => client.clusterId(),
    clock: { now },
    newId: randomUUID,
    readIdentity,
    log,
    signal,
  });
  let listed: ReturnType<typeof cluster.deployments> | undefined;
  const found = () => (listed ??= cluster.deployments());
  let listedLegacy: ReturnType<typeof readLegacy> | undefined;
  const legacy = () => (listedLegacy ??= cluster.legacy().then((items = []) => readLegacy({ client, secrets }, items)));
  // If legacy deployments cannot be read, that is one finding, and the other checks continue.
  const all = async () => [...(await found()), ...(await legacy().catch(() => []))];
  const deploymentsDeps: ExaminationDeps = {
    cluster,
    secrets,
    readIdentity,
    compare: options.compare ? compare : undefined,
    limit: createLimit(config.concurrency),
    now,
  };

  const checks: readonly Check[] = [
    { group: "Cluster", subject: "namespaces", run: () => examineNamespaces(cluster, namespaces) },
    {
      group: "kluctl's controller",
      subject: "kluctl's controller",
      run: async () => examineController({ cluster, namespace: config.controllerNamespace, now }, await all()),
    },
    {
      group: "Deployments",
      subject: "deployments",
      progress: "checking deployments",
      run: async (report) => examineDeployments(deploymentsDeps, await found(), report),
    },
    {
      group: "Deployments",
      subject: "flux.kluctl.io",
      run: async () => examineLegacy(deploymentsDeps, await legacy(), await found()),
    },
    {
      group: "Repositories",
      subject: "repositories",
      progress: "checking repositories",
      run: async () =>
        examineRepositories(
          async (deployment) => {
            const credentials = await readGitCredentials(deployment, secrets);
            return sources.heads({ url: deployment.spec.source.url, credentials }, undefined, signal);
          },
          await all(),
        ),
    },
    {
      group: "Rights",
      subject: "rights",
      run: async () =>
        examinePermissions(cluster, {
          ...accountsOf(await all()),
          namespaces,
          resultsNamespace: config.results.namespace,
          leader: config.leaderElection === "off" ? undefined : config.controllerNamespace,
          overrides: config.sourceOverride.bindAddress && config.controllerNamespace,
          notifications: {
            namespace: config.controllerNamespace,
            names: config.notifications.targets.map(({ id }) => recordNameOf(id, namespaces)),
          },
          legacy: await cluster.legacy().then(
            (items) => items !== undefined,
            () => true,
          ),
          triggersFlux: config.flux.trigger,
          reportsFlux: config.flux.statuses,
          previewsFlux: config.flux.previews,
          readsSecrets: config.kubernetes.readSecretsAs === "server",
          operatorGroups: config.page ? groupsToImpersonate(config.page) : [],
          asksWhatPeopleSee: config.page?.actAs === "caller" && Boolean(config.page.proxy ?? config.page.oidc),
        }),
    },
    ...(config.flux.trigger
      ? [
          {
            group: "Repositories",
            subject: "Flux",
            run: () => examineFlux(listFluxSources(client, namespaces), config.forges),
          },
        ]
      : []),
    ...(config.flux.statuses
      ? [
          {
            group: "Repositories",
            subject: "what Flux applies",
            run: () => {
              const reading = Promise.all([
                listFluxSources(client, namespaces),
                listFluxDeployments(client, namespaces),
              ]);
              return examineFluxStatuses(reading, config.forges);
            },
          },
        ]
      : []),
    ...(config.flux.previews
      ? [
          {
            group: "Surroundings",
            subject: "previews of Flux's Kustomizations",
            run: () =>
              examineFluxPreviews({
                previewsEnabled: config.preview.enabled,
                hasRunner: config.preview.runner.address !== undefined,
                hasLogin: config.forges.some(({ token, app }) => (token ?? app) !== undefined),
                program: config.flux.renderer ?? "towline-flux",
                findProgram: (program) => findProgram(program, process.env["PATH"] ?? ""),
              }),
          },
        ]
      : []),
    { group: "Surroundings", subject: "kluctl", run: () => examineKluctl(() => kluctl.version()) },
    {
      group: "Surroundings",
      subject: "isolation of previews",
      run: async () => examineIsolation(config, await askRunner(config)),
    },
    {
      group: "Rights",
      subject: "accounts of previews",
      run: async () => examinePreviewAccounts(cluster, config, soundOf(await all())),
    },
    {
      group: "Surroundings",
      subject: "Redis",
      run: () =>
        examineRedis(
          () => readRedisFacts({ ...config, dataDir: dir }, log),
          config.redis.url === undefined ? "private" : "configured",
        ),
    },
    ...recordingChecks(config, log),
    ...config.forges.flatMap((forge): Check[] => {
      const login = loginOf(forge);
      if (login === undefined) return [];
      const run = async () => {
        const { repoName } = await createForge({ ...forge, login, log });
        const access = (name: string) => findWriteAccess({ ...forge, login, log }, name);
        return examineWriteAccess({ id: forge.id, repoName, access }, await all());
      };
      return [{ group: "Repositories", subject: `forge ${forge.id}`, run }];
    }),
    ...config.forges.flatMap((forge): Check[] => {
      const login = loginOf(forge);
      if (login === undefined || !forge.webhooks) return [];
      const run = async () => {
        const { repoName } = await createForge({ ...forge, login, log });
        const webhooks = createHostWebhooks({ ...forge, login, log });
        return examineWebhooks(
          { id: forge.id, repoName, find: (name) => webhooks.find(name, signal), now },
          await all(),
        );
      };
      return [{ group: "Repositories", subject: `webhooks of ${forge.id}`, run }];
    }),
    {
      group: "Repositories",
      subject: "clocks",
      run: async () => {
        const urls = (await all()).flatMap(({ deployment }) =>
          followsGit(deployment) ? deployment.spec.source.url : [],
        );
        const apis = config.forges.flatMap(({ apiUrl }) => apiUrl ?? []);
        return examineClocks(originsOf([...urls, ...apis]), fetchDate, now);
      },
    },
    ...config.forges.map((forge) => ({
      group: "Surroundings",
      subject: `forge ${forge.id}`,
      run: () => {
        const login = loginOf(forge);
        const isUnbound = config.forges.length > 1 && hostsOf(forge).size === 0;
        return examineForge(forge.id, login && (() => findAccount({ ...forge, login, log })), {
          isUnbound,
          previews: config.preview.enabled,
        });
      },
    })),
    { group: "Surroundings", subject: "data directory", run: () => examineDataDir(config.dataDir) },
  ];

  function accountsOf(all: Awaited<ReturnType<typeof found>>) {
    const sound = soundOf(all);
    // Permissions on another cluster cannot be checked here.
    const here = sound.filter(({ spec }) => spec.kubeConfig === undefined);
    const named = here.map(({ key, spec }) => ({
      namespace: key.namespace,
      name: spec.serviceAccountName ?? defaultServiceAccount,
    }));
    const { enabled, isolation, serviceAccountName } = config.preview;
    const confined = enabled && isolation !== "off" ? named : [];
    const previewing = confined.map(({ namespace, name }) => ({ namespace, name: serviceAccountName ?? name }));
    return {
      accounts: distinct(named),
      previewAccounts: distinct(previewing),
      asServer: named.some(({ name }) => name === undefined),
      decrypts: sound.some(({ spec }) => spec.decryption !== undefined),
    };
  }

  try {
    return await examine({
      first: { group: "Cluster", subject: "API server", run: () => examineServer(cluster) },
      checks,
      onProgress,
    });
  } finally {
    await kluctl.stop();
    client.close();
    await rm(dir, { recursive: true, force: true, maxRetries: 5 });
  }
}

function soundOf(all: readonly { readonly deployment: Deployment | MalformedDeployment }[]): Deployment[] {
  return all.flatMap(({ deployment }) => (isMalformed(deployment) ? [] : [deployment]));
}

/** Removes duplicates and entries without a name, and sorts. */
function distinct(accounts: readonly { namespace: string; name?: string | undefined }[]): Key[] {
  const texts = new Set(
    accounts.flatMap(({ namespace, name }) => (name === undefined ? [] : [`${namespace}/${name}`])),
  );
  return [...texts].sort().map((text) => {
    const [namespace = "", name = ""] = text.split("/");
    return { namespace, name };
  });
}

/** Origins of the HTTP and HTTPS URLs, whose responses have the time. */
function originsOf(urls: readonly string[]): readonly string[] {
  const parsed = urls.map((url) => URL.parse(url)).filter((url) => /^https?:$/.test(url?.protocol ?? ""));
  return [...new Set(parsed.flatMap((url) => url?.origin ?? []))].sort();
}

/** `undefined` if the host cannot be reached, which is another check's finding. */
async function fetchDate(origin: string): Promise<number | undefined> {
  const signal = AbortSignal.timeout(10_000);
  const answer = await fetch(origin, { method: "HEAD", redirect: "manual", signal }).catch(() => undefined);
  return Date.parse(answer?.headers.get("date") ?? "") || undefined;
}

/** Uses the server's cache if it is writable, because unpacking kluctl's Python takes seconds. */
async function cacheOf(dataDir: string, otherwise: string): Promise<string> {
  const cache = join(dataDir, "kluctl-cache");
  const usable = await access(cache, constants.W_OK).then(
    () => true,
    () => false,
  );
  return usable ? cache : join(otherwise, "kluctl-cache");
}

/** Nothing if deliveries are not recorded, and never were with this configuration. */
function recordingChecks(config: Config, log: Logger): readonly Check[] {
  const { recording, redis } = config;
  if (!recording.enabled && recording.keys.length === 0) return [];
  const count = () =>
    withDoctorRedis(config, log, (connection) =>
      createRecordings({ connection, prefix: redis.prefix, recording }).count(),
    );
  const facts = { ...recording, count: redis.url && count };
  return [{ group: "Surroundings", subject: "recorded deliveries", run: () => examineRecording(facts) }];
}

function readRedisFacts(config: Config, log: Logger): Promise<RedisFacts> {
  return withDoctorRedis(config, log, (redis) => checkRedis(redis, config.redis.prefix));
}

async function withDoctorRedis<T>(config: Config, log: Logger, read: (redis: Redis) => Promise<T>): Promise<T> {
  const { address, privateRedis } = await findRedis(config, log);
  const redis = connectProducer(address, log);
  let trouble: string | undefined;
  redis.on("error", (error) => (trouble = describeRedisError(error)));
  try {
    await withinDeadline("take a connection", 5_000, createReadiness(redis));
    return await read(redis);
  } catch (error) {
    throw new Error(trouble === undefined ? (error as Error).message : `cannot reach Redis: ${trouble}`);
  } finally {
    redis.disconnect();
    await privateRedis?.stop();
  }
}
