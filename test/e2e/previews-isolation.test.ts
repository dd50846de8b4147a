/** Branches that try to do more than render, on a server that confines its previews. */
import { randomBytes } from "node:crypto";
import { createServer, type AddressInfo } from "node:net";
import { once } from "node:events";
import { glob, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Redis } from "ioredis";
import { expect, onTestFinished, test } from "vitest";
import { stringify } from "yaml";
import { previewAccount } from "../../dev/parts/preview-account.ts";
import { attackInPlace, attackProgram } from "../support/attacks.ts";
import { pathsBelow, textsBelow } from "../support/files-below.ts";
import { patience } from "../support/patience.ts";
import { findProcessesOf, findRunsOf } from "../support/processes.ts";
import { aProject, aSpec } from "../support/project.ts";
import {
  giteaVariables,
  type OpenPullRequest,
  type PullRequests,
  rendersWhile,
  usePullRequestHost,
  usePullRequests,
} from "../support/pull-requests.ts";
import { useTowlineProcess } from "../support/towline.ts";
import { startVictim } from "../support/victim.ts";
import { type TestWorld, useWorld } from "../support/world.ts";

const canary = `CANARY-${randomBytes(8).toString("hex")}`;

/** One deployment that follows `main` and is already deployed. */
async function useShop(isolation: "required" | "auto" | "off", extra: Record<string, string> = {}) {
  const world = await useWorld();
  const pulls = await usePullRequests(world, { TOWLINE_PREVIEW_ISOLATION: isolation, ...extra });
  const { namespace } = world.cluster;
  await pulls.repo.push(aProject({ namespace }));
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(pulls.repo.url));
  await deployment.settles();
  return { world, pulls, deployment, namespace };
}

/** Everything about a preview that users and other servers can read. */
async function readAround({ redis, cluster, dir }: TestWorld, pulls: PullRequests, pull: OpenPullRequest) {
  const connection = new Redis(redis.url);
  onTestFinished(() => connection.disconnect());
  const keys = await connection.keys(`${redis.prefix}*`);
  const dumps = await Promise.all(keys.map(async (key) => (await connection.dumpBuffer(key))?.toString("latin1")));
  const events = await cluster.core.listNamespacedEvent({ namespace: cluster.namespace });
  return {
    comments: JSON.stringify(await pull.comments()),
    statuses: JSON.stringify(await pulls.statuses(pull.head)),
    log: pulls.towline.lines.map((line) => JSON.stringify(line)).join("\n"),
    redis: dumps.join("\n"),
    events: JSON.stringify(events.items),
    left: (await canariesBelow(dir)).join("\n"),
  };
}

/** Files outside the runs that contain the canary. */
async function canariesBelow(dir: string): Promise<string[]> {
  const texts = [...(await textsBelow(dir))];
  return texts
    .filter(([path, text]) => !path.endsWith("secret-of-the-server") && text.includes(canary))
    .map(([path]) => path);
}

/** A project whose template attempts everything, and names the attempts that succeeded. */
async function useHostile({ cluster, redis, dir }: TestWorld, { towline }: PullRequests, tells: string[] = []) {
  const secret = join(dir, "secret-of-the-server");
  await writeFile(secret, canary);
  const [mirror = "", work = ""] = await Promise.all(
    ["git/mirrors/*/config", "kluctl-work"].map((at) => findOne(dir, at)),
  );
  const { child, pid } = await startVictim();
  onTestFinished(() => void child.kill("SIGKILL"));
  const apiServer = /https?:[^"\s]+/.exec(await readFile(cluster.kubeconfig, "utf8"))?.[0] ?? "";
  const program = attackProgram({
    files: { secret },
    others: { mirror, kubeconfig: cluster.kubeconfig, "the server's environment": `/proc/${process.pid}/environ` },
    ports: portsOf({ Redis: redis.url, server: towline.adminUrl, "API server": apiServer }),
    above: dir,
    work,
    pid,
    tells,
  });
  return aProject({ namespace: cluster.namespace, data: { color: attackInPlace(program) } });
}

async function findOne(dir: string, pattern: string): Promise<string> {
  for await (const path of glob(join(dir, "*", pattern))) return path;
  throw new Error(`nothing is like ${pattern}`);
}

function portsOf(urls: Readonly<Record<string, string>>): Record<string, number> {
  return Object.fromEntries(Object.entries(urls).map(([name, url]) => [name, Number(new URL(url).port)]));
}

/** A project that writes a live Secret's value to unexpected places, and has a hook. */
function stealing(namespace: string) {
  const metadata = (name: string, annotations?: object) => ({ name, namespace, ...(annotations && { annotations }) });
  const files = aProject({
    namespace,
    data: {
      plain: "{{ found }}",
      backwards: "{{ found | reverse }}",
      encoded: "{{ found | b64encode }}",
      apart: "{{ found | list | join(' ') }}",
    },
    objects: {
      "named.yml": { apiVersion: "v1", kind: "ConfigMap", metadata: metadata("{{ found | lower }}") },
      "refused.yml": {
        apiVersion: "v1",
        kind: "Service",
        metadata: metadata("refused"),
        spec: { type: "{{ found }}", ports: [{ port: 80 }] },
      },
      "hook.yml": {
        apiVersion: "v1",
        kind: "ConfigMap",
        metadata: metadata("hook", { "kluctl.io/hook": "pre-deploy" }),
      },
    },
  });
  const vars = [{ clusterSecret: { name: "live", namespace, key: "vars" } }];
  return { ...files, "deployment.yaml": stringify({ vars, deployments: [{ path: "app" }] }) };
}

/** The forms into which a template can transform it. */
function spellings(secret: string): string[] {
  const letters = [...secret];
  const encoded = Buffer.from(secret).toString("base64").slice(0, 20);
  return [secret, secret.toLowerCase(), letters.toReversed().join(""), letters.join(" "), encoded];
}

test("a branch gets nothing through its code, no live Secret and no hook; the next preview works, and readiness shows the isolation", async () => {
  const { world, pulls, namespace } = await useShop("required");
  const { towline } = pulls;
  const body = { metadata: { name: "live" }, stringData: { vars: `found: ${canary}\n` } };
  await world.cluster.core.createNamespacedSecret({ namespace, body });

  const pull = await pulls.open(await useHostile(world, pulls));
  expect(await pull.comment("merging changes")).toContain("got nothing with");
  const thief = await pulls.open(stealing(namespace));
  expect(await thief.comment("backwards")).not.toContain("hook");
  for (const one of [pull, thief]) {
    for (const [place, text] of Object.entries(await readAround(world, pulls, one))) {
      expect([place, spellings(canary).filter((secret) => text.includes(secret))]).toEqual([place, []]);
    }
  }
  expect(await world.cluster.find("v1", "ConfigMap", "hook")).toBeUndefined();

  const next = await pulls.open(aProject({ namespace, data: { color: "blue" } }));
  expect(await next.comment("merging changes")).toContain("blue");
  const ready = (await (await fetch(`${towline.adminUrl}/readyz`)).json()) as { checks: Record<string, unknown> };
  expect(ready.checks["previews"]).toMatchObject({ isolation: { mode: "required", provided: { files: "Landlock" } } });
  expect(await (await fetch(`${towline.adminUrl}/metrics`)).text()).toContain(
    'towline_preview_isolation{property="files"} 1',
  );
  expect(towline.lines.map(({ msg }) => msg)).toContain("previews are confined");
});

test("without isolation the same attempts succeed, which shows that they are real", async () => {
  const { world, pulls, namespace } = await useShop("off");
  const body = { metadata: { name: "live" }, stringData: { vars: `found: ${canary}\n` } };
  await world.cluster.core.createNamespacedSecret({ namespace, body });

  const tells = [
    ...["programs: shell", "connections: TCP to Redis", "connections: TCP to server", "connections: TCP to API server"],
    ...["login: a kubeconfig", "files: read secret", "files: read mirror", "files: read kubeconfig"],
    ...["others: environment", "processes: signal", "writing: into the project"],
  ];
  const pull = await pulls.open(await useHostile(world, pulls, tells));
  const comment = await pull.comment("merging changes");
  for (const told of tells) expect(comment).toContain(told.replace(":", ""));
  const thief = await pulls.open(stealing(namespace));
  const [, , backwards = "", , encoded = ""] = spellings(canary);
  const told = await thief.comment(backwards);
  expect(told).not.toContain(canary); // verbatim values are masked even then
  expect(told).not.toContain(encoded);
});

test("declarations that kluctl itself obeys reach no file or host of the server", async () => {
  const { world, pulls, namespace } = await useShop("auto");
  const secret = join(world.dir, "secret-of-the-server");
  await writeFile(secret, `canary: ${canary}\n`);
  let hits = 0;
  const listener = createServer((socket) => {
    hits++;
    socket.end(`HTTP/1.1 200 OK\r\n\r\ncanary: ${canary}\r\n`);
  }).listen(0, "127.0.0.1");
  onTestFinished(() => void listener.close());
  await once(listener, "listening");
  const { port } = listener.address() as AddressInfo;
  const project = aProject({ namespace, data: { color: "{{ canary }}" } });
  const declared = [
    [`file: ${secret}`, "not found"],
    [`http: {url: "http://127.0.0.1:${port}/"}`, "permission denied"],
  ] as const;

  for (const [vars, words] of declared) {
    const deployment = `vars: [{${vars}}]\ndeployments: [{path: app}]\n`;
    const pull = await pulls.open({ ...project, "deployment.yaml": deployment });
    await pull.comment(words);
    const around = await readAround(world, pulls, pull);
    for (const [place, text] of Object.entries(around)) expect([place, text.includes(canary)]).toEqual([place, false]);
  }
  expect(hits).toBe(0);
});

test("branches that exhaust memory, processes, time or output fail without affecting others, and the server keeps running", async () => {
  const { world, pulls, deployment, namespace } = await useShop("required");
  const os = "lipsum.__globals__.os";
  const greedy = {
    memory: `{{ "x" * 3000000000 }}`,
    forks: `{% for _ in range(1000000) %}{{ ${os}.fork() }}{% endfor %}`,
    loop: `{% for _ in range(10 ** 12) %}{% endfor %}`,
    output: `{% for _ in range(2000) %}{{ "x" * 1000000 }}{% endfor %}`,
  };
  await deployment.patch({ spec: { timeout: "10s" } }); // ends a loop before its CPU time limit does
  await deployment.settles();
  const opened = [];
  for (const color of Object.values(greedy)) opened.push(await pulls.open(aProject({ namespace, data: { color } })));
  for (const pull of opened) await pull.comment("❌");
  // Otherwise the next deploy from their base branch would compare them again.
  for (const pull of opened) await pull.edit({ state: "closed" });

  await deployment.patch({ spec: { timeout: "2m" } });
  await deployment.settles();
  const next = await pulls.open(aProject({ namespace, data: { color: "blue" } }));
  expect(await next.comment("merging changes")).toContain("blue");
  const ready = await fetch(`${pulls.towline.adminUrl}/readyz`);
  expect(ready.status).toBe(200);
  await expect.poll(() => pulls.statuses(next.head), patience).toMatchObject({ towline: /success/ });
  await expect.poll(() => findRunsOf(world.dir, process.pid), patience).toEqual([]);
});

test("a deployment without an account is not compared, the comment says what to do, and naming an account is enough", async () => {
  const { pulls, deployment, namespace } = await useShop("required", { TOWLINE_PREVIEW_SERVICE_ACCOUNT_NAME: "" });

  const pull = await pulls.open(aProject({ namespace, data: { color: "blue" } }));
  const body = await pull.comment("a preview needs a service account");
  expect(body).toContain("could not be compared");
  expect(body).toContain("preview.serviceAccountName");

  await deployment.patch({ spec: { serviceAccountName: previewAccount } });
  await deployment.settles();
  await pull.push(aProject({ namespace, data: { color: "green" } }));
  expect(await pull.comment("merging changes")).toContain("green");
});

test("a branch that fills its share of the disk fails without affecting others, and the space is freed", async () => {
  const { world, pulls, namespace } = await useShop("required");
  const gate = join(world.dir, "gate");
  await writeFile(gate, "");
  // Files that are not rendered are copied each time their directory is listed.
  const pull = await pulls.open({
    ".templateignore": "ballast\n",
    "many/ballast": "\n".repeat(16 * 1024 ** 2),
    "deployment.yaml": stringify({ deployments: Array.from({ length: 70 }, () => ({ path: "many" })) }),
    "many/slow.yml": rendersWhile(gate, { namespace }),
  });

  expect(await pull.comment("❌")).toContain("wrote more than 1024 MiB");

  await rm(gate);
  await expect.poll(() => findRunsOf(world.dir, process.pid), patience).toEqual([]);
  const next = await pulls.open(aProject({ namespace, data: { color: "blue" } }));
  expect(await next.comment("merging changes")).toContain("blue");
  expect((await fetch(`${pulls.towline.adminUrl}/readyz`)).status).toBe(200);
});

test("a server that is killed while it renders a branch leaves nothing behind, and the next one previews the branch", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const host = await usePullRequestHost();
  const dataDir = join(world.dir, "data");
  const variables = { ...giteaVariables(host.gitea), TOWLINE_DATA_DIR: dataDir };
  const first = await useTowlineProcess(world, variables);
  const stopTelling = await host.tell(first);
  await host.repo.push(aProject({ namespace }));
  await world.cluster.deployment("shop").create(aSpec(host.repo.url, { suspend: true }));
  const gate = join(world.dir, "gate");
  await writeFile(gate, "");
  const pull = await host.open({ "app/slow.yml": rendersWhile(gate, { namespace }) });
  const rendering = () => findRunsOf(dataDir, first.child.pid ?? 0).map(({ command }) => command.split(" ")[0]);
  await expect.poll(rendering, patience).toContain(world.kluctl);
  const own = async () => {
    const paths = await pathsBelow(dataDir);
    return paths.filter((path) => path.split("/").at(-1)?.startsWith(`${first.child.pid}-`));
  };
  // A checkout and kluctl's work directory, as opposed to those of the run that prepares the jail.
  await expect.poll(async () => (await own()).length, patience).toBeGreaterThan(1);

  first.child.kill("SIGKILL");
  await first.ended;
  await expect.poll(() => findProcessesOf(dataDir), patience).toEqual([]);

  await stopTelling();
  await rm(gate);
  await host.tell(await useTowlineProcess(world, variables));
  await pull.push({ README: "again\n" });
  await pull.comment("slow");
  await expect.poll(own, patience).toEqual([]);
});
