import { execFile } from "node:child_process";
import { cp, mkdir, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import type { V1Deployment } from "@kubernetes/client-node";
import { expect, onTestFinished, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { cacheDir } from "../../dev/cache.ts";
import { createKubeClient } from "../../src/kube/client.ts";
import { parseDeployment } from "../../src/apis/kluctl/custom-resource.ts";
import { isMalformed } from "../../src/model.ts";
import { fingerprint } from "../../src/source/fingerprint.ts";
import { deploymentsPath, installCrd } from "../support/kube.ts";
import { uniqueName, useCluster, useGitServer, useKluctl, useTempDir } from "../support/world.ts";

const run = promisify(execFile);
const examples = join(import.meta.dirname, "../../examples");

interface Result {
  compactedObjects?: { ref: { kind: string; name: string; namespace?: string }; new?: boolean; changes?: unknown[] }[];
  errors?: unknown[];
  warnings?: unknown[];
}

interface Example {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace?: string };
}

/** A clone of the shop, and kluctl as a user would run it there. */
async function useShop(kubeconfig: string) {
  const [kluctl, git, dir] = await Promise.all([useKluctl(), useGitServer(), useTempDir()]);
  const repo = await git.repo("shop");
  await cp(join(examples, "shop"), repo.dir, { recursive: true });
  await repo.push({}, { message: "The shop" });
  const temp = join(cacheDir(), "kluctl-examples"); // keeps kluctl's Python between runs
  await mkdir(temp, { recursive: true });
  const env = {
    PATH: process.env["PATH"],
    HOME: dir,
    TMPDIR: temp,
    KLUCTL_CACHE_DIR: temp,
    KUBECONFIG: kubeconfig,
  };
  const call = async (...args: string[]): Promise<string> => {
    const common = ["--no-update-check", "--no-color", "--project-dir", repo.dir];
    const { stdout } = await run(kluctl, [...args, ...common], { env, maxBuffer: 64 << 20 });
    return stdout;
  };
  return {
    repo,
    render: (target: string, ...args: string[]) =>
      call("render", "-t", target, "--print-all", "--offline-kubernetes", ...args),
    diff: async (target: string, ...args: string[]) =>
      parse(await call("diff", "-t", target, "-o", "yaml", ...args)) as Result,
    deploy: async (target: string, ...args: string[]) => {
      const options = ["--yes", "--prune", "--write-command-result=false", "-o", "yaml"];
      return parse(await call("deploy", "-t", target, ...options, ...args)) as Result;
    },
    validate: (target: string, ...args: string[]) => call("validate", "-t", target, "--wait", "60s", ...args),
  };
}

test("the shop is deployed, becomes ready, and a new image tag changes one object", async () => {
  const cluster = await useCluster();
  const shop = await useShop(cluster.kubeconfig);

  for (const [target, replicas] of [
    ["staging", 1],
    ["prod", 3],
  ] as const) {
    const environment = uniqueName(target);
    const namespace = `shop-${environment}`;
    const copy = ["-a", `environment=${environment}`];
    onTestFinished(async () => {
      await cluster.core.deleteNamespace({ name: namespace, gracePeriodSeconds: 0 });
    });
    const frontend = async () => {
      const metadata = { name: "frontend", namespace };
      return (await cluster.objects.read({ apiVersion: "apps/v1", kind: "Deployment", metadata })) as V1Deployment;
    };

    const asPushed = await fingerprint(shop.repo.dir);
    const first = await shop.deploy(target, ...copy);
    expect(first.errors ?? []).toEqual([]);
    expect(first.warnings ?? []).toEqual([]);
    expect(first.compactedObjects?.filter((object) => object.new)).toHaveLength(9);
    await shop.validate(target, ...copy);
    expect((await frontend()).status?.readyReplicas).toBe(replicas);
    expect(await fingerprint(shop.repo.dir), "what kluctl has left of the project").toBe(asPushed);

    const versions = await readFile(join(examples, "shop/versions.yaml"), "utf8");
    await shop.repo.push({ "versions.yaml": versions.replace("frontend: 1.4.2", "frontend: 1.5.0") });
    const second = await shop.deploy(target, ...copy);
    const changed = second.compactedObjects?.filter((object) => object.changes?.length);
    expect(changed?.map(({ ref }) => `${ref.kind} ${ref.name}`)).toEqual(["Deployment frontend"]);
    expect((await frontend()).spec?.template.spec?.containers[0]?.image).toBe("registry.example/frontend:1.5.0");

    const third = await shop.diff(target, ...copy);
    expect(third.compactedObjects?.filter((object) => object.new || object.changes?.length)).toEqual([]);
    await shop.repo.push({ "versions.yaml": versions });
  }
});

test("the shop renders the same every time, and each target its own objects", async () => {
  const cluster = await useCluster();
  const shop = await useShop(cluster.kubeconfig);

  const [staging, prod, again] = [await shop.render("staging"), await shop.render("prod"), await shop.render("prod")];

  expect(again).toBe(prod);
  expect(staging).toContain("kluctl.io/discriminator: shop-staging");
  expect(prod).toContain("kluctl.io/discriminator: shop-prod");
  expect(staging).not.toContain("prod");
});

test("every example of a KluctlDeployment is valid", async () => {
  const files = (await readdir(join(examples, "deployments"))).filter((file) => file.endsWith(".yaml"));
  const kinds = new Set<string>();
  for (const file of files) {
    const documents = parseAllDocuments(await readFile(join(examples, "deployments", file), "utf8"));
    for (const document of documents) {
      const object = document.toJS() as { kind: string; metadata: object };
      kinds.add(object.kind);
      if (object.kind !== "KluctlDeployment") continue;
      const deployment = parseDeployment({ ...object, metadata: { ...object.metadata, uid: "any" } });
      expect(deployment, file).toBeDefined();
      expect(deployment && isMalformed(deployment) ? deployment.problem : "", file).toBe("");
    }
  }
  expect(kinds).toContain("KluctlDeployment");
});

test("the API server accepts every example", async () => {
  const cluster = await useCluster();
  const files = (await readdir(join(examples, "deployments"))).filter((file) => file.endsWith(".yaml"));
  const { namespace, kubeconfig } = cluster;
  const client = createKubeClient({ kubeconfig });
  onTestFinished(() => client.close());
  await installCrd(client);

  /** A dry run that leaves nothing behind, and in which a misspelt field is an error. */
  async function take(body: Example): Promise<void> {
    const query = { dryRun: "All", fieldValidation: "Strict" };
    if (body.kind !== "KluctlDeployment") await cluster.objects.create(body, undefined, query.dryRun);
    else await client.request({ method: "POST", path: deploymentsPath(namespace), query, body });
  }

  for (const file of files) {
    for (const document of parseAllDocuments(await readFile(join(examples, "deployments", file), "utf8"))) {
      const object = document.toJS() as Example;
      if (object.metadata.namespace !== undefined) object.metadata.namespace = namespace;
      await expect(
        take(object).then(() => "taken", String),
        file,
      ).resolves.toBe("taken");
    }
  }
});
