/**
 * The chart in running pods: it is installed, used, upgraded, killed and removed. The tests build on each other, in
 * this order.
 */
import { randomBytes } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { V1Lease, V1Pod, V1PodList, V1Secret, V1Service } from "@kubernetes/client-node";
import { beforeAll, expect, test } from "vitest";
import { parse } from "yaml";
import { nodeAddress } from "../../dev/cluster/node.ts";
import { withoutDigest } from "../../dev/image/pins.ts";
import { gitops } from "../support/gitops-client.ts";
import { patience } from "../support/patience.ts";
import { aProject, aSpec } from "../support/project.ts";
import {
  chart,
  type GitHost,
  type HostedRepository,
  openCluster,
  openGitHost,
  type RealCluster,
} from "../support/real-cluster.ts";
import { type TestCluster, useNamespace } from "../support/world-cluster.ts";
import { uniqueName } from "../support/world.ts";

const namespace = "kluctl-system";
const inNamespace = ["--namespace", namespace];
const inMonitoring = { namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "monitoring" } } };
const secret = randomBytes(24).toString("hex");
const image = "towline/towline:0.1.0";

let real: RealCluster;
let host: GitHost;
let install: (...args: readonly string[]) => Promise<string>;
let webhooks: string;
let apiServer: URL;

/** Valkey's tag in the chart, without its digest. */
async function valkeyTag(): Promise<string> {
  const { redis } = parse(await readFile(join(chart, "values.yaml"), "utf8")) as { redis: { image: { tag: string } } };
  return withoutDigest(redis.image.tag);
}

beforeAll(async () => {
  [real, host] = await Promise.all([openCluster(), openGitHost()]);
  apiServer = new URL(
    await real.kubectl("config", "view", "--minify", "--output=jsonpath={.clusters[0].cluster.server}"),
  );
  await real.kubectl("create", "namespace", namespace);
  const logins = [`--from-literal=webhook-secret=${secret}`, `--from-literal=token=${host.token}`];
  await real.kubectl("create", "secret", "generic", "gitea", ...inNamespace, ...logins);
  await real.kubectl("create", "secret", "generic", "page", ...inNamespace, `--from-literal=token=${secret}`);
  const values = await real.values({
    forges: [
      {
        id: "gitea",
        kind: "gitea",
        apiUrl: `${host.url}/api/v1`,
        existingSecret: "gitea",
        keys: { webhookSecrets: "webhook-secret", token: "token" },
      },
    ],
    config: {
      sourceOverride: { bindAddress: ":8082" },
      preview: { enabled: true, isolation: "required" },
    },
    preview: { runner: { enabled: true } },
    page: { existingSecret: "page" },
    // The server's image stands in for that of Valkey, and has a different digest.
    redis: { image: { tag: await valkeyTag() } },
    // As restrictive as possible: everything that is tested here has to work within these policies.
    networkPolicy: {
      adminFrom: [inMonitoring],
      pageFrom: [inMonitoring],
      egress: { enabled: true, ports: [apiServer.port, new URL(host.url).port].map(Number) },
    },
  });
  const options = [...inNamespace, "--values", values, "--wait", "--timeout", "3m"];
  install = (command = "", ...more) => real.helm(command, "towline", chart, ...options, ...more);
});

const servers = async () =>
  (await real.read<V1PodList>("get", "pods", ...inNamespace, "--selector", "control-plane=kluctl-controller")).items;

/** A namespace with an account that deploys to it, and a repository with a webhook to the server. */
async function useProject(): Promise<{
  cluster: TestCluster;
  repo: HostedRepository;
  world: Parameters<typeof gitops>[0];
}> {
  const cluster = await useNamespace(real.kubeconfig, uniqueName("apps"));
  const { namespace: name } = cluster;
  const account = `${name}:towline-deployer`;
  await real.kubectl("create", "serviceaccount", "towline-deployer", "--namespace", name);
  const binding = ["towline-deployer", "--namespace", name, "--clusterrole=admin", `--serviceaccount=${account}`];
  await real.kubectl("create", "rolebinding", ...binding);
  await real.kubectl("create", "clusterrolebinding", name, "--clusterrole=view", `--serviceaccount=${account}`);
  const repo = await host.repo(name, { url: `${webhooks}/webhooks/gitea`, secret });
  return { cluster, repo, world: { ...real, cluster } };
}

/** Its deploy takes as long as the Job, which comes after everything else. */
function aSlowProject(name: string, color: string, seconds: number) {
  const job = {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: {
      name: "slow",
      namespace: name,
      annotations: { "kluctl.io/hook": "post-deploy", "kluctl.io/hook-delete-policy": "before-hook-creation" },
    },
    spec: {
      template: {
        spec: {
          restartPolicy: "Never",
          terminationGracePeriodSeconds: 0,
          containers: [{ name: "slow", image, imagePullPolicy: "IfNotPresent", command: ["sleep", String(seconds)] }],
        },
      },
    },
  };
  return aProject({ namespace: name, data: { color }, objects: { "job.yml": job } });
}

/** Returns the pod that holds the Lease of a deployment. */
async function workerOf(cluster: TestCluster): Promise<V1Pod> {
  const { items } = await real.read<{ items: V1Lease[] }>("get", "leases", "--namespace", cluster.namespace);
  const holders = items.map(({ spec }) => spec?.holderIdentity ?? "");
  const worker = (await servers()).find(({ metadata }) => holders.some((holder) => holder.includes(metadata!.name!)));
  if (worker === undefined) throw new Error(`Nobody works: ${holders.join()}`);
  return worker;
}

/** Commands for which results of a commit are stored. */
async function commandsFor({ namespace: name }: TestCluster, commit: string): Promise<string[]> {
  interface Summary {
    readonly gitInfo?: { readonly commit?: string };
    readonly commandInfo?: { readonly command?: string };
    readonly kluctlDeployment?: { readonly namespace?: string };
  }
  const { items } = await real.read<{ items: V1Secret[] }>("get", "secrets", "--namespace", "kluctl-results");
  return items
    .map(({ metadata }) => JSON.parse(metadata?.annotations?.["kluctl.io/command-result-summary"] ?? "{}") as Summary)
    .filter(({ gitInfo, kluctlDeployment }) => gitInfo?.commit === commit && kluctlDeployment?.namespace === name)
    .map(({ commandInfo }) => commandInfo?.command ?? "");
}

test("helm install returns when the servers and Valkey pass their readiness probes, and helm test succeeds", async () => {
  const from = performance.now();
  const notes = await install("install");
  const seconds = (performance.now() - from) / 1_000;
  const service = await real.read<V1Service>("get", "service", "towline-webhooks", ...inNamespace);
  webhooks = `http://${service.spec?.clusterIP}`;
  const pods = await servers();
  const starts = pods.map(({ status }) => {
    const started = status?.containerStatuses?.[0]?.state?.running?.startedAt;
    const ready = status?.conditions?.find(({ type }) => type === "Ready")?.lastTransitionTime;
    return (new Date(ready ?? 0).getTime() - new Date(started ?? 0).getTime()) / 1_000;
  });
  process.stderr.write(`helm install: ${seconds.toFixed(1)} s; servers from start to ready: ${starts.join(", ")} s\n`);
  expect(notes).toMatch(/\n {2}<address>\/webhooks\/gitea\n/);
  expect(pods).toHaveLength(2);
  for (const { status } of pods) expect(status?.containerStatuses).toMatchObject([{ ready: true, restartCount: 0 }]);

  const tested = await real.helm("test", "towline", ...inNamespace);
  expect(tested).toMatch(/Phase: +Succeeded/);
  expect(tested).toMatch(/200 \{/); // the server's answer
});

test("a server can write only to its volumes, and has no privileges on its node", async () => {
  const look = `id -u; touch /app/x /usr/x /etc/x; touch /tmp/x /var/lib/towline/x && grep -E "^(CapEff|NoNewPrivs|Seccomp):" /proc/self/status`;
  const exec = ["exec", ...inNamespace, "deployment/towline", "--", "sh", "-c", `{ ${look}; } 2>&1`];
  expect((await real.kubectl(...exec)).trim().split("\n")).toEqual([
    "65532",
    ...["/app/x", "/usr/x", "/etc/x"].map((path) => expect.stringMatching(`${path}.*Read-only file system`) as string),
    expect.stringMatching(/^CapEff:\t0+$/),
    "NoNewPrivs:\t1",
    "Seccomp:\t2",
  ]);
});

test("network policies allow a server the connections they name and no others", async () => {
  const address = async (name: string) =>
    (await real.read<V1Service>("get", "service", name, ...inNamespace)).spec!.clusterIP!;
  const targets = {
    webhooks: `${await address("towline-webhooks")}:80`,
    admin: `${await address("towline-admin")}:9090`,
    page: `${await address("towline-page")}:80`,
    redis: `${await address("towline-redis")}:6379`,
    previews: `${await address("towline-previews")}:8092`,
    apiServer: `${nodeAddress}:${apiServer.port}`,
    gitHost: new URL(host.url).host,
    kubelet: `${nodeAddress}:10250`, // an address that no policy allows
  };
  await real.kubectl("create", "namespace", "monitoring");
  for (const where of ["default", "monitoring", namespace]) await startPod(where, "asking");
  const ask = async (where: string, pod: string) => {
    const command = ["--", "node", "-e", knock, JSON.stringify(targets)];
    return JSON.parse(await real.kubectl("exec", "--namespace", where, pod, ...command)) as unknown;
  };
  const outside = { apiServer: "open", gitHost: "open", kubelet: "open" };
  const inside = { admin: "closed", page: "closed", redis: "closed", previews: "closed" };
  const stranger = { webhooks: "open", ...inside, ...outside };
  expect(await ask("default", "asking")).toEqual(stranger);
  expect(await ask(namespace, "asking")).toEqual(stranger);
  expect(await ask("monitoring", "asking")).toEqual({ ...stranger, admin: "open", page: "open" });
  const server = await ask(namespace, "deployment/towline");
  expect(server).toMatchObject({
    redis: "open",
    previews: "open",
    apiServer: "open",
    gitHost: "open",
    kubelet: "closed",
  });
  // It reaches not even the server that it works for; only its own Service, which leads back to itself.
  const everything = Object.fromEntries(Object.keys(targets).map((name) => [name, "closed"]));
  expect(await ask(namespace, "deployment/towline-previews")).toEqual({ ...everything, previews: "open" });
});

/** Whether a connection succeeds within a time limit. */
const knock = `
const { connect } = require("node:net");
const knock = ([name, address]) => new Promise((resolve) => {
  const [host, port] = address.split(":");
  const socket = connect({ host, port: Number(port) });
  const end = (how) => { socket.destroy(); resolve([name, how]); };
  socket.setTimeout(3_000, () => end("closed")).on("connect", () => end("open")).on("error", (error) => end(error.code));
});
Promise.all(Object.entries(JSON.parse(process.argv[1])).map(knock)).then((all) =>
  console.log(JSON.stringify(Object.fromEntries(all))));
`;

async function startPod(where: string, name: string): Promise<void> {
  const command = ["--command", "--", "sleep", "infinity"];
  const how = ["--namespace", where, `--image=${image}`, "--image-pull-policy=IfNotPresent"];
  await real.kubectl("run", name, ...how, ...command);
  await real.kubectl("wait", "--namespace", where, "--for=condition=Ready", "--timeout=120s", `pod/${name}`);
}

test("a push arrives through the Service and is deployed as the service account of its namespace", async () => {
  const { cluster, repo } = await useProject();
  await repo.push(aProject({ namespace: cluster.namespace }));
  const deployment = cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));
  await deployment.reaches("Ready");
  const commit = await repo.push(aProject({ namespace: cluster.namespace, data: { color: "blue" } }));
  await deployment.until("the pushed commit", ({ status }) => status?.["observedCommit"] === commit);
  await deployment.settles(commit);
  expect(await cluster.data("settings")).toEqual({ color: "blue" });
});

test("a pull request is rendered in a pod without credentials, network access or any Secret except its token", async () => {
  const { cluster, repo } = await useProject();
  await repo.push(aProject({ namespace: cluster.namespace }));
  const deployment = cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));
  await deployment.settles();
  await repo.push(aProject({ namespace: cluster.namespace, data: { color: "blue" } }), { branch: "feature" });
  const proposal = { title: "Change", head: "feature", base: "main" };
  const { number } = await host.call<{ number: number }>("POST", `${repo.path}/pulls`, proposal);
  const comments = async () =>
    (await host.call<{ body: string }[]>("GET", `${repo.path}/issues/${number}/comments`)).map(({ body }) => body);
  await expect.poll(async () => (await comments()).join("\n"), patience).toContain("merging changes");
  expect((await comments()).join("\n")).toContain("blue");

  const runner = "deployment/towline-previews";
  const rendered = `"namespace":"${cluster.namespace}","name":"shop"`;
  expect(await real.kubectl("logs", ...inNamespace, runner)).toContain(rendered); // this runner rendered it
  const look = `ls /var/run/secrets/kubernetes.io 2>&1; ls /etc/towline; touch /app/x 2>&1; env | grep -c -i -e redis= -e gitea; grep -E "^(CapEff|NoNewPrivs|Seccomp):" /proc/1/status`;
  const shown = await real.kubectl("exec", ...inNamespace, runner, "--", "sh", "-c", look);
  expect(shown.trim().split("\n")).toEqual([
    expect.stringContaining("No such file or directory"),
    "preview-runner",
    expect.stringContaining("Read-only file system"),
    "0",
    expect.stringMatching(/^CapEff:\t0+$/),
    "NoNewPrivs:\t1",
    "Seccomp:\t2",
  ]);
  const ready = await real.kubectl("logs", ...inNamespace, "deployment/towline");
  expect(ready).toMatch(/"network":"[^"]*that reaches nothing else"/);
});

test("kluctl gitops finds the pods: it offers working copies through a port-forward, and follows logs", async () => {
  const { cluster, repo, world } = await useProject();
  const part = await host.repo(uniqueName("part"));
  const partOf = (color: string) => {
    const map = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "part", namespace: cluster.namespace } };
    return {
      "deployment.yaml": JSON.stringify({ deployments: [{ path: "part" }] }),
      "part/map.yml": JSON.stringify({ ...map, data: { color } }),
    };
  };
  await part.push(partOf("red"));
  const deployments = JSON.stringify({ deployments: [{ path: "app" }, { git: { url: part.url } }] });
  await repo.push({ ...aProject({ namespace: cluster.namespace }), "deployment.yaml": deployments });
  const deployment = cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));
  await deployment.reaches("Ready");
  const colors = async () => [(await cluster.data("settings"))?.["color"], (await cluster.data("part"))?.["color"]];

  const settings = join(repo.dir, "app/settings.yml");
  await writeFile(settings, (await readFile(settings, "utf8")).replace("red", "blue"));
  await writeFile(join(part.dir, "part/map.yml"), partOf("green")["part/map.yml"]);

  // Overrides the repository of the current directory without any option.
  const diff = await gitops(world, ["diff", "--name", "shop"], { cwd: repo.dir });
  expect(diff, diff.stderr).toMatchObject({ code: 0 });
  expect(diff.stdout).toMatch(/\| -red +\|\n.*\| \+blue +\|/);
  expect(await colors()).toEqual(["red", "red"]);

  // Overrides one repository by name.
  const { host: gitHost, pathname } = new URL(part.url);
  const named = `--local-git-override=${gitHost}${pathname.replace(/\.git$/, "")}=${part.dir}`;
  const deployed = await gitops(world, ["deploy", "--name", "shop", named], { cwd: repo.dir });
  expect(deployed, deployed.stderr).toMatchObject({ code: 0 });
  expect(await colors()).toEqual(["blue", "green"]);

  // Overrides a whole group of repositories, from a directory outside of any.
  await writeFile(join(part.dir, "part/map.yml"), partOf("yellow")["part/map.yml"]);
  const group = `--local-git-group-override=${gitHost}/${pathname.split("/")[1]}=${join(part.dir, "..")}`;
  const grouped = await gitops(world, ["deploy", "--name", "shop", group]);
  expect(grouped, grouped.stderr).toMatchObject({ code: 0 });
  expect(await colors()).toEqual(["blue", "yellow"]);

  const logs = await gitops(world, ["logs", "--name", "shop", "--follow=false", "--log-since=10m"]);
  expect(logs, logs.stderr).toMatchObject({ code: 0 });
  expect(logs.stdout + logs.stderr).toMatch(/deploy/);
});

test("an upgrade loses no delivery and no deployment: the old server finishes the deploys it has begun", async () => {
  const { cluster, repo } = await useProject();
  await repo.push(aSlowProject(cluster.namespace, "red", 1));
  const deployment = cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));
  await deployment.reaches("Ready");
  const commit = await repo.push(aSlowProject(cluster.namespace, "blue", 25));
  await expect.poll(() => cluster.data("settings"), patience).toEqual({ color: "blue" }); // while the Job goes on

  const ended = new AbortController();
  const answers = askAgainAndAgain(ended.signal);
  const before = (await servers()).map(({ metadata }) => metadata!.uid);
  await install("upgrade", "--set", "config.log.level=debug");
  const after = await servers();
  await delay(500);
  ended.abort();
  expect(new Set(await answers)).toEqual(new Set([401]));
  expect(after.filter(({ metadata }) => !metadata!.deletionTimestamp && before.includes(metadata!.uid))).toEqual([]);

  await deployment.settles(commit);
  await deployment.reaches("Ready");
  expect(await commandsFor(cluster, commit)).toEqual(["deploy"]);
});

/** Sends webhooks with invalid signatures to the Service until aborted, and returns the answers. */
async function askAgainAndAgain(signal: AbortSignal): Promise<(number | string)[]> {
  const answers: (number | string)[] = [];
  while (!signal.aborted) {
    const headers = { "content-type": "application/json", "x-gitea-event": "push", connection: "close" };
    const asked = fetch(`${webhooks}/webhooks/gitea`, { method: "POST", headers, body: "{}" });
    answers.push(await asked.then(({ status }) => status).catch((error: Error) => String(error.cause ?? error)));
    await delay(20);
  }
  return answers;
}

test("when a server is killed, another one finishes its work", async () => {
  const { cluster, repo } = await useProject();
  await repo.push(aSlowProject(cluster.namespace, "red", 1));
  const deployment = cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));
  await deployment.reaches("Ready");
  const commit = await repo.push(aSlowProject(cluster.namespace, "blue", 10));
  await expect.poll(() => cluster.data("settings"), patience).toEqual({ color: "blue" });
  const { metadata } = await workerOf(cluster);
  await real.kubectl("delete", "pod", ...inNamespace, metadata!.name!, "--force", "--grace-period=0");
  await deployment.settles(commit);
  await deployment.reaches("Ready");
});

test("deleting a namespace deletes its deployments", async () => {
  const { cluster, repo } = await useProject();
  await repo.push(aProject({ namespace: cluster.namespace }));
  const deployment = cluster.deployment("shop");
  await deployment.create(aSpec(repo.url, { delete: true, prune: true }));
  await deployment.reaches("Ready");
  await real.kubectl("delete", "namespace", cluster.namespace, "--timeout=200s");
});

test("of two servers, only one at a time can be evicted", async () => {
  await real.kubectl("rollout", "status", ...inNamespace, "deployment/towline");
  const evict = async ({ metadata }: V1Pod) => {
    const { name } = metadata!;
    const file = join(real.dir, `evict-${name}.json`);
    const eviction = { apiVersion: "policy/v1", kind: "Eviction", metadata: { name, namespace } };
    await writeFile(file, JSON.stringify(eviction));
    return real.kubectl("create", "--raw", `/api/v1/namespaces/${namespace}/pods/${name}/eviction`, "--filename", file);
  };
  const [one, other] = (await servers()).filter(({ metadata }) => !metadata!.deletionTimestamp);
  await evict(one!);
  await expect(evict(other!)).rejects.toThrow(/disruption budget/);
  await real.kubectl("rollout", "status", ...inNamespace, "deployment/towline");
});

test("helm uninstall removes everything of the release, but keeps what was deployed", async () => {
  const { cluster, repo } = await useProject();
  await repo.push(aProject({ namespace: cluster.namespace }));
  const deployment = cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));
  await deployment.reaches("Ready");
  await real.helm("uninstall", "towline", ...inNamespace, "--wait", "--timeout", "3m");
  const ours = ["--selector", "app.kubernetes.io/instance=towline"];
  const kinds = "all,configmaps,secrets,persistentvolumeclaims,serviceaccounts,roles,rolebindings,networkpolicies,pdb";
  const left = () => real.kubectl("get", kinds, ...inNamespace, ...ours, "--output", "name");
  await expect.poll(left, patience).toBe("");
  expect(await real.kubectl("get", "clusterroles,clusterrolebindings", ...ours, "--output", "name")).toBe("");
  expect(await deployment.get()).toBeDefined();
  expect(await cluster.data("settings")).toEqual({ color: "red" });
});

test("Helm 4 installs the chart as well", async () => {
  const options = [...inNamespace, "--set", `redis.image.tag=${await valkeyTag()}`, "--wait", "--timeout", "3m"];
  const from = performance.now();
  await real.helm4("install", "towline", chart, ...options);
  process.stderr.write(`helm 4 install: ${((performance.now() - from) / 1_000).toFixed(1)} s\n`);
  expect(await real.helm4("test", "towline", ...inNamespace)).toMatch(/Succeeded/);
  await real.helm4("uninstall", "towline", ...inNamespace);
});
