import { execFile } from "node:child_process";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { glob, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { parse } from "yaml";
import { kluctlFilter } from "../../../src/jail/filter.ts";
import { inJail, type Jail } from "../../../src/jail/jail.ts";
import { startWatched } from "../../../src/kluctl/watched.ts";
import type { KluctlDeps } from "../../../src/kluctl/kluctl.ts";
import type { CommandResult } from "../../../src/model.ts";
import {
  collectLogs,
  createExample,
  createProject,
  newKluctl,
  newRun,
  noDiffOptions,
} from "../../support/fake-kluctl.ts";
import { attackProgram, attackTemplate, gotBy, readAttack } from "../../support/attacks.ts";
import { patience } from "../../support/patience.ts";
import { uniqueName, useCluster, useKluctl, useTempDir } from "../../support/world.ts";

const signal = new AbortController().signal;

/** Unpacking Python takes seconds, so it is done once for all tests of this file. */
let cacheDir: string;
beforeAll(async () => {
  cacheDir = await mkdtemp(join(tmpdir(), "towline-test-"));
  return () => rm(cacheDir, { recursive: true, force: true });
});

/**
 * The same kluctl twice: `open` as for deploys, and `jailed` as for previews, which here access the cluster directly,
 * without a proxy. With `warm`, renderers are forked from a fork server, otherwise each starts cold.
 */
async function useJail({
  ports = [],
  ...options
}: Partial<Pick<KluctlDeps, "cacheDir" | "starter" | "systemPython" | "warm" | "jail" | "limits" | "memory">> & {
  ports?: readonly number[];
} = {}) {
  const [cluster, binary, dir] = await Promise.all([useCluster(), useKluctl(), useTempDir()]);
  const kubeconfig = await readFile(cluster.kubeconfig, "utf8");
  const port = Number(new URL(/https?:[^"\s]+/.exec(kubeconfig)?.[0] ?? "").port);
  const { log, lines } = collectLogs();
  const env = { PATH: "/usr/bin:/bin", KLUCTL_GIT_PASSWORD: "CANARY-login", AWS_SECRET_ACCESS_KEY: "CANARY-cloud" };
  const confine = {
    open: () => Promise.resolve({ kubeconfig, env: {}, ports: [port, ...ports], close: () => Promise.resolve() }),
  };
  const shared = { binary, log, kubeconfigFor: () => kubeconfig, cacheDir, env };
  const open = newKluctl(dir, shared);
  const jailed = newKluctl(dir, { ...shared, ...options, confine });
  onTestFinished(async () => void (await Promise.all([open.stop(), jailed.stop()])));
  const slot = join(dir, "slot");
  await mkdir(slot);
  return {
    cluster,
    dir,
    lines,
    slot,
    /** A run of the project in the slot. */
    run: (more: Parameters<typeof newRun>[0]) => newRun({ cold: true, slot, ...more }),
    open,
    jailed,
  };
}

interface ExampleProject {
  readonly name: string;
  readonly targets: readonly string[];
  create(dir: string): Promise<string>;
}

/** The projects in examples/ and those that blocks of the documentation create. */
async function findProjects(): Promise<ExampleProject[]> {
  const root = join(import.meta.dirname, "../../..");
  const targetsIn = (text: string) =>
    (parse(text) as { targets: { name: string }[] }).targets.map((target) => target.name);
  const projects: ExampleProject[] = [];
  for await (const path of glob("*/.kluctl.yaml", { cwd: join(root, "examples") })) {
    const name = dirname(path);
    const targets = targetsIn(await readFile(join(root, "examples", path), "utf8"));
    projects.push({ name, targets, create: (dir) => createExample(name, dir) });
  }
  for await (const page of glob("*.md", { cwd: join(root, "docs") })) {
    const text = await readFile(join(root, "docs", page), "utf8");
    const block = (file: string) => new RegExp(`^# ${file}\\n((?:(?!\`\`\`).*\\n)*)`, "m").exec(text)?.[1];
    const [config, deployment] = [block("\\.kluctl\\.yaml"), block("deployment\\.yaml")];
    if (config === undefined || deployment === undefined) continue;
    const { deployments } = parse(deployment) as { deployments: { path: string }[] };
    const objects = deployments.map(({ path }) => [`${path}/found.yaml`, configMap("default", "{{ target.name }}")]);
    const files = { ".kluctl.yaml": config, "deployment.yaml": deployment, ...Object.fromEntries(objects) };
    projects.push({ name: page, targets: targetsIn(config), create: (dir) => createProject(dir, files) });
  }
  expect(projects.map(({ name }) => name)).toEqual(expect.arrayContaining(["shop", "migrate-from-flux.md"]));
  return projects;
}

const warm = { warm: true };
const again = "preview renderers must be restarted";

/** The merged `data` of all rendered objects. */
function data(result: CommandResult): Record<string, string> {
  const found = result.objects.map(({ rendered = "{}" }) => (JSON.parse(rendered) as { data?: object }).data);
  return Object.assign({}, ...found) as Record<string, string>;
}

const configMap = (namespace: string, found: string) => `
apiVersion: v1
kind: ConfigMap
metadata: {name: found, namespace: ${namespace}}
data:
  found: >-
    ${found}
`;

describe.each([
  ["cold", {}],
  ["from the fork server", warm],
  ["from one of the system's Python", { ...warm, systemPython: true }],
] as const)("renderers %s", (how, options) => {
  test("every example renders the same in a jail as outside of it, byte for byte", async () => {
    const { open, jailed, run, slot } = await useJail(options);
    for (const { name, targets, create } of await findProjects()) {
      const projectDir = await create(join(slot, "clone"));
      for (const target of targets) {
        const project = run({ projectDir, target, args: { environment: uniqueName("t") } });

        const outside = await open.diff(project, noDiffOptions, signal);
        const inside = await jailed.diff(project, noDiffOptions, signal);

        expect(inside.errors, name).toEqual([]);
        expect(inside.objects.length, name).toBeGreaterThan(0);
        // kluctl lists objects in a different order each time.
        const texts = ({ objects }: CommandResult) => objects.map(({ rendered }) => rendered).sort();
        expect(texts(inside), name).toEqual(texts(outside));
        expect(inside.objectsHash, name).toBe(outside.objectsHash);
      }
      await rm(projectDir, { recursive: true });
    }
  });

  test("a template's code reaches no environment variable, file, process or socket", async () => {
    const { jailed, run, slot, dir, cluster, lines } = await useJail(options);
    const canary = join(dir, "canary");
    await writeFile(canary, "CANARY-file");
    const server = createServer((socket) => socket.end("CANARY-socket")).listen(0, "127.0.0.1");
    onTestFinished(() => void server.close());
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const places = { files: { canary }, ports: { listener: port }, above: dir, pid: process.pid };
    const projectDir = await createProject(join(slot, "clone"), {
      "deployment.yaml": "deployments: [{path: app}]",
      "app/found.yaml": configMap(cluster.namespace, attackTemplate(attackProgram(places))),
    });
    await symlink(canary, join(projectDir, "link"));

    const result = await jailed.diff(run({ projectDir }), noDiffOptions, signal);
    const attacked = readAttack(data(result)["found"] ?? "");

    expect(gotBy(attacked)).toEqual([]);
    expect(Object.keys(attacked.found).length).toBeGreaterThan(80);
    const names = Object.keys(attacked.environment).filter((name) => !/^(PYTHON|LC_|LANG|TZ)/.test(name));
    expect(names).toEqual([]);
    expect(attacked.python.includes("fork-server")).toBe(how !== "cold");
    expect(lines.filter(({ msg }) => /starts? cold/.test(String(msg)))).toEqual([]);
  });
});

test("only a kluctl whose Python is not unpacked yet renders outside of the jail, and nothing but an empty project", async () => {
  const [cache, kluctl] = await Promise.all([useTempDir(), useKluctl()]);
  const outside: string[] = [];
  const starter: KluctlDeps["starter"] = {
    startWatched(spec, onLines) {
      const [command = ""] = spec.args;
      if (spec.command === kluctl && command !== "version") outside.push(command);
      return startWatched(spec, onLines);
    },
    removeDirectory: (path) => rm(path, { recursive: true, force: true, maxRetries: 5 }),
  };
  const preview = async () => {
    const { jailed, run, slot, cluster } = await useJail({ ...warm, cacheDir: cache, starter });
    const projectDir = await createProject(join(slot, "project"), {
      "deployment.yaml": "deployments: [{path: app}]",
      "app/found.yaml": configMap(cluster.namespace, "{{ 6 * 7 }}"),
    });
    const result = await jailed.diff(run({ projectDir }), noDiffOptions, signal);
    await jailed.stop();
    return [data(result)["found"], ...outside.splice(0)];
  };
  // As if it had been removed since.
  const { stdout: version } = await promisify(execFile)(kluctl, ["version", "--no-update-check"]);
  await writeFile(join(cache, "unpacked-by"), version.trim().replace(/^v/, ""));
  expect(await preview()).toEqual(["42", "render"]);
  expect(await preview()).toEqual(["42"]);
  await writeFile(join(cache, "unpacked-by"), "0.0.0");
  expect(await preview()).toEqual(["42", "render"]);
});

test("a fork server that dies is replaced by one that has seen no preview", async () => {
  const { jailed, run, slot, cluster, lines } = await useJail(warm);
  const how = `{{ cycler.__init__.__globals__["__builtins__"]["__import__"]("sys").orig_argv | length }}`;
  const projectDir = await createProject(join(slot, "clone"), {
    "deployment.yaml": "deployments: [{path: app}]",
    "app/found.yaml": configMap(cluster.namespace, how),
  });
  const preview = async () => data(await jailed.diff(run({ projectDir }), noDiffOptions, signal))["found"];
  const pids = () => lines.filter(({ msg }) => msg === "preview renderers are kept warm").map((line) => line["pid"]);
  const first = await preview();
  expect(Number(first)).toBeGreaterThan(3); // a renderer from the fork server has more arguments

  process.kill(Number(pids()[0]), "SIGKILL");
  await vi.waitFor(() => expect(lines.map(({ msg }) => msg)).toContain(again), patience);

  expect(await preview()).toBe(first);
  expect(new Set(pids()).size).toBe(2);
});

describe("what a hostile branch declares to kluctl itself", () => {
  const nothing = "deployments: [{path: app}]";

  test("reveals nothing", async () => {
    const { jailed, run, slot, dir, cluster } = await useJail();
    const canary = join(dir, "canary.yaml");
    await writeFile(canary, "canary: CANARY-file\n");
    await mkdir(join(dir, "secrets/templates"), { recursive: true });
    await writeFile(join(dir, "secrets/Chart.yaml"), "apiVersion: v2\nname: CANARY-chart\nversion: 1.0.0\n");
    let hits = 0;
    const server = createServer((socket) => {
      hits++;
      socket.end("HTTP/1.1 200 OK\r\ncontent-length: 22\r\n\r\ncanary: CANARY-http\r\n\r\n");
    }).listen(0, "127.0.0.1");
    onTestFinished(() => void server.close());
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const declarations = {
      "an absolute path": `vars: [{file: ${canary}}]\n${nothing}`,
      "a path above the project": `vars: [{file: ../../canary.yaml}]\n${nothing}`,
      "a link": `vars: [{file: link.yaml}]\n${nothing}`,
      "kluctl's own environment": `vars: [{file: /proc/self/environ}]\n${nothing}`,
      "a chart behind a link": `deployments: [{path: chart}]`,
      "a resource behind a link": `deployments: [{path: linked}]`,
      "a host of its own": `vars: [{http: {url: "http://127.0.0.1:${port}/?{{ 1 }}"}}]\n${nothing}`,
      "a kustomization of another host": `deployments: [{path: remote}]`,
      "a repository on the disk": `deployments: [{git: {url: "file://${canary}"}}]`,
    };
    for (const [name, deployment] of Object.entries(declarations)) {
      const projectDir = await createProject(join(slot, "clone"), {
        "deployment.yaml": deployment,
        "app/found.yaml": configMap(cluster.namespace, "{{ canary }}"),
        "chart/helm-chart.yaml": `helmChart: {path: link, releaseName: x, namespace: ${cluster.namespace}}`,
        "chart/helm-values.yaml": "{}",
        "linked/kustomization.yaml": "resources: [link.yaml]",
        "remote/kustomization.yaml": `resources: ["http://127.0.0.1:${port}/canary.yaml"]`,
      });
      await symlink(canary, join(projectDir, "link.yaml"));
      await symlink(canary, join(projectDir, "linked/link.yaml"));
      await symlink(join(dir, "secrets"), join(projectDir, "chart/link"));

      const told = await jailed.diff(run({ projectDir }), noDiffOptions, signal).then(
        (result) => JSON.stringify(result),
        (error: Error) => error.message,
      );

      expect(told, name).not.toContain("CANARY");
      expect(told, name).toMatch(/not found|permission denied|fs-security-constraint|not supported/);
      expect(hits, name).toBe(0);
      await rm(projectDir, { recursive: true });
    }
  });

  test.each([
    ["on the disk", (clone: string) => `file://${clone}/none.git`],
    ["behind ssh", () => "ssh://git@127.0.0.1/none.git"],
  ])("a kustomization from a repository %s starts no program of the project", async (_name, repository) => {
    const { jailed, run, slot } = await useJail();
    const clone = join(slot, "clone");
    const projectDir = await createProject(clone, {
      "deployment.yaml": nothing,
      "app/kustomization.yaml": `resources: ["${repository(clone)}?ref=--upload-pack=sh%20${clone}/program"]`,
      program: "echo STARTED-$((40 + 2)) >&2",
    });

    const told = await jailed.diff(run({ projectDir }), noDiffOptions, signal).then(
      (result) => JSON.stringify(result),
      (error: Error) => error.message,
    );

    expect(told).not.toContain("STARTED-42");
    expect(told).toMatch(/transport '(?:file|ssh)' not allowed/);
  });

  test("a port that kluctl may connect to on this machine is not reachable on another", async () => {
    let hits = 0;
    const elsewhere = createServer((socket) => {
      hits++;
      socket.end("HTTP/1.1 200 OK\r\ncontent-length: 19\r\n\r\ncanary: CANARY-http");
    }).listen(0, "127.0.0.2");
    onTestFinished(() => void elsewhere.close());
    await once(elsewhere, "listening");
    const { port } = elsewhere.address() as AddressInfo;
    const { jailed, run, slot, cluster } = await useJail({ ports: [port] });
    const projectDir = await createProject(join(slot, "clone"), {
      "deployment.yaml": `vars: [{http: {url: "http://127.0.0.2:${port}/"}}]\n${nothing}`,
      "app/found.yaml": configMap(cluster.namespace, "{{ canary }}"),
    });

    await expect(jailed.diff(run({ projectDir }), noDiffOptions, signal)).rejects.toThrow("permission denied");
    expect(hits).toBe(0);
  });

  test("systemEnvVars contain none of the server's variables", async () => {
    const { jailed, run, slot, cluster } = await useJail();
    const names = ["KLUCTL_GIT_PASSWORD", "KLUCTL_GIT_0_PASSWORD", "AWS_SECRET_ACCESS_KEY"];
    const projectDir = await createProject(join(slot, "clone"), {
      "deployment.yaml": `vars: [{systemEnvVars: {${names.map((name, at) => `a${at}: "${name}:none"`).join(", ")}}}]\n${nothing}`,
      "app/found.yaml": configMap(cluster.namespace, "{{ a0 }} {{ a1 }} {{ a2 }}"),
    });

    const result = await jailed.diff(run({ projectDir }), noDiffOptions, signal);

    expect(data(result)["found"]).toBe("none none none");
  });
});

describe("a branch that exhausts", () => {
  const nothing = "deployments: [{path: app}]";

  async function renderAlone(found: string, options: Parameters<typeof useJail>[0] = {}, timeoutMs = 20_000) {
    const { jailed, run, slot, cluster } = await useJail(options);
    const project = async (text: string) => {
      await rm(join(slot, "clone"), { recursive: true, force: true });
      const files = { "deployment.yaml": nothing, "app/found.yaml": configMap(cluster.namespace, text) };
      return run({ projectDir: await createProject(join(slot, "clone"), files), timeoutMs });
    };
    const failure = await jailed.diff(await project(found), noDiffOptions, signal).then(
      () => undefined,
      (error: Error) => error,
    );
    const next = await jailed.diff(await project("{{ 6 * 7 }}"), noDiffOptions, signal);
    return { failure, next: data(next)["found"] };
  }

  test.each([
    ["memory", `{{ "x" * 3000000000 }}`],
    ["output", `{{ "x" * 400000000 }}`],
    ["processor time", `{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}`],
  ])("%s fails without affecting others, and the next one works", async (_name, found) => {
    const limits = { previewRendererSeconds: 3, kluctlBytes: 600 * 1024 ** 2 };
    const { failure, next } = await renderAlone(found, { ...warm, limits });

    expect(failure).toBeInstanceOf(Error);
    expect(next).toBe("42");
  });

  test.each([
    ["from the fork server", warm],
    ["cold", {}],
  ])("time fails without affecting others if a template only waits, %s, and the next one works", async (_name, how) => {
    const sleep = `{{ cycler.__init__.__globals__["__builtins__"]["__import__"]("time").sleep(3600) }}`;
    const { failure, next } = await renderAlone(sleep, { ...how, limits: { idleMs: 5_000 } }, 600_000);

    expect(failure).toMatchObject({ name: "KilledError", why: "idle" });
    expect(failure?.message).toContain("remove what makes a template wait, such as a sleep");
    expect(next).toBe("42");
  });

  test("the container's memory is killed before the container runs out, and the next one works", async () => {
    const limitBytes = 1_000 * 1024 ** 2;
    let share = 0.9;
    const { jailed, run, slot, cluster } = await useJail({
      ...warm,
      memory: () => ({ limitBytes, usedBytes: share * limitBytes }),
    });
    const waits = `{{ cycler.__init__.__globals__["__builtins__"]["__import__"]("time").sleep(3600 if args.waits else 0) }}`;
    const projectDir = await createProject(join(slot, "clone"), {
      "deployment.yaml": nothing,
      "app/found.yaml": configMap(cluster.namespace, waits),
    });
    const preview = (isLong: boolean) =>
      jailed.diff(run({ projectDir, args: { waits: isLong } }), noDiffOptions, signal);

    const failure = await preview(true).catch((error: unknown) => error);
    share = 0.5;

    expect(failure).toMatchObject({ name: "KilledError", why: "signal" });
    expect((failure as Error).message).toContain("used more memory than 85 % of 1000 MiB");
    expect(data(await preview(false))["found"]).toBe("None");
  });

  test("the disk fails with an error that says so, affects no others and leaves no files behind", async () => {
    const { jailed, run, slot, dir, cluster } = await useJail({ limits: { writtenBytes: 8 * 1024 ** 2 } });
    const files = Object.fromEntries(
      Array.from({ length: 40 }, (_, at) => [
        `app${at}/found.yaml`,
        configMap(cluster.namespace, `{{ "x" * 900000 }}`),
      ]),
    );
    const paths = Object.keys(files).map((name) => `{path: ${name.split("/")[0]}}`);
    const projectDir = await createProject(join(slot, "clone"), {
      "deployment.yaml": `deployments: [${paths.join(", ")}]`,
      ...files,
    });

    const failed = await jailed.diff(run({ projectDir }), noDiffOptions, signal).catch((error: Error) => error);

    expect(String(failed)).toMatch(/wrote more than 8 MiB|file too large/);
    await expect.poll(() => readdir(join(dir, "work")).then((left) => left.length)).toBeLessThan(2); // for the stand-in
  });
});

test("processes that kluctl starts stay in its group, end with the run, and can only connect to the run's own sockets", async () => {
  const dir = await useTempDir();
  const [own, other] = [join(dir, "own"), join(dir, "other")];
  for (const place of [own, other]) {
    await mkdir(place);
    const server = createServer((socket) => socket.end()).listen(join(place, "socket"));
    onTestFinished(() => void server.close());
    await once(server, "listening");
  }
  const jail: Jail = {
    ...{ read: ["/dev/null"], execute: ["/usr", "/lib", "/lib64", "/bin"], write: [], ports: [9], limits: {} },
    filter: kluctlFilter({ watched: false }),
    watched: { filter: kluctlFilter({ watched: true }), sockets: [own] },
    demands: { files: true, network: true },
  };
  const program = String.raw`
fork and exit(wait() == -1 ? 1 : $? >> 8);
print "left\n" if setpgrp(0, 0) || syscall(${process.arch === "arm64" ? 157 : 112}) >= 0;
for my $path (@ARGV) {
  socket(my $unix, 1, 1, 0);
  print connect($unix, pack("S a*", 1, "$path\0")) ? "connected\n" : "$!\n";
}
exit 3;
`;
  const paths = [join(own, "socket"), join(other, "socket"), join(own, "../other/socket")];
  const { command, args } = inJail(jail, "/usr/bin/perl", ["-e", program, ...paths]);

  const ended = await promisify(execFile)(command, args, { env: {} }).catch((error: unknown) => error);

  expect(ended).toMatchObject({ code: 3, stdout: "connected\nPermission denied\nPermission denied\n" });
});

describe("on a kernel with an older Landlock,", () => {
  test.each([1, 3, 6])("with version %i, a template finds no more than with the current one", async (abi) => {
    const { jailed, run, slot, dir, cluster } = await useJail({
      ...warm,
      jail: { abi, network: abi >= 4 },
    });
    const canary = join(dir, "canary");
    await writeFile(canary, "CANARY-file");
    const places = { files: { canary }, ports: { nobody: 9 }, above: dir, pid: process.pid };
    const projectDir = await createProject(join(slot, "clone"), {
      "deployment.yaml": "deployments: [{path: app}]",
      "app/found.yaml": configMap(cluster.namespace, attackTemplate(attackProgram(places))),
    });

    const result = await jailed.diff(run({ projectDir }), noDiffOptions, signal);

    expect(gotBy(readAttack(data(result)["found"] ?? ""))).toEqual([]);
  });

  test.each([
    [0, /no Landlock, which keeps files apart/],
    [3, /no rules for ports/],
  ])("with version %i, nothing is rendered if the missing protection is required", async (abi, words) => {
    const { jailed, run, slot } = await useJail({ jail: { abi } });
    const projectDir = await createProject(join(slot, "clone"), { "deployment.yaml": "deployments: []" });

    await expect(jailed.diff(run({ projectDir }), noDiffOptions, signal)).rejects.toThrow(words);
  });
});
