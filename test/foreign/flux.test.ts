/** The migration guide for Flux, with the real `flux` and Flux's own controllers. */
import { readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { stringify } from "yaml";
import type { FileChanges } from "../../dev/parts/work-copy.ts";
import { documentedBlocks, root } from "../support/documented-commands.ts";
import {
  aGitRepository,
  aKustomization,
  fluxTools,
  isApplied,
  isFetched,
  pathOf,
  useFlux,
  useHelmController,
} from "../support/flux-controllers.ts";
import { becomes, type ForeignDesk, runDocumented, useForeignDesk } from "../support/foreign-desk.ts";
import { type TestRepository, useGitServer } from "../support/world.ts";

const page = "docs/migrate-from-flux.md";
const kustomization = pathOf("Kustomization", "shop");
const settings = "/api/v1/namespaces/shop/configmaps/settings";

const configMap = (color: string) =>
  stringify({
    ...{ apiVersion: "v1", kind: "ConfigMap" },
    ...{ metadata: { name: "settings", namespace: "shop" }, data: { color } },
  });

const chart = {
  "chart/Chart.yaml": stringify({ apiVersion: "v2", name: "shop", version: "0.1.0" }),
  "chart/templates/it.yaml": stringify({
    ...{ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "from-helm" } },
    data: { color: "red" },
  }),
};

test("the guide for Flux: each command does what the page says, and no object is deleted", async () => {
  const desk = await useForeignDesk(["flux", ...fluxTools, "helm-controller"]);
  const repo = await useSource(desk, { "base/settings.yaml": configMap("red"), ...chart });
  await desk.apply(aKustomization({ name: "shop", prune: true }));
  await isApplied(desk, "shop");
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
      await repo.push({ "base/settings.yaml": configMap("blue") });
      await desk.type(command.replace("NAME", "shop"));
      expect((await desk.find(settings))?.data).toEqual({ color: "blue" });
      await repo.push({ "base/settings.yaml": configMap("red") });
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
      await desk.apply(aKustomization({ name: "shop", prune: false }));
      await isApplied(desk, "shop");
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
  const desk = await useForeignDesk(["flux", ...fluxTools]);
  await useSource(desk, { "base/settings.yaml": configMap("red") });
  await desk.apply(aKustomization({ name: "shop", prune: true }));
  await becomes(async () => (await desk.find(settings))?.data, { color: "red" });

  await desk.type("kubectl delete kustomizations.kustomize.toolkit.fluxcd.io -n flux-system shop --timeout 60s");

  await becomes(() => desk.find(settings), undefined);
});

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

/** A suspended HelmRelease is deleted while what it installed stays, as does the HelmChart that Flux created for it. */
async function leavesTheRelease(desk: ForeignDesk, suspend: string, block: string): Promise<void> {
  const installed = "/api/v1/namespaces/shop/configmaps/from-helm";
  const releasePath = "/apis/helm.toolkit.fluxcd.io/v2/namespaces/shop/helmreleases/shop";
  await useHelmController(desk);
  const sourceRef = { kind: "GitRepository", name: "shop", namespace: "flux-system" };
  await desk.apply({
    ...{ apiVersion: "helm.toolkit.fluxcd.io/v2", kind: "HelmRelease", metadata: { namespace: "shop", name: "shop" } },
    spec: { interval: "1h", chart: { spec: { chart: "./chart", sourceRef } } },
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
  expect(await desk.type("kubectl get helmcharts.source.toolkit.fluxcd.io -n flux-system -o name")).toContain(
    "shop-shop",
  );
}

/** Starts Flux's controllers with a GitRepository that has fetched these files. */
async function useSource(desk: ForeignDesk, files: FileChanges): Promise<TestRepository> {
  const [git] = await Promise.all([useGitServer(), useFlux(desk)]);
  await desk.type("kubectl create namespace shop");
  const repo = await git.repo("shop");
  const commit = await repo.push(files);
  await desk.apply(aGitRepository({ name: "shop", url: repo.url }));
  await isFetched(desk, "shop", commit);
  return repo;
}
