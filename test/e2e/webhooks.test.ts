/** Deliveries of each git host through the running server, up to the cluster. */
import type { KubernetesObject, V1Job } from "@kubernetes/client-node";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  type Delivery,
  githubDelivery,
  githubPayload,
  githubSecret,
  gitlabDelivery,
  gitlabPush,
  gitlabToken,
} from "../support/deliveries.ts";
import { mountSecret } from "../support/mounted-secret.ts";
import { aProject, aSpec } from "../support/project.ts";
import { sendPush, type Towline, useTowline } from "../support/towline.ts";
import { useWorld } from "../support/world.ts";
import { idOf, type TestResource } from "../support/world-cluster.ts";
import { patience } from "../support/patience.ts";

function deliver({ webhooksUrl }: Towline, forge: string, { rawHeaders, body }: Delivery): Promise<Response> {
  const headers = Array.from({ length: rawHeaders.length / 2 }, (_, i) => rawHeaders.slice(2 * i, 2 * i + 2));
  return fetch(webhooksUrl.replace(/gitea$/, forge), {
    method: "POST",
    headers: headers as [string, string][],
    body,
  });
}

/** The number of skipped requests, from the server's own metrics. */
async function skipped({ adminUrl }: Towline): Promise<number> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text();
  const lines = text.split("\n").filter((line) => /^towline_reconcile_total\{.*"skipped"/.test(line));
  return lines.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}

async function told({ adminUrl }: Towline, gauge: string): Promise<number> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text();
  return Number(new RegExp(`^${gauge} (\\d+)$`, "m").exec(text)?.[1]);
}

test("a push on GitHub, GitLab and Gitea deploys, and a redelivery does nothing twice", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const repo = await world.repo("shop");
  await repo.push(aProject({ namespace }));
  const mounted = await mountSecret(join(world.dir, "mounted"), { github: githubSecret });
  const towline = await useTowline(world, {
    TOWLINE_GITHUB_WEBHOOK_SECRET_FILE: mounted.path("github"),
    TOWLINE_GITLAB_WEBHOOK_SECRET: gitlabToken,
  });
  const deployment = cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));
  await deployment.reaches("Ready");
  const paint = (color: string) => repo.push(aProject({ namespace, data: { color } }));

  const onGithub = await paint("github");
  const recorded = githubPayload();
  const push = githubDelivery("push", {
    ...recorded,
    ref: "refs/heads/main",
    after: onGithub,
    repository: { ...(recorded["repository"] as object), clone_url: repo.url, default_branch: "main" },
  });
  expect(await (await deliver(towline, "github", push)).json()).toMatchObject({ matched: 1, queued: 1 });
  const deployed = await deployment.settles(onGithub);
  expect(await cluster.data("settings")).toEqual({ color: "github" });

  const before = await skipped(towline);
  const again = await deliver(towline, "github", push);
  expect(again.status).toBe(202);
  expect(await again.json()).toMatchObject({ matched: 1 });
  await expect.poll(() => skipped(towline), patience).toBeGreaterThan(before);
  const after = (await deployment.get()) as TestResource;
  expect(idOf(after, "lastDeployResult")).toBe(idOf(deployed, "lastDeployResult"));
  expect(after.metadata?.resourceVersion).toBe(deployed.metadata?.resourceVersion);

  const onGitlab = await paint("gitlab");
  const project = { ...(gitlabPush()["project"] as object), git_http_url: repo.url };
  const answer = await deliver(towline, "gitlab", gitlabDelivery(gitlabPush({ after: onGitlab, project })));
  expect(await answer.json()).toMatchObject({ matched: 1, queued: 1 });
  await deployment.settles(onGitlab);
  expect(await cluster.data("settings")).toEqual({ color: "gitlab" });

  const onGitea = await paint("gitea");
  await sendPush(towline.webhooksUrl, { repo: repo.url, after: onGitea });
  await deployment.settles(onGitea);
  expect(await cluster.data("settings")).toEqual({ color: "gitea" });

  const forged = await deliver(towline, "gitlab", { ...push, name: "forged" });
  expect(forged.status).toBe(401);

  const rotated = "another-secret-for-github";
  const byNewSecret = githubDelivery("ping", { zen: "Design for failure." }, rotated);
  expect((await deliver(towline, "github", byNewSecret)).status).toBe(401);
  await mounted.put({ github: "short" });
  await expect.poll(() => told(towline, "towline_config_reload_success"), patience).toBe(0);
  expect((await deliver(towline, "github", push)).status, "the last good one stays").toBe(202);
  await mounted.put({ github: rotated });
  await expect.poll(async () => (await deliver(towline, "github", byNewSecret)).status, patience).toBe(202);
  expect((await deliver(towline, "github", push)).status).toBe(401);
  await expect.poll(() => told(towline, "towline_config_reload_success"), patience).toBe(1);
  expect(JSON.stringify(towline.lines)).not.toContain(rotated);
});

test("a push that arrives during a deploy is deployed right after it", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const job = { apiVersion: "batch/v1", kind: "Job", metadata: { name: "gate", namespace } };
  const gate = {
    ...job,
    metadata: { ...job.metadata, annotations: { "kluctl.io/hook": "pre-deploy" } },
    spec: {
      suspend: true,
      template: { spec: { containers: [{ name: "gate", image: "gate" }], restartPolicy: "Never" } },
    },
  };
  const repo = await world.repo("shop");
  await repo.push(aProject({ namespace }));
  const towline = await useTowline(world);
  const deployment = cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));
  await deployment.reaches("Ready");
  const push = async (after: string) => (await sendPush(towline.webhooksUrl, { repo: repo.url, after })).json();

  const slow = await repo.push(aProject({ namespace, data: { color: "slow" }, objects: { "gate.yml": gate } }));
  expect(await push(slow)).toMatchObject({ queued: 1 });
  await expect.poll(() => cluster.find<KubernetesObject & V1Job>("batch/v1", "Job", "gate"), patience).toBeDefined();

  const next = await repo.push({ ...aProject({ namespace, data: { color: "next" } }), "app/gate.yml": undefined });
  expect(await push(next)).toMatchObject({ queued: 1 });
  const last = await repo.push(aProject({ namespace, data: { color: "last" } }));
  expect(await push(last)).toMatchObject({ matched: 1 });
  expect(await cluster.data("settings")).toEqual({ color: "red" });
  await cluster.patch({ ...job, spec: { suspend: false } } as object);

  const settled = await deployment.settles(last);
  expect(await cluster.data("settings")).toEqual({ color: "last" });
  expect(settled.status).toMatchObject({ lastDeployResult: { gitInfo: { commit: last } } });
  const commits = towline.lines.filter(({ msg }) => msg === "deployed").map((line) => line["commit"]);
  expect(commits.slice(1)).toEqual([slow, last]);
});
