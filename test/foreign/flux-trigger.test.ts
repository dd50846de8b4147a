/** Towline beside Flux: its own source-controller and kustomize-controller, and the webhooks of a real Gitea. */
import { expect, test } from "vitest";
import { stringify } from "yaml";
import { installCustomResource } from "../../dev/custom-resource.ts";
import { installDefinitions } from "../../dev/parts/definitions.ts";
import { fluxNamespace } from "../../dev/parts/flux.ts";
import type { FileChanges } from "../../dev/parts/work-copy.ts";
import type { Receipt } from "../../src/model.ts";
import {
  aGitRepository,
  aKustomization,
  type FluxResource,
  fluxTools,
  isFetched,
  pathOf,
  requestedAt,
  useFlux,
} from "../support/flux-controllers.ts";
import { becomes, type ForeignDesk, useForeignDesk } from "../support/foreign-desk.ts";
import { legacyDefinition, olderDeployment } from "../support/older-api.ts";
import { patience } from "../support/patience.ts";
import { aProject } from "../support/project.ts";
import { sendPush, type Towline, useTowlineProcess } from "../support/towline.ts";
import { type TestForge, type TestWorld, useGitea, useWorld } from "../support/world.ts";
import { type TestResource, useNamespace } from "../support/world-cluster.ts";

/** The namespace of the KluctlDeployments. */
const namespace = "deployments";
const main = "refs/heads/main";

test("a push is applied by Flux at once: by its webhook, or by the sweep if no webhook arrived", async () => {
  const { desk, world, gitea, repo, colorBecomes } = await useBeside(filesOf("red"));
  const server = await useServer(world);
  await gitea.registerWebhook(repo, { url: server.webhooksUrl, secret: server.webhookSecret });

  // No GitRepository follows this branch.
  await repo.push(filesOf("grey"), { branch: "feature" });
  await expect.poll(() => pushesTo(server, "refs/heads/feature"), patience).toMatchObject([{ fluxSources: 0 }]);

  const commit = await repo.push(filesOf("blue"));
  await colorBecomes("blue");
  expect(pushesTo(server, main)).toMatchObject([{ fluxSources: 1 }]);
  expect(requestsOf(server)).toMatchObject([{ namespace: fluxNamespace, name: "shop", cause: "push" }]);
  const { metadata, status } = await read(desk);
  expect(status?.artifact?.revision).toBe(`main@sha1:${commit}`);
  expect(status?.lastHandledReconcileAt).toBe(metadata.annotations?.[requestedAt]);
  expect(metadata.generation).toBe(1);

  // Flux has what a repeated delivery reports.
  const [before, requests] = [await requestOf(desk), requestsOf(server).length];
  const repeated = await sendPush(server.webhooksUrl, { repo: repo.url, after: commit });
  expect(((await repeated.json()) as Receipt).flux).toMatchObject({ matched: 1 });
  await repo.push(filesOf("green"));
  await colorBecomes("green");
  expect(await requestOf(desk)).not.toBe(before);
  expect(requestsOf(server).length - requests).toBe(1);

  // The webhook of this push is lost, and so is everything in Redis.
  await server.stop();
  const answered = await requestOf(desk);
  const lost = await repo.push(filesOf("yellow"));
  const next = await useServer(world, {
    ...{ TOWLINE_SWEEP_INTERVAL: "5s", TOWLINE_REDIS_PREFIX: `${world.redis.prefix}-next` },
  });
  await colorBecomes("yellow");
  await isFetched(desk, "shop", lost);
  expect(requestsOf(next)).toMatchObject([{ namespace: fluxNamespace, name: "shop", cause: "sweep" }]);
  expect(await requestOf(desk)).not.toBe(answered);
});

test("a legacy KluctlDeployment follows a GitRepository that Flux fetches, and both deploy what is pushed", async () => {
  const { desk, world, gitea, repo, colorBecomes } = await useBeside({ ...filesOf("red"), ...legacyProject("red") });
  const { cluster } = world;
  await installDefinitions(desk.client, [legacyDefinition]);
  const server = await useServer(world);
  await gitea.registerWebhook(repo, { url: server.webhooksUrl, secret: server.webhookSecret });
  const sourceRef = { kind: "GitRepository", name: "shop", namespace: fluxNamespace };
  const spec = { interval: "1h", deployInterval: "never", path: "kluctl", sourceRef, target: "prod", args: null };
  const renameContexts = [{ oldContext: "default", newContext: "prod" }];
  await cluster.create(olderDeployment("shop", { ...spec, renameContexts }));
  await becomes(() => cluster.data("settings"), { color: "red" });

  const commit = await repo.push({ ...filesOf("blue"), ...legacyProject("blue") });

  await Promise.all([colorBecomes("blue"), becomes(() => cluster.data("settings"), { color: "blue" })]);
  await isFetched(desk, "shop", commit);
  const attempted = async () => {
    const found = await cluster.find<TestResource>("flux.kluctl.io/v1alpha1", "KluctlDeployment", "shop");
    return found?.status?.["lastAttemptedRevision"];
  };
  await becomes(attempted, `${main}/${commit}`);
  expect(requestsOf(server)).toMatchObject([{ cause: "push" }]);
});

interface Beside {
  readonly desk: ForeignDesk;
  readonly world: TestWorld;
  readonly gitea: TestForge;
  readonly repo: Awaited<ReturnType<TestForge["repo"]>>;
  /** Waits until Flux has applied this color. */
  colorBecomes(color: string): Promise<void>;
}

/** Flux in an API server of the test's own, with a GitRepository whose files it has applied. */
async function useBeside(files: FileChanges): Promise<Beside> {
  const desk = await useForeignDesk(fluxTools);
  await installCustomResource(desk.kubeconfig);
  const [gitea] = await Promise.all([useGitea(), useFlux(desk)]);
  const world = await useWorld(await useNamespace(desk.kubeconfig, namespace, true));
  const repo = await gitea.repo("shop");
  await repo.push(files);
  await desk.apply(
    { apiVersion: "v1", kind: "Namespace", metadata: { name: "shop" } },
    aGitRepository({ name: "shop", url: repo.url }),
    aKustomization({ name: "shop", prune: true }),
  );
  const data = async () => (await desk.find("/api/v1/namespaces/shop/configmaps/settings"))?.data;
  const colorBecomes = (color: string) => becomes(data, { color });
  await colorBecomes("red");
  return { desk, world, gitea, repo, colorBecomes };
}

/** Resolves when the server knows Flux's GitRepositories. */
async function useServer(world: TestWorld, extra: Record<string, string> = {}): Promise<Towline> {
  const server = await useTowlineProcess(world, {
    TOWLINE_FLUX_TRIGGER: "true",
    TOWLINE_KUBERNETES_NAMESPACES: `${namespace},${fluxNamespace}`,
    TOWLINE_SWEEP_INTERVAL: "1h",
    ...extra,
  });
  await expect.poll(async () => (await fetch(`${server.adminUrl}/readyz`)).ok, patience).toBe(true);
  return server;
}

/** The files that Flux applies. */
function filesOf(color: string): FileChanges {
  return {
    "base/settings.yaml": stringify({
      ...{ apiVersion: "v1", kind: "ConfigMap" },
      ...{ metadata: { name: "settings", namespace: "shop" }, data: { color } },
    }),
  };
}

function legacyProject(color: string): FileChanges {
  const files = Object.entries(aProject({ namespace, data: { color } }));
  return Object.fromEntries(files.map(([path, text]) => [`kluctl/${path}`, text]));
}

async function read(desk: ForeignDesk): Promise<FluxResource> {
  return (await desk.find<FluxResource>(pathOf("GitRepository", "shop")))!;
}

async function requestOf(desk: ForeignDesk): Promise<string | undefined> {
  return (await read(desk)).metadata.annotations?.[requestedAt];
}

function pushesTo({ lines }: Towline, ref: string) {
  return lines.filter((line) => line.msg === "push accepted" && line["ref"] === ref);
}

function requestsOf({ lines }: Towline) {
  return lines.filter(({ msg }) => msg === "requested a fetch by Flux");
}
