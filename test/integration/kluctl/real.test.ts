import { randomUUID } from "node:crypto";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { KilledError, PrepareError } from "../../../src/errors.ts";
import { createObjects } from "../../../src/kube/objects.ts";
import type { KluctlProcesses } from "../../../src/kluctl/kluctl.ts";
import type { Run } from "../../../src/model.ts";
import { findDoomed } from "../../../src/guards/pruning.ts";
import {
  collectLogs,
  createProject,
  createShop,
  fakeHeld,
  findProcesses,
  gitLogins,
  newKluctl,
  newRun,
  noDeployOptions,
  noDiffOptions,
} from "../../support/fake-kluctl.ts";
import type { TestCluster } from "../../support/world-cluster.ts";
import { uniqueName, useCluster, useGitServer, useKluctl, useTempDir } from "../../support/world.ts";
import { patience } from "../../support/patience.ts";

interface Setting {
  readonly kluctl: KluctlProcesses;
  readonly cluster: TestCluster;
  readonly dir: string;
  readonly logs: ReturnType<typeof collectLogs>["lines"];
}

async function useRealKluctl(): Promise<Setting> {
  const [cluster, binary, dir] = await Promise.all([useCluster(), useKluctl(), useTempDir()]);
  const kubeconfig = await readFile(cluster.kubeconfig, "utf8");
  const { log, lines } = collectLogs();
  // The lease of these tests is renewed only once, at the start, and unpacking Python takes seconds on a busy machine.
  const limits = { leaseSilenceMs: 60_000 };
  const kluctl = newKluctl(dir, { binary, log, kubeconfigFor: () => kubeconfig, cacheDir, limits });
  onTestFinished(() => kluctl.stop());
  return { kluctl, cluster, dir, logs: lines };
}

/** Unpacking Python takes seconds, so it is done once for all tests of this file. */
let cacheDir: string;
beforeAll(async () => {
  cacheDir = await mkdtemp(join(tmpdir(), "towline-test-"));
  return () => rm(cacheDir, { recursive: true, force: true });
});

const signal = new AbortController().signal;

const configMap = (name: string, namespace: string, data = "1") =>
  `{apiVersion: v1, kind: ConfigMap, metadata: {name: ${name}, namespace: ${namespace}}, data: {value: "${data}"}}\n`;

describe("the real kluctl", () => {
  test("a diff and a deploy of the shop have the same hash, and a second deploy changes nothing", async () => {
    const { kluctl, dir, cluster, logs } = await useRealKluctl();
    const environment = uniqueName("t");
    onTestFinished(async () => void (await cluster.core.deleteNamespace({ name: `shop-${environment}` })));
    const run = newRun({
      projectDir: await createShop(join(dir, "shop")),
      target: "staging",
      args: { environment },
      held: fakeHeld(),
    });

    const before = await kluctl.diff(run, noDiffOptions, signal);
    const deployed = await kluctl.deploy(run, noDeployOptions, signal);
    const again = await kluctl.deploy(run, noDeployOptions, signal);
    const after = await kluctl.diff(run, noDiffOptions, signal);

    expect(deployed.errors).toEqual([]);
    expect(before.objects.filter((object) => object.new)).toHaveLength(9);
    expect(deployed.objects.filter((object) => object.new)).toHaveLength(9);
    expect(again.objects.filter((object) => object.new || object.changes.length > 0)).toEqual([]);
    expect(after.objects.filter((object) => object.new || object.changes.length > 0)).toEqual([]);
    expect(new Set([before, deployed, again, after].map((result) => result.objectsHash)).size).toBe(1);
    for (const { rendered, remote, applied } of again.objects) {
      for (const json of [rendered, remote, applied]) expect(JSON.parse(json ?? "null")).toHaveProperty("kind");
    }
    await expect.poll(() => readdir(join(dir, "work"))).toEqual([]);
    expect(logs).toContainEqual(
      expect.objectContaining({
        namespace: "shop",
        name: "staging",
        reconcileID: run.reconcileId,
        msg: "Rendering templates",
      }),
    );
  });

  test("a project that is not ready fails validation, which names the object", async () => {
    const { kluctl, dir, cluster } = await useRealKluctl();
    const projectDir = await createProject(join(dir, "project"), {
      "deployment.yaml": "deployments: [{path: app}]",
      "app/one.yaml": configMap("one", cluster.namespace),
    });
    const run = newRun({ projectDir, held: fakeHeld() });

    const missing = await kluctl.validate(run, signal);
    await kluctl.deploy(run, noDeployOptions, signal);
    const there = await kluctl.validate(run, signal);

    expect(missing.errors).toMatchObject([{ ref: { kind: "ConfigMap", name: "one" }, message: "object not found" }]);
    expect(there).toMatchObject({ ready: true, errors: [] });
  });

  test("validate uses the images of the KluctlDeployment, with and without a target", async () => {
    const { kluctl, dir, cluster } = await useRealKluctl();
    const pod = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: app, namespace: ${cluster.namespace}}
spec:
  replicas: 0
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}}
    spec: {containers: [{name: app, image: '{{ images.get_image("registry.example/app") }}'}]}`;
    const deployment = { "deployment.yaml": "deployments: [{path: app}]", "app/app.yaml": pod };
    const images = [{ image: "registry.example/app", resultImage: "registry.example/app:2" }];
    const withTarget = await createProject(join(dir, "with"), {
      ...deployment,
      ".kluctl.yaml": "targets: [{name: prod}]",
    });
    const without = await createProject(join(dir, "without"), deployment);

    const deployed = await kluctl.deploy(
      newRun({ projectDir: without, images, held: fakeHeld() }),
      noDeployOptions,
      signal,
    );
    expect(deployed.errors).toEqual([]);
    for (const run of [
      newRun({ projectDir: withTarget, target: "prod", images }),
      newRun({ projectDir: without, images }),
    ]) {
      await vi.waitFor(async () => expect(await kluctl.validate(run, signal)).toMatchObject({ ready: true }), patience);
    }
    await expect(kluctl.validate(newRun({ projectDir: without }), signal)).rejects.toThrow(PrepareError);
  });

  test("poking images changes the image and nothing else", async () => {
    const { kluctl, dir, cluster } = await useRealKluctl();
    const pod = (replicas: number) => `
apiVersion: apps/v1
kind: Deployment
metadata: {name: app, namespace: ${cluster.namespace}}
spec:
  replicas: ${replicas}
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}}
    spec: {containers: [{name: app, image: '{{ images.get_image("registry.example/app") }}'}]}`;
    const deployment = { ".kluctl.yaml": "discriminator: poke", "deployment.yaml": "deployments: [{path: app}]" };
    const images = (tag: string) => [{ image: "registry.example/app", resultImage: `registry.example/app:${tag}` }];
    const first = await createProject(join(dir, "first"), { ...deployment, "app/app.yaml": pod(0) });
    const second = await createProject(join(dir, "second"), { ...deployment, "app/app.yaml": pod(1) });
    await kluctl.deploy(newRun({ projectDir: first, images: images("1"), held: fakeHeld() }), noDeployOptions, signal);

    const poked = await kluctl.pokeImages(
      newRun({ projectDir: second, images: images("2"), held: fakeHeld() }),
      { dryRun: false },
      signal,
    );

    const changes = poked.objects.flatMap((object) =>
      object.changes.map(({ jsonPath, newValue }) => ({ jsonPath, newValue })),
    );
    expect(changes).toEqual([
      { jsonPath: "spec.template.spec.containers[0].image", newValue: "registry.example/app:2" },
    ]);
  });

  test("delete removes objects with the discriminator and leaves all others", async () => {
    const { kluctl, dir, cluster } = await useRealKluctl();
    const discriminator = uniqueName("mine");
    const project = (name: string, mark: string) =>
      createProject(join(dir, name), {
        ".kluctl.yaml": `discriminator: ${mark}`,
        "deployment.yaml": "deployments: [{path: app}]",
        "app/one.yaml": configMap(name, cluster.namespace),
      });
    for (const [name, mark] of [
      ["mine", discriminator],
      ["other", uniqueName("other")],
    ] as const) {
      const run = newRun({ projectDir: await project(name, mark), held: fakeHeld() });
      expect((await kluctl.deploy(run, noDeployOptions, signal)).errors).toEqual([]);
    }
    const { projectDir: _, ...run } = newRun({ targetNameOverride: "prod", held: fakeHeld() });

    const tried = await kluctl.delete(run, { discriminator, dryRun: true }, signal);
    expect(tried.objects.map(({ ref }) => ref.name)).toEqual(["mine"]);
    expect(await cluster.find("v1", "ConfigMap", "mine")).toBeDefined();
    const deleted = await kluctl.delete(run, { discriminator, dryRun: false }, signal);

    expect(deleted.objects).toMatchObject([{ ref: { kind: "ConfigMap", name: "mine" }, deleted: true }]);
    expect(await cluster.find("v1", "ConfigMap", "mine")).toBeUndefined();
    expect(await cluster.find("v1", "ConfigMap", "other")).toBeDefined();
  });

  test("an object that was removed from the project is an orphan, and can be pruned even if finalizers delay its deletion", async () => {
    const { kluctl, dir, cluster } = await useRealKluctl();
    const { namespace } = cluster;
    const files = {
      ".kluctl.yaml": `discriminator: ${uniqueName("prune")}`,
      "deployment.yaml": "deployments: [{path: app}]",
      "app/one.yaml": configMap("one", namespace),
    };
    const stuck = Array.from({ length: 10 }, (_, i) => `stuck-${i}`);
    const held = (name: string) =>
      configMap(name, namespace).replace("}, data", ", finalizers: [example.com/never]}, data");
    const whole = await createProject(join(dir, "whole"), {
      ...files,
      "app/two.yaml": configMap("two", namespace),
      ...Object.fromEntries(stuck.map((name) => [`app/${name}.yaml`, held(name)])),
    });
    const one = newRun({ projectDir: await createProject(join(dir, "one"), files), held: fakeHeld() });
    await kluctl.deploy({ ...one, projectDir: whole }, noDeployOptions, signal);
    const kubeconfig = await readFile(cluster.kubeconfig, "utf8");
    const objects = createObjects({ kubeconfigFor: () => kubeconfig });
    const there = async (name: string) => (await cluster.find("v1", "ConfigMap", name))?.metadata;

    const deployed = await kluctl.deploy(one, noDeployOptions, signal);
    const doomed = findDoomed(deployed);
    expect(doomed.map(({ name }) => name).sort()).toEqual([...stuck, "two"].sort());
    expect(await objects.delete(doomed, one, { dryRun: true }, signal)).toEqual([]);
    expect((await there("two"))?.deletionTimestamp).toBeUndefined();
    const others = doomed.map((object) => ({ ...object, uid: randomUUID() }));
    expect(await objects.delete(others, one, { dryRun: false }, signal)).toHaveLength(doomed.length);
    expect((await there("two"))?.deletionTimestamp).toBeUndefined();

    expect(await objects.delete(doomed, one, { dryRun: false }, signal)).toEqual([]);
    expect(await there("two")).toBeUndefined();
    for (const name of stuck) expect((await there(name))?.deletionTimestamp, name).toBeDefined();
    expect(await there("one")).toMatchObject({ name: "one" });
    const again = await kluctl.diff(one, noDiffOptions, signal);
    expect(again.objects.filter(({ orphan }) => orphan)).toHaveLength(stuck.length);
    expect(findDoomed(again)).toEqual([]); // an object that is already being deleted is not listed again
    for (const name of stuck)
      await cluster.patch({ apiVersion: "v1", kind: "ConfigMap", metadata: { name, finalizers: null as never } });
  });

  test("a project that cannot be rendered is a PrepareError with kluctl's own message", async () => {
    const { kluctl, dir } = await useRealKluctl();
    const projectDir = await createProject(join(dir, "project"), {
      "deployment.yaml": "deployments: [{path: app}]",
      "app/one.yaml": configMap("one", "{{ nowhere.at.all }}"),
    });

    const diff = (target?: string) =>
      kluctl.diff(newRun({ projectDir, target }), noDiffOptions, signal).catch((error: unknown) => error);

    const broken = await diff();
    expect(broken).toBeInstanceOf(PrepareError);
    expect((broken as Error).message).toMatch(/^(?!Rendering).*'nowhere' is undefined/s);
    expect(await diff("prod")).toEqual(new PrepareError("target prod not existent in kluctl project config"));
  });

  test("an object that the API server rejects is an error in the result, and the others are applied", async () => {
    const { kluctl, dir, cluster } = await useRealKluctl();
    const projectDir = await createProject(join(dir, "project"), {
      "deployment.yaml": "deployments: [{path: bad}, {path: good}]",
      "bad/one.yaml": configMap("bad", "there-is-no-such-namespace"),
      "good/one.yaml": configMap("good", cluster.namespace),
    });

    const result = await kluctl.deploy(newRun({ projectDir, held: fakeHeld() }), noDeployOptions, signal);

    expect(result.errors).toMatchObject([
      { ref: { name: "bad" }, message: expect.stringContaining("not found") as string },
    ]);
    expect(await cluster.find("v1", "ConfigMap", "good")).toBeDefined();
  });

  test("arguments arrive unchanged, whatever they look like", async () => {
    const { kluctl, dir, cluster } = await useRealKluctl();
    const args = { file: "@/etc/hostname", truth: "true", number: "1e3", nothing: "null", shell: "a;$(id) 'b'" };
    const data = Object.keys(args)
      .map((name) => `  ${name}: '{{ args.${name} | string | b64encode }}'`)
      .join("\n");
    const projectDir = await createProject(join(dir, "project"), {
      "deployment.yaml": "deployments: [{path: app}]",
      "app/one.yaml": `apiVersion: v1\nkind: Secret\nmetadata: {name: one, namespace: ${cluster.namespace}}\ndata:\n${data}\n`,
    });

    const result = await kluctl.diff(newRun({ projectDir, args }), noDiffOptions, signal);

    const secret = JSON.parse(result.objects[0]?.rendered ?? "{}") as { data: Record<string, string> };
    const seen = Object.entries(secret.data).map(([name, value]) => [name, Buffer.from(value, "base64").toString()]);
    expect(Object.fromEntries(seen)).toEqual(args);
  });

  test("a private repository that the project includes is fetched with the login of the run, and no other", async () => {
    const { kluctl, dir, cluster } = await useRealKluctl();
    const login = { username: "bot", password: "hunter2-hunter2" };
    const git = await useGitServer(login);
    const library = await git.repo("library");
    await library.push({
      "deployment.yaml": "deployments: [{path: app}]",
      "app/one.yaml": configMap("one", cluster.namespace),
    });
    const projectDir = await createProject(join(dir, "project"), {
      "deployment.yaml": `deployments: [{git: {url: ${library.url}}}]`,
    });
    const own = { host: new URL(library.url).host, secretName: "login", ...login };
    const credentials = gitLogins(own);
    const diff = (run: Partial<Run>) => kluctl.diff(newRun({ projectDir, ...run }), noDiffOptions, signal);

    const first = await diff({ credentials });
    const again = await diff({ credentials });

    expect(first.objects).toMatchObject([{ ref: { name: "one" }, new: true }]);
    expect(again.objectsHash).toBe(first.objectsHash);
    for (const run of [{}, { credentials: gitLogins({ ...own, password: "wrong-password" }) }]) {
      await expect(diff(run)).rejects.toThrow(/auth/i);
    }
  });

  describe("while kluctl waits for an object that never gets ready", () => {
    /** A Deployment whose pods never get ready: they select a node that does not exist. */
    const stuck = (namespace: string) => `
apiVersion: apps/v1
kind: Deployment
metadata: {name: stuck, namespace: ${namespace}, annotations: {kluctl.io/wait-readiness: "true"}}
spec:
  selector: {matchLabels: {app: stuck}}
  template:
    metadata: {labels: {app: stuck}}
    spec: {nodeSelector: {nowhere: "1"}, containers: [{name: app, image: registry.example/app}]}`;

    async function useStuck(run: Partial<Run> = {}) {
      const setting = await useRealKluctl();
      const projectDir = await createProject(join(setting.dir, "project"), {
        "deployment.yaml": "deployments: [{path: app}, {barrier: true}]",
        "app/one.yaml": stuck(setting.cluster.namespace),
      });
      const waits = () =>
        vi.waitFor(
          () => expect(setting.logs.map(({ msg }) => msg)).toContainEqual(expect.stringContaining("to get ready")),
          patience,
        );
      return { ...setting, waits, run: newRun({ projectDir, held: fakeHeld(), ...run }) };
    }

    test("its own timeout ends it with a result that says so", async () => {
      const { kluctl, run } = await useStuck({ timeoutMs: 20_000 });

      const result = await kluctl.deploy(run, noDeployOptions, signal);

      expect(result.errors).not.toEqual([]);
    });

    test("an abort ends it at once and leaves no process or file behind", async () => {
      const { kluctl, run, dir, waits } = await useStuck();
      const abort = new AbortController();
      const deploy = kluctl.deploy(run, noDeployOptions, abort.signal).catch((error: unknown) => error);
      await waits();

      abort.abort();
      const error = await deploy;

      expect(error).toBeInstanceOf(KilledError);
      expect(error).toMatchObject({ why: "stopped" });
      await vi.waitFor(async () => expect(await findProcesses(dir)).toEqual([]), patience);
      await expect.poll(() => readdir(join(dir, "work"))).toEqual([]);
    });

    test("a lost lease kills it at once", async () => {
      const held = fakeHeld();
      const { kluctl, run, dir, waits } = await useStuck({ held });
      const deploy = kluctl.deploy(run, noDeployOptions, signal).catch((error: unknown) => error);
      await waits();

      held.lose();

      expect(await deploy).toMatchObject({ name: "KilledError", why: "lease-lost" });
      await vi.waitFor(async () => expect(await findProcesses(dir)).toEqual([]), patience);
    });
  });
});
