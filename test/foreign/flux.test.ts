/**
 * The migration guide for Flux, with the real `flux` and Flux's own controllers. Only the source-controller is
 * simulated.
 */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, onTestFinished, test } from "vitest";
import { stringify } from "yaml";
import { freePort } from "../../dev/parts/port.ts";
import { documentedBlocks, root } from "../support/documented-commands.ts";
import { becomes, type ForeignDesk, runDocumented, useForeignDesk } from "../support/foreign-desk.ts";
import { definition } from "../support/older-api.ts";
import { toTar } from "../support/registry-host.ts";

const page = "docs/migrate-from-flux.md";
const kustomization = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/shop";
const gitRepository = "/apis/source.toolkit.fluxcd.io/v1/namespaces/flux-system/gitrepositories/shop";
const settings = "/api/v1/namespaces/shop/configmaps/settings";

const configMap = (color: string) =>
  stringify({
    ...{ apiVersion: "v1", kind: "ConfigMap" },
    ...{ metadata: { name: "settings", namespace: "shop" }, data: { color } },
  });

test("the guide for Flux: each command does what the page says, and no object is deleted", async () => {
  const desk = await useForeignDesk(["flux", "kustomize-controller", "helm-controller"]);
  const source = await useFlux(desk);
  await source.publish({ "base/settings.yaml": configMap("red") });
  await desk.apply(aKustomization({ prune: true }));
  await isApplied(desk);
  expect((await desk.find(settings))?.data).toEqual({ color: "red" });
  const project = await writeProject(desk);
  const [compare, takeOff, mark, release] = documentedBlocks().filter(({ file }) => file === page);
  const spec = async () => (await desk.find(kustomization))?.spec;

  await runDocumented("flux", {
    async "flux get kustomizations"(command) {
      expect(await desk.type(command)).toMatch(/^shop\s+main@sha1:\w+\s+False\s+True/m);
    },
    async "flux trace KIND NAME"(command) {
      const said = await desk.type(`${command.replace("KIND NAME", "configmap settings")} --namespace shop`);
      expect(said).toMatch(/Managed by Flux[^]*Kustomization: +shop[^]*GitRepository: +shop/);
    },
    async "flux diff kustomization NAME --path ."(command) {
      // It exits with 1 if there are differences.
      const diff = (color: string) =>
        desk.type(`printf '%s' '${configMap(color)}' > settings.yaml; ${command.replace("NAME", "shop")} || echo $?`, {
          cwd: join(project, "base"),
        });
      expect(await diff("blue")).toMatch(/ConfigMap\/shop\/settings drifted[^]*color[^]*\n1\n$/);
      expect(await diff("red")).not.toContain("drifted");
    },
    async "flux reconcile kustomization NAME --with-source"(command) {
      source.next({ "base/settings.yaml": configMap("blue") });
      await desk.type(command.replace("NAME", "shop"));
      expect((await desk.find(settings))?.data).toEqual({ color: "blue" });
      source.next({ "base/settings.yaml": configMap("red") });
      await desk.type(command.replace("NAME", "shop"));
    },
    async "flux suspend kustomization NAME"(command) {
      await desk.type(command.replace("NAME", "shop"));
      expect(await spec()).toMatchObject({ suspend: true });
    },
    async "flux resume kustomization NAME"(command) {
      await desk.type(command.replace("NAME", "shop"));
      expect(await spec()).not.toMatchObject({ suspend: true });
    },
    async "flux suspend kustomization shop"(command) {
      await seesOnlyMarks(desk, compare?.text ?? "", project);
      await desk.apply(aKustomization({ prune: false }));
      await isApplied(desk);
      expect(takeOff?.text).toContain(command);
      // The last line that the block prints must be the one that the page states.
      expect(await desk.type(takeOff?.text ?? "")).toMatch(/(^|\n)false$/);
      expect(await spec()).toMatchObject({ suspend: true, prune: false });
    },
    async "flux suspend helmrelease shop --namespace shop"(command) {
      expect(release?.text).toContain(command);
      await leavesTheRelease(desk, command, release?.text ?? "");
    },
  });

  await desk.type("kubectl delete kustomizations.kustomize.toolkit.fluxcd.io -n flux-system shop --timeout 60s");
  expect((await desk.find(settings))?.data).toEqual({ color: "red" });
  await desk.type("kluctl deploy -t staging --yes", { cwd: project });
  const flux = { "kustomize.toolkit.fluxcd.io/name": "shop", "kustomize.toolkit.fluxcd.io/namespace": "flux-system" };
  const labels = async () => (await desk.find(settings))?.metadata.labels;
  expect(await labels(), "Flux's mark stays, as the page says").toMatchObject({
    ...{ "kluctl.io/discriminator": "shop-staging" },
    ...flux,
  });
  await desk.type(mark?.text ?? "");
  expect(Object.keys((await labels()) ?? {}).filter((name) => name.includes("fluxcd"))).toEqual([]);
  expect((await desk.find(settings))?.data).toEqual({ color: "red" });
});

test("deleting a Kustomization with prune that is not suspended deletes its objects, which the guide warns about", async () => {
  const desk = await useForeignDesk(["flux", "kustomize-controller"]);
  const source = await useFlux(desk);
  await source.publish({ "base/settings.yaml": configMap("red") });
  await desk.apply(aKustomization({ prune: true }));
  await becomes(async () => (await desk.find(settings))?.data, { color: "red" });

  await desk.type("kubectl delete kustomizations.kustomize.toolkit.fluxcd.io -n flux-system shop --timeout 60s");

  await becomes(() => desk.find(settings), undefined);
});

/** Waits until Flux has reconciled the current Kustomization. */
async function isApplied(desk: ForeignDesk): Promise<void> {
  interface Dealt {
    readonly metadata: { readonly generation: number };
    readonly status?: { observedGeneration?: number; conditions?: { type: string; status: string }[] };
  }
  const look = async () => {
    const { metadata, status } = (await desk.find<Dealt>(kustomization)) ?? {};
    const ready = status?.conditions?.find(({ type }) => type === "Ready");
    return metadata?.generation === status?.observedGeneration && ready?.status === "True";
  };
  await becomes(look, true);
}

function aKustomization({ prune }: { readonly prune: boolean }): object {
  return {
    apiVersion: "kustomize.toolkit.fluxcd.io/v1",
    kind: "Kustomization",
    metadata: { name: "shop", namespace: "flux-system" },
    spec: { interval: "1h", path: "./base", prune, sourceRef: { kind: "GitRepository", name: "shop" } },
  };
}

/** The blocks of the page that name their file. */
function projectFiles(): string[] {
  const text = readFileSync(join(root, page), "utf8");
  return [...text.matchAll(/```yaml\n(# \S+\n[^]*?)```/g)].map(([, block]) => block ?? "");
}

/** Writes the project of the page beside the directory that Flux deploys. */
async function writeProject({ dir }: ForeignDesk): Promise<string> {
  const project = join(dir, "project");
  const files = {
    ...Object.fromEntries(projectFiles().map((text) => [/^# (\S+)/.exec(text)?.[1] ?? "", text])),
    "base/settings.yaml": configMap("red"),
  };
  expect(Object.keys(files)).toEqual([".kluctl.yaml", "deployment.yaml", "base/settings.yaml"]);
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(project, name)), { recursive: true });
    await writeFile(join(project, name), text);
  }
  return project;
}

/** "No more than the labels and annotations that kluctl adds." */
async function seesOnlyMarks(desk: ForeignDesk, command: string, cwd: string): Promise<void> {
  const said = await desk.type(`${command} 2>&1`, { cwd });
  const paths = said.split("\n").flatMap((line) => /^\| ((?:metadata|data|spec)\S*)/.exec(line)?.[1] ?? []);
  expect(paths.length, said).toBeGreaterThan(0);
  expect(paths.filter((path) => !/^metadata\.(labels|annotations)\["kluctl\.io\//.test(path))).toEqual([]);
  expect((await desk.find(settings))?.metadata.labels).not.toHaveProperty("kluctl.io/discriminator");
}

/** A suspended HelmRelease is deleted while what it installed stays. Its HelmChart is simulated, like all sources. */
async function leavesTheRelease(desk: ForeignDesk, suspend: string, block: string): Promise<void> {
  const of = { namespace: "shop", name: "shop" };
  const installed = "/api/v1/namespaces/shop/configmaps/from-helm";
  const releasePath = "/apis/helm.toolkit.fluxcd.io/v2/namespaces/shop/helmreleases/shop";
  await startController(desk, "helm-controller");
  const template = stringify({
    ...{ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "from-helm" } },
    data: { color: "red" },
  });
  const chart = stringify({ apiVersion: "v2", name: "shop", version: "0.1.0" });
  const archive = gzipSync(toTar({ "shop/Chart.yaml": chart, "shop/templates/it.yaml": template }));
  const url = await serve(() => archive, "shop-0.1.0.tgz");
  await desk.apply({ apiVersion: "source.toolkit.fluxcd.io/v1", kind: "HelmChart", metadata: of, spec: {} });
  const at = new Date().toISOString().replace(/\.\d+/, "");
  const ready = { type: "Ready", status: "True", reason: "Succeeded", message: "packed", lastTransitionTime: at };
  const artifact = { url, digest: digestOf(archive), revision: "0.1.0", path: "shop", lastUpdateTime: at };
  await desk.client.request({
    ...{ method: "PATCH", path: "/apis/source.toolkit.fluxcd.io/v1/namespaces/shop/helmcharts/shop/status" },
    body: { status: { observedGeneration: 1, conditions: [ready], artifact } },
  });
  await desk.apply({
    ...{ apiVersion: "helm.toolkit.fluxcd.io/v2", kind: "HelmRelease", metadata: of },
    spec: { interval: "1h", chartRef: { kind: "HelmChart", name: "shop" } },
  });
  await becomes(async () => (await desk.find(installed))?.data, { color: "red" });
  const secrets = () => desk.type("kubectl get secrets -l owner=helm,name=shop -n shop -o name");
  await becomes(async () => (await secrets()).trim(), "secret/sh.helm.release.v1.shop.v1");

  await desk.type(suspend);
  expect((await desk.find(releasePath))?.spec).toMatchObject({ suspend: true });

  await desk.type(block);
  expect(await desk.find(releasePath)).toBeUndefined();
  expect((await desk.find(installed))?.data).toEqual({ color: "red" });
  expect((await secrets()).trim()).toBe("");
}

const digestOf = (bytes: Buffer) => `sha256:${createHash("sha256").update(bytes).digest("hex")}`;

/** Returns a URL that serves the archive as it is at the time of each request. */
async function serve(archive: () => Buffer, name: string): Promise<string> {
  const server = createServer((_, res) => res.end(archive())).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/${name}`;
}

interface Source {
  /** Publishes a new revision and notifies Flux at once. */
  publish(files: Readonly<Record<string, string>>): Promise<void>;
  /** Sets a new revision, which Flux finds at its next reconciliation. */
  next(files: Readonly<Record<string, string>>): void;
}

/**
 * Starts Flux's controllers. The source-controller cannot be built from modules, so its statuses and archives are
 * simulated.
 */
async function useFlux(desk: ForeignDesk): Promise<Source> {
  const anything = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
  const file = join(desk.dir, "sources.json");
  const items = ["GitRepository", "OCIRepository", "Bucket", "ExternalArtifact", "HelmChart", "HelmRepository"].map(
    (kind) => {
      const plural = kind.toLowerCase().replace(/y$/, "ie");
      return definition("source.toolkit.fluxcd.io", "v1", kind, `${plural}s`, anything);
    },
  );
  await writeFile(file, JSON.stringify({ apiVersion: "v1", kind: "List", items }));
  await desk.define(file);
  await desk.type("kubectl create namespace flux-system; kubectl create namespace shop");
  const spec = { interval: "1h", url: "https://git.example.com/shop/shop.git", ref: { branch: "main" } };
  await startController(desk, "kustomize-controller");
  await desk.apply({
    ...{ apiVersion: "source.toolkit.fluxcd.io/v1", kind: "GitRepository" },
    ...{ metadata: { name: "shop", namespace: "flux-system" }, spec },
  });

  let archive: Buffer = Buffer.alloc(0);
  const url = await serve(() => archive, "shop.tar.gz");

  async function tell(): Promise<void> {
    const { metadata, status } = (await desk.find<GitRepository>(gitRepository)) ?? { metadata: {} };
    const asked = metadata.annotations?.["reconcile.fluxcd.io/requestedAt"];
    const digest = digestOf(archive);
    if (status?.artifact?.digest === digest && status.lastHandledReconcileAt === asked) return;
    const at = new Date().toISOString().replace(/\.\d+/, "");
    const revision = `main@sha1:${digest.slice(7, 47)}`;
    const ready = { type: "Ready", status: "True", reason: "Succeeded", message: "stored", lastTransitionTime: at };
    const body = {
      status: {
        ...{ observedGeneration: metadata.generation, lastHandledReconcileAt: asked, conditions: [ready] },
        artifact: { url, digest, revision, path: "shop", lastUpdateTime: at },
      },
    };
    await desk.client.request({ method: "PATCH", path: `${gitRepository}/status`, body });
  }

  let waiting: Buffer | undefined;
  const look = setInterval(() => {
    const asked = desk.find<GitRepository>(gitRepository).then(async (found) => {
      const { metadata, status } = found ?? { metadata: {} };
      const at = metadata.annotations?.["reconcile.fluxcd.io/requestedAt"];
      if (at === undefined || status?.lastHandledReconcileAt === at) return;
      archive = waiting ?? archive;
      waiting = undefined;
      await tell();
    });
    asked.catch(() => undefined); // the next request follows soon
  }, 200);
  onTestFinished(() => clearInterval(look));

  const pack = (files: Readonly<Record<string, string>>) => gzipSync(toTar(files));
  return {
    async publish(files) {
      archive = pack(files);
      await tell();
    },
    next: (files) => void (waiting = pack(files)),
  };
}

/** Installs the controller's CRDs and starts it. */
async function startController(desk: ForeignDesk, name: "kustomize-controller" | "helm-controller"): Promise<void> {
  const program = desk.tools[name] ?? "";
  await desk.define(join(dirname(program), "config/crd/bases"));
  const [metrics, health] = [await freePort(), await freePort()];
  const args = [`--metrics-addr=127.0.0.1:${metrics}`, `--health-addr=127.0.0.1:${health}`, "--events-addr="];
  await desk.start(name, program, args, { RUNTIME_NAMESPACE: "flux-system" });
}

interface GitRepository {
  readonly metadata: { readonly generation?: number; readonly annotations?: Record<string, string> };
  readonly status?: { readonly lastHandledReconcileAt?: string; readonly artifact?: { readonly digest: string } };
}
