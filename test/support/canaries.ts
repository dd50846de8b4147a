/**
 * Two hostile branches with all their attempts: one through the code of its templates, one through declarations that
 * kluctl follows. The real kluctl renders them under each setting of `preview.isolation` and `preview.forks`.
 */
import { execFile } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, symlink, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { createConfine } from "../../src/app/confine.ts";
import { examineMachine } from "../../src/app/isolation.ts";
import { startPreviewRunner } from "../../src/app/preview-runner.ts";
import { withRunner } from "../../src/app/runner-kluctl.ts";
import { ownVersion } from "../../src/app/runner-isolation.ts";
import { createLiveConfig } from "../../src/config/live.ts";
import { loadConfig } from "../../src/config.ts";
import type { Confine } from "../../src/kluctl/confine.ts";
import type { JailDemands } from "../../src/kluctl/confinement.ts";
import type { KluctlProcesses } from "../../src/kluctl/kluctl.ts";
import { createKubeClient } from "../../src/kube/client.ts";
import type { CommandResult } from "../../src/model.ts";
import { createDispatch } from "../../src/preview-runner/dispatch.ts";
import {
  attackProgram,
  type AttackPlaces,
  type Attacked,
  attackTemplate,
  codeAims,
  readAttack,
  victims,
} from "./attacks.ts";
import { collectLogs, createProject, findProcesses, newKluctl, newRun, noDiffOptions } from "./fake-kluctl.ts";
import { startVictim } from "./victim.ts";

/** A way to render pull requests. */
export interface Setting {
  /** If false, the kluctl of deploys renders them. */
  readonly confined: boolean;
  /** What to require of the kernel; everything it supports if absent. */
  readonly jail?: Partial<JailDemands>;
  /** Renders from the files alone, as for forks. */
  readonly offline?: boolean;
  /** Renders in a preview runner. */
  readonly runner?: boolean;
}

/** With the names in docs/preview-security.md. */
export const settings = {
  "`off`": { confined: false },
  "`auto` without Landlock": { confined: true, jail: { abi: 0, files: false, network: false } },
  "`auto`, Linux before 6.7": { confined: true, jail: { abi: 3, network: false } },
  "`required`": { confined: true },
  "`forks: isolated`": { confined: true, offline: true },
  "preview runner": { confined: true, runner: true },
} as const satisfies Readonly<Record<string, Setting>>;

export type SettingName = keyof typeof settings;

/** What a branch can attempt through its declarations. */
const declaredAims = [
  "declared files",
  "declared variables",
  "declared hosts",
  "declared programs",
  "declared Secrets",
] as const;

export const aims = [...codeAims, ...declaredAims] as const;
export type Aim = (typeof aims)[number];

export interface Seen {
  /** The result of each attempt by `<aim>: <name>`: `refused`, or what it obtained. */
  readonly found: Readonly<Record<string, string>>;
  /** The environment of a template, and the command line of its Python. */
  readonly environment: Readonly<Record<string, string>>;
  readonly python: string;
  /** What an ordinary branch renders to afterwards. */
  readonly next: string;
}

export interface CanaryDeps {
  /** An empty directory of the test. */
  readonly dir: string;
  readonly binary: string;
  /** Directory of kluctl's unpacked Python. */
  readonly unpackedDir: string;
  /** Path of the server's own kubeconfig. */
  readonly kubeconfig: string;
  /** Contains a Secret `login` whose `vars` are `found: CANARY-secret`; a policy quotes them if it gets the label `quoted`. */
  readonly namespace: string;
}

const signal = new AbortController().signal;
const run = promisify(execFile);
const canary = "CANARY-file";
/** Also in base64, wherever it begins in what was encoded. */
const spellings = "CANARY|Q0FOQVJ|NBTkFSW|DQU5BUl";
const elsewhere = "127.0.0.2";

export async function tryCanaries(setting: Setting, deps: CanaryDeps): Promise<Seen> {
  const closing: (() => unknown)[] = [];
  try {
    const planted = await plant(deps.dir, closing);
    const render = await startRendering(setting, deps, planted, closing);
    const attacked = await tryCode(render, deps, planted);
    const declared = await tryDeclarations(render, deps, planted);
    const next = (await render({ "app/found.yaml": configMap(deps.namespace, "{{ 6 * 7 }}") })).found;
    return { ...attacked, found: { ...attacked.found, ...declared }, next };
  } finally {
    for (const close of closing.toReversed()) await close();
  }
}

interface Planted extends Required<Omit<AttackPlaces, "tells">> {
  /** Number of HTTP requests and other connections. */
  readonly hits: () => number;
  /** Listens on a port of another address, as if it were another machine. Returns the port; `port` 0 takes any. */
  readonly listenElsewhere: (port: number) => Promise<number>;
}

/** Creates what a server has besides the clone, with a canary in each. */
async function plant(dir: string, closing: (() => unknown)[]): Promise<Planted> {
  const server = join(dir, "server");
  const names = {
    "the server's token": "run/secrets/kubernetes.io/serviceaccount/token",
    "a mounted Secret": "run/secrets/webhook/..data/secret",
    "another deployment's checkout": "data/work/other/clone/vars.yaml",
    "a mirror": "data/mirrors/other.git/config",
    "another run's login": "data/kluctl-work/1-other/git-password",
    "declared vars": "vars.yaml",
  };
  const files = Object.fromEntries(Object.entries(names).map(([name, path]) => [name, join(server, path)]));
  for (const path of Object.values(files)) {
    await mkdir(join(path, ".."), { recursive: true });
    await writeFile(path, `found: ${canary}\n`);
  }
  const chart = join(server, "chart");
  await mkdir(join(chart, "templates"), { recursive: true });
  await writeFile(join(chart, "Chart.yaml"), "apiVersion: v2\nname: other\nversion: 1.0.0\n");
  await writeFile(join(chart, "templates/found.yaml"), configMap("default", canary));

  let hits = 0;
  const listen = async (at: string | number, host = "127.0.0.1") => {
    const answer = `found: ${canary}\n`;
    const listener = createServer((socket) => {
      hits++;
      socket.on("error", () => undefined);
      socket.end(`HTTP/1.1 200 OK\r\nContent-Length: ${answer.length}\r\nConnection: close\r\n\r\n${answer}`);
    });
    if (typeof at === "string") listener.listen(at);
    else listener.listen(at, host);
    closing.push(() => listener.close());
    await once(listener, "listening");
    return listener.address();
  };
  const sockets = { Redis: join(server, "redis"), "the starter": join(server, "starter") };
  for (const path of Object.values(sockets)) await listen(path);
  const redis = ((await listen(0)) as AddressInfo).port;

  const { child, pid } = await startVictim();
  closing.push(() => child.kill("SIGKILL"));

  const remote = join(server, "remote.git");
  await run("git", ["init", "--quiet", "--bare", remote]);
  return {
    files,
    sockets,
    ports: { Redis: redis },
    others: {},
    above: server,
    work: join(dir, "work"),
    pid,
    remote,
    lasting: `600.${randomInt(1e9, 1e10)}`,
    hits: () => hits,
    listenElsewhere: async (port) => ((await listen(port, elsewhere)) as AddressInfo).port,
  };
}

interface Files {
  readonly [name: string]: string;
}
interface Rendering {
  (files: Files, links?: Files): Promise<{ found: string; all: string }>;
  /** Ports on loopback that the last run could connect to. */
  readonly ports: () => readonly number[];
}

/** Renders projects, each in a slot of its own. */
async function startRendering(
  setting: Setting,
  deps: CanaryDeps,
  { work }: Planted,
  closing: (() => unknown)[],
): Promise<Rendering> {
  const { dir, unpackedDir, kubeconfig } = deps;
  const { log } = collectLogs();
  // Variables of the server's environment, and settings that only the server may use.
  const env = { PATH: "/usr/bin:/bin", KLUCTL_GIT_PASSWORD: "CANARY-login", AWS_SECRET_ACCESS_KEY: "CANARY-cloud" };
  const own = {
    TOWLINE_KUBERNETES_KUBECONFIG: kubeconfig,
    TOWLINE_GITHUB_WEBHOOK_SECRET: "a-webhook-secret-for-tests",
  };
  const { config } = loadConfig({ env: own, readFile: () => "" });
  const client = createKubeClient({ kubeconfig });
  const proxies = createConfine({ live: createLiveConfig(config), client, allowServerLogin: () => true, env, log });
  closing.push(() => client.close());
  closing.push(() => proxies.stop());
  let ports: readonly number[] = [];
  const confine: Confine = {
    async open(...run) {
      const access = await proxies.open(...run);
      ports = access.ports;
      return access;
    },
  };
  const text = await readFile(kubeconfig, "utf8");
  let kluctl: KluctlProcesses = newKluctl(dir, {
    binary: deps.binary,
    unpackedDir,
    workDir: work,
    env,
    log,
    kubeconfigFor: () => text,
    warm: setting.confined,
    jail: setting.jail,
    ...(setting.confined && { confine }),
  });
  closing.push(() => kluctl.stop());
  if (setting.runner) kluctl = await useRunner(kluctl, confine, deps, closing);

  const render = async (files: Files, links: Files = {}) => {
    const slot = await mkdtemp(join(dir, "slot-"));
    const clone = join(slot, "clone");
    await mkdir(clone);
    for (const [name, target] of Object.entries(links)) {
      await mkdir(join(clone, name, ".."), { recursive: true });
      await symlink(target, join(clone, name));
    }
    const projectDir = await createProject(clone, { "deployment.yaml": "deployments: [{path: app}]", ...files });
    const rendered = newRun({ projectDir, slot, cold: true, timeoutMs: 60_000 });
    const result = setting.offline
      ? await kluctl.render(rendered, { kubernetesVersion: undefined }, signal)
      : await kluctl.diff(rendered, noDiffOptions, signal);
    return {
      found: dataOf(result)["found"] ?? "",
      all: JSON.stringify([result.objects, result.errors, result.warnings]),
    };
  };
  return Object.assign(render, { ports: () => ports });
}

/** The real runner in this process, with an environment without any of the server's variables. */
async function useRunner(
  kluctl: KluctlProcesses,
  confine: Confine,
  { dir, binary, unpackedDir }: CanaryDeps,
  closing: (() => unknown)[],
): Promise<KluctlProcesses> {
  const token = "a-token-of-the-preview-runner-for-tests";
  const path = join(dir, "runner-socket");
  const env = {
    TOWLINE_PREVIEW_RUNNER_TOKEN: token,
    TOWLINE_PREVIEW_RUNNER_BIND_ADDRESS: `unix:${path}`,
    TOWLINE_KLUCTL: binary,
    TOWLINE_KLUCTL_UNPACKED_DIR: unpackedDir,
    TOWLINE_DATA_DIR: join(dir, "runner"),
  };
  const { config } = loadConfig({ env, readFile: () => "" });
  const { log } = collectLogs();
  const runner = await startPreviewRunner(config, log, { PATH: "/usr/bin:/bin" });
  closing.push(() => runner.stop());
  return withRunner({
    kluctl,
    dispatch: createDispatch({ address: { path }, token, version: ownVersion() }),
    isolation: { ...(await examineMachine("required", join(dir, "work"))), runner: path },
    confine,
    workDir: join(dir, "results"),
    observe: { ran: () => undefined },
  });
}

/** The merged `data` of all objects. */
function dataOf({ objects }: CommandResult): Record<string, string> {
  const found = objects.map(({ rendered = "{}" }) => (JSON.parse(rendered) as { data?: object }).data);
  return Object.assign({}, ...found) as Record<string, string>;
}

function configMap(namespace: string, found: string): string {
  return `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: found, namespace: ${namespace}}\ndata:\n  found: >-\n    ${found}\n`;
}

async function tryCode(render: Rendering, { namespace }: CanaryDeps, planted: Planted): Promise<Attacked> {
  const first = Object.values(planted.files)[0] ?? "";
  const { found: printed } = await render(
    {
      "app/found.yaml": configMap(namespace, attackTemplate(attackProgram(planted))),
      ...Object.fromEntries(victims.map((name) => [name, "a victim\n"])),
    },
    { link: first },
  );
  const { found, ...more } = readAttack(printed);
  const left = await findProcesses(`sleep ${planted.lasting}`);
  for (const pid of left) process.kill(pid, "SIGKILL");
  const { stdout: pushed } = await run("git", ["-C", planted.remote, "for-each-ref"]);
  // The effect decides, not the template's own result.
  const came = { "programs: what outlives its run": left.join(), "programs: push": pushed };
  return { ...more, found: { ...found, ...mapValues(came, (what) => (what === "" ? "refused" : `got ${what}`)) } };
}

interface Declaration {
  readonly files: Files;
  readonly links?: Files;
}

async function tryDeclarations(render: Rendering, deps: CanaryDeps, planted: Planted): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  const [proxy = 0] = render.ports();
  const port = await planted.listenElsewhere(proxy);
  for (const [aim, declarations] of Object.entries(declarationsOf(deps, planted, port))) {
    for (const [name, { files, links }] of Object.entries(declarations)) {
      const before = planted.hits();
      const told = await render(files, links).then(
        ({ all }) => all,
        (error: Error) => `${error.message}`,
      );
      const got =
        new RegExp(`.{0,80}(?:${spellings}).{0,40}`, "s").exec(told)?.[0] ??
        (planted.hits() > before ? "a connection" : undefined);
      found[`${aim}: ${name}`] = got === undefined ? "refused" : `got ${got}`;
    }
  }
  return found;
}

function declarationsOf(
  { namespace }: CanaryDeps,
  { above, files, ports }: Planted,
  portElsewhere: number,
): Record<(typeof declaredAims)[number], Record<string, Declaration>> {
  const vars = files["declared vars"] ?? "";
  const withVars = (source: string, found = "{{ found }}"): Declaration => ({
    files: {
      "deployment.yaml": `vars: [{${source}}]\ndeployments: [{path: app}]`,
      "app/found.yaml": configMap(namespace, found),
    },
  });
  const chart = `helmChart: {path: chart, releaseName: x, namespace: ${namespace}, output: chart.yaml}`;
  const helm = { "app/helm-chart.yaml": chart, "app/helm-values.yaml": "{}" };
  const port = ports["Redis"];
  return {
    "declared files": {
      "an absolute path": withVars(`file: ${vars}`),
      "a path above the project": withVars("file: ../../server/vars.yaml"),
      "a link": { ...withVars("file: link.yaml"), links: { "link.yaml": vars } },
      "a chart behind a link": { files: helm, links: { "app/chart": join(above, "chart") } },
      "a file of a chart behind a link": {
        files: {
          ...helm,
          "app/chart/Chart.yaml": "apiVersion: v2\nname: own\nversion: 1.0.0\n",
          "app/chart/templates/found.yaml": configMap(namespace, `{{ .Files.Get "link" | trim | quote }}`),
        },
        links: { "app/chart/link": vars },
      },
    },
    "declared variables": {
      "a password": withVars(`systemEnvVars: {found: "KLUCTL_GIT_0_PASSWORD:none"}`),
      "a cloud's key": withVars(`systemEnvVars: {found: "AWS_SECRET_ACCESS_KEY:none"}`),
    },
    "declared hosts": {
      vars: withVars(`http: {url: "http://127.0.0.1:${port}/vars.yaml"}`),
      "a kustomization": {
        files: { "app/kustomization.yaml": `resources: ["http://127.0.0.1:${port}/found.yaml"]` },
      },
      "another machine, at the port of a proxy": withVars(
        `http: {url: "http://${elsewhere}:${portElsewhere}/vars.yaml"}`,
      ),
    },
    "declared programs": {
      "a kustomization's git": {
        files: {
          // The word appears joined only in the output of a shell that runs this.
          "app/kustomization.yaml": `resources: ["file:///none.git?ref=--upload-pack=echo%20CANA%27%27RY%20%3E%262%3B"]`,
        },
      },
    },
    "declared Secrets": {
      "as vars": withVars(`clusterSecret: {name: login, namespace: ${namespace}, key: vars}`),
      "in a message of the cluster": {
        files: {
          "app/login.yaml": `apiVersion: v1\nkind: Secret\nmetadata: {name: login, namespace: ${namespace}, labels: {quoted: "yes"}}\n`,
        },
      },
    },
  };
}

function mapValues<T, U>(of: Readonly<Record<string, T>>, change: (value: T) => U): Record<string, U> {
  return Object.fromEntries(Object.entries(of).map(([name, value]) => [name, change(value)]));
}
