import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile, readlink, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { cacheDir } from "../../../dev/cache.ts";
import { KilledError, PrepareError } from "../../../src/errors.ts";
import type { KluctlDeps } from "../../../src/kluctl/kluctl.ts";
import type { CommandResult, Run } from "../../../src/model.ts";
import {
  collectLogs,
  createProject,
  createShop,
  fakeHeld,
  findProcesses,
  isRunning,
  newKluctl,
  newRun,
  noDeployOptions,
  noDiffOptions,
} from "../../support/fake-kluctl.ts";
import { findProcessesOf } from "../../support/processes.ts";
import { reach } from "../../support/renderers.ts";
import { useCluster, useKluctl, useTempDir } from "../../support/world.ts";
import { patience } from "../../support/patience.ts";

const warmServer = join(import.meta.dirname, "../../support/warm-server.ts");
const signal = new AbortController().signal;
const kept = "kluctl's renderers are kept warm";
const cold = /^(a renderer of kluctl starts|kluctl's renderers start) cold/;

/** The real kluctl, after its warm renderers are available. */
async function useWarmKluctl(deps: Partial<KluctlDeps> = {}) {
  const [cluster, binary, dir] = await Promise.all([useCluster(), useKluctl(), useTempDir()]);
  const kubeconfig = await readFile(cluster.kubeconfig, "utf8");
  const { log, lines } = collectLogs();
  const starts: string[] = [];
  const kluctl = newKluctl(dir, {
    binary,
    log,
    kubeconfigFor: () => kubeconfig,
    cacheDir: join(cacheDir(), "kluctl"),
    warm: true,
    observe: { ran: () => undefined, rendererStarted: (start) => starts.push(start) },
    ...deps,
  });
  onTestFinished(() => kluctl.stop());
  const project = (name: string, files: Record<string, string>) => createProject(join(dir, name), files);
  const diff = (run: Partial<Run>) => kluctl.diff(newRun(run), noDiffOptions, signal);
  const first = await project("first", { "deployment.yaml": "deployments: []" });
  // Cold, unless an earlier server has left this kluctl's Python unpacked in the cache.
  await diff({ projectDir: first });
  await vi.waitFor(() => expect(lines.map(({ msg }) => msg)).toContain(kept), patience);
  starts.length = 0;
  const forkServer = Number(lines.find(({ msg }) => msg === kept)?.["pid"]);
  return { kluctl, cluster, dir, lines, starts, project, diff, forkServer, first };
}

const configMap = (name: string, namespace: string, value: string) =>
  `{apiVersion: v1, kind: ConfigMap, metadata: {name: ${name}, namespace: ${namespace}}, data: {value: '${value}'}}\n`;

/** A template that writes its process id to a file and then loops forever without handling signals. */
const endless = (file: string) => `${reach}
  {%- set _ = module("pathlib").Path("${file}").write_text(module("os").getpid() | string) %}
  {%- set _ = module("builtins").max(module("itertools").count()) %}`;

/** A result without the API server's timestamps and in a fixed order; kluctl's own order of objects varies. */
function essence({ objects, objectsHash, errors, warnings, document }: CommandResult) {
  const { deployment, target, targetKey } = document as Record<string, unknown>;
  const rendered = objects.map(
    ({ applied: _, remote: __, ...object }) => [JSON.stringify(object.ref), object] as const,
  );
  return { objects: new Map(rendered), objectsHash, errors, warnings, deployment, target, targetKey };
}

async function outcome(diff: Promise<CommandResult>) {
  return diff.then(essence, (error: unknown) => error);
}

describe("kluctl with warm renderers", () => {
  test("has exactly the same results for every project as with cold ones", async () => {
    const { cluster, diff, project, dir, starts, lines } = await useWarmKluctl();
    const { namespace } = cluster;
    const app = { "deployment.yaml": "deployments: [{path: app}]" };
    const runs: Partial<Run>[] = [
      { projectDir: await createShop(join(dir, "shop")), target: "staging", args: { environment: "warm" } },
      { projectDir: join(dir, "shop"), target: "prod", args: { environment: "warm" }, includeTags: ["none"] },
      {
        args: { nested: { deep: ["@file", "true", 1e3] } },
        projectDir: await project("variables", {
          ".kluctl.yaml": "discriminator: '{{ args.nested.deep[0] | slugify }}'\nargs: [{name: nested}]",
          "deployment.yaml":
            "vars: [{file: vars.yaml}, {values: {two: '{{ one + 1 }}'}}]\ndeployments: [{path: app}, {include: sub}, {barrier: true}]",
          "vars.yaml": "one: 1\nlist: [b, a]",
          "app/a.yaml": configMap(
            "a",
            namespace,
            "{{ two }} {{ list | sort | to_yaml | b64encode }} {{ args | to_json | sha256 }}",
          ),
          "sub/deployment.yaml": "deployments: [{path: deep}]",
          "sub/deep/b.yaml": configMap(
            "b",
            namespace,
            '{% for n in range(3) %}{{ n }}{{ load_template("x.txt") }}{% endfor %}',
          ),
          "sub/deep/x.txt": "ü {{ time.now().year > 2000 }}",
        }),
      },
      {
        images: [{ image: "registry.example/app", resultImage: "registry.example/app:2" }],
        projectDir: await project("images", {
          ...app,
          "app/a.yaml": configMap("a", namespace, '{{ images.get_image("registry.example/app") }}'),
        }),
      },
      {
        projectDir: await project("undefined", {
          ...app,
          "app/a.yaml": configMap("a", namespace, "{{ missing.thing }}"),
        }),
      },
      { projectDir: await project("syntax", { ...app, "app/a.yaml": "{% if %}", "app/b.yaml": "{{ raise('no') }}" }) },
      { projectDir: await project("yaml", { ...app, "app/a.yaml": "{{ 'a: [' }}" }) },
      { projectDir: await project("none", { "deployment.yaml": "deployments: [{path: '{{ nowhere }}'}]" }) },
    ];
    for (const run of runs) {
      const [warm, plain] = [await outcome(diff(run)), await outcome(diff({ ...run, cold: true }))];
      expect(warm).toEqual(plain);
      if (plain instanceof Error) expect(plain).toBeInstanceOf(PrepareError);
    }
    expect(starts).toEqual(runs.flatMap(() => ["warm", "cold"]));
    expect(lines.filter(({ msg }) => cold.test(msg))).toEqual([]);
  });

  test("deploys, and leaves no process or file behind when it stops", async () => {
    const { kluctl, cluster, project, dir, starts } = await useWarmKluctl();
    const projectDir = await project("project", {
      "deployment.yaml": "deployments: [{path: app}]",
      "app/a.yaml": configMap("a", cluster.namespace, "{{ 6 * 7 }}"),
    });

    const deployed = await kluctl.deploy(newRun({ projectDir, held: fakeHeld() }), noDeployOptions, signal);
    const validated = await kluctl.validate(newRun({ projectDir }), signal);
    await kluctl.stop();

    expect(deployed).toMatchObject({ errors: [], objects: [{ new: true }] });
    expect(validated.ready).toBe(true);
    expect(await cluster.data("a")).toEqual({ value: "42" });
    expect(starts).toEqual(["warm", "warm"]);
    await vi.waitFor(async () => expect(await findProcesses(dir)).toEqual([]), patience);
    expect(await readdir(join(dir, "work"))).toEqual([]);
  });

  test("starts warm from the first run on if an earlier server has left its Python unpacked", async () => {
    const [cluster, binary, cache] = await Promise.all([useCluster(), useKluctl(), useTempDir()]);
    const kubeconfig = await readFile(cluster.kubeconfig, "utf8");
    const firstStart = async () => {
      const dir = await useTempDir();
      const { log, lines } = collectLogs();
      const starts: string[] = [];
      const observe = { ran: () => undefined, rendererStarted: (start: string) => void starts.push(start) };
      const options = { binary, log, kubeconfigFor: () => kubeconfig, cacheDir: cache, warm: true, observe };
      const kluctl = newKluctl(dir, options);
      const projectDir = await createProject(join(dir, "project"), { "deployment.yaml": "deployments: []" });
      const { errors } = await kluctl.diff(newRun({ projectDir }), noDiffOptions, signal);
      expect(errors).toEqual([]);
      await vi.waitFor(() => expect(lines.map(({ msg }) => msg)).toContain(kept), patience);
      await kluctl.stop();
      return starts;
    };
    expect(await firstStart()).toEqual(["cold"]);
    expect(await firstStart()).toEqual(["warm"]);
    await rm(join(cache, "tmp"), { recursive: true });
    expect(await firstStart()).toEqual(["cold"]);
  });

  test("shares no state between renders", async () => {
    const { cluster, project, diff } = await useWarmKluctl();
    const projectWith = (name: string, template: string) =>
      project(name, {
        "deployment.yaml": "deployments: [{path: app}]",
        "app/a.yaml": `{% set found = (${template}) %}${configMap("a", cluster.namespace, "{{ found }}")}`,
      });
    const rendered = async (projectDir: string) => {
      const [object] = (await diff({ projectDir })).objects;
      return (JSON.parse(object?.rendered ?? "{}") as { data?: { value?: string } }).data?.value;
    };
    const module = `cycler.__init__.__globals__["__builtins__"]["__import__"]`;
    const spoil = await projectWith(
      "spoil",
      `[${module}("sys").modules.update(mark=1), ${module}("os").environ.update(MARK="1")] | length`,
    );
    const look = await projectWith("look", `"mark" in ${module}("sys").modules or "MARK" in ${module}("os").environ`);

    expect(await rendered(spoil)).toBe("2");
    expect(await rendered(look)).toBe("False");
  });

  test("ignores a locale that the machine lacks, and shows it to templates", async () => {
    const { cluster, project, diff, starts, lines } = await useWarmKluctl({
      env: { PATH: process.env["PATH"], LC_ALL: "xx_XX.UTF-8" },
    });
    const environ = `cycler.__init__.__globals__["__builtins__"]["__import__"]("os").environ`;
    const found = `${environ}["LC_ALL"] ~ ", " ~ ("PERL" in (${environ} | list | join(" ")))`;
    const projectDir = await project("locale", {
      "deployment.yaml": "deployments: [{path: app}]",
      "app/a.yaml": `{% set found = ${found} %}${configMap("a", cluster.namespace, "{{ found }}")}`,
    });

    const [object] = (await diff({ projectDir })).objects;

    expect(object?.rendered).toContain("xx_XX.UTF-8, False");
    expect(starts.at(-1)).toBe("warm");
    expect(lines.filter(({ msg }) => cold.test(String(msg)) || /perl/i.test(String(msg)))).toEqual([]);
  });

  test("ends a looping template at the deployment's timeout, with all processes it started", async () => {
    const { project, diff, dir, kluctl } = await useWarmKluctl({ limits: { overtimeMs: 500 } });
    const file = join(dir, "pid");
    const projectDir = await project("loop", {
      "deployment.yaml": "deployments: [{path: app}]",
      "app/a.yaml": endless(file),
    });

    const error = await diff({ projectDir, timeoutMs: 10_000 }).catch((thrown: unknown) => thrown);

    expect(error).toBeInstanceOf(KilledError);
    expect(error).toMatchObject({ why: "timeout" });
    const pid = Number(await readFile(file, "utf8"));
    await vi.waitFor(() => expect(isRunning(pid)).toBe(false), patience);
    expect(
      (await diff({ projectDir: await project("next", { "deployment.yaml": "deployments: []" }) })).errors,
    ).toEqual([]);
    await kluctl.stop();
    await vi.waitFor(async () => expect(await findProcesses(dir)).toEqual([]), patience);
  });

  test("continues with cold renderers when the fork server dies, and logs it once", async () => {
    const { cluster, project, diff, lines, starts, forkServer } = await useWarmKluctl();
    const projectDir = await project("project", {
      "deployment.yaml": "deployments: [{path: app}]",
      "app/a.yaml": configMap("a", cluster.namespace, "{{ 1 + 1 }}"),
    });
    const before = await diff({ projectDir });

    process.kill(forkServer, "SIGKILL");
    // The first run may start before the server notices it: then its stand-ins find no fork server.
    const after = [await diff({ projectDir }), await diff({ projectDir }), await diff({ projectDir })];

    for (const one of after) expect(essence(one)).toEqual(essence(before));
    expect(lines.filter(({ msg }) => cold.test(msg))).toMatchObject([{ error: "the fork server ended with SIGKILL" }]);
    expect(starts.slice(-2)).toEqual(["fallback", "fallback"]);
  });

  test("continues when the stand-in for its Python is corrupted", async () => {
    const { project, cluster, diff, dir } = await useWarmKluctl();
    const projectDir = await project("project", {
      "deployment.yaml": "deployments: [{path: app}]",
      "app/a.yaml": configMap("a", cluster.namespace, "{{ 1 + 1 }}"),
    });
    const before = await diff({ projectDir });
    await expect.poll(() => readdir(join(dir, "work"))).toHaveLength(1);
    const [place = ""] = await readdir(join(dir, "work"));
    const interpreter = await readlink(join(dir, "work", place, "python"));

    await writeFile(join(dirname(interpreter), "python3"), "of another size, so kluctl unpacks its own");

    expect(essence(await diff({ projectDir }))).toEqual(essence(before));
  });

  test("ends with its renderers when its server is killed, whatever they are doing", async () => {
    const [cluster, binary, dir] = await Promise.all([useCluster(), useKluctl(), useTempDir()]);
    const empty = await createProject(join(dir, "empty"), { "deployment.yaml": "deployments: []" });
    const loop = await createProject(join(dir, "loop"), {
      "deployment.yaml": "deployments: [{path: app}]",
      "app/a.yaml": endless(join(dir, "pid")),
    });
    const args = [warmServer, dir, binary, cluster.kubeconfig, join(cacheDir(), "kluctl"), empty, loop];
    const server = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "inherit"] });
    onTestFinished(() => void server.kill("SIGKILL"));
    const pid = await vi.waitFor(async () => {
      const found = Number(await readFile(join(dir, "pid"), "utf8"));
      expect(isRunning(found)).toBe(true);
      return found;
    }, patience);
    expect(findProcessesOf(dir).some(({ command }) => command.includes("fork-server.py"))).toBe(true);

    server.kill("SIGKILL");
    await once(server, "exit");

    await vi.waitFor(() => expect(findProcessesOf(dir)).toEqual([]), patience);
    expect(isRunning(pid)).toBe(false);
  });
});
