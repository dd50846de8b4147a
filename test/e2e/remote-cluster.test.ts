/**
 * Deploying to another cluster, with its kubeconfig in a Secret: objects go to the other cluster, status and results
 * stay here.
 */
import { expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { aProject, aSpec } from "../support/project.ts";
import { usePullRequests } from "../support/pull-requests.ts";
import { createSecret, useRemoteCluster } from "../support/remote-cluster.ts";
import { useWorld } from "../support/world.ts";
import { conditionOf } from "../support/world-cluster.ts";
import { patience } from "../support/patience.ts";

interface Kubeconfig {
  users: { name: string; user: Record<string, unknown> }[];
  contexts: { name: string; context: { cluster: string; user: string } }[];
  "current-context": string;
}

test("a kubeconfig in a Secret selects another cluster for all operations of a deployment", async () => {
  const [world, remote] = await Promise.all([useWorld(), useRemoteCluster()]);
  const { cluster } = world;
  const { namespace } = remote;
  // With the accounts of the deployments, or with the login of their kubeconfig.
  const pulls = await usePullRequests(world, { TOWLINE_PREVIEW_SERVICE_ACCOUNT_NAME: "" });
  const { repo } = pulls;
  const project = (data: Record<string, string>) => aProject({ namespace, name: "{{ args.name }}", data });
  await repo.push(project({ color: "red" }));

  const admin = parse(remote.kubeconfigText) as Kubeconfig;
  const [context] = admin.contexts;
  const elsewhere = { name: "elsewhere", context: { cluster: "nowhere", user: "nobody" } };
  const several = stringify({ ...admin, contexts: [elsewhere, context] });
  const running = stringify({
    ...admin,
    users: admin.users.map(({ name }) => ({ name, user: { exec: { apiVersion: "v1", command: "touch" } } })),
  });
  await createSecret(cluster, "remote", { value: several });
  await createSecret(cluster, "remote-yaml", { "value.yaml": remote.kubeconfigText, running });

  const spec = (name: string, kubeConfig: object, more: object = {}) =>
    aSpec(repo.url, { args: { name }, kubeConfig: { secretRef: kubeConfig }, context: "default", ...more });
  const names = ["all", "limited", "running", "missing", "keyless"];
  const [all, limited, unsafe, missing, keyless] = names.map((name) => cluster.deployment(name));
  await all!.create({ ...spec("all", { name: "remote" }), delete: true, prune: true, validate: true });
  await limited!.create(spec("limited", { name: "remote-yaml" }, { serviceAccountName: "limited", delete: true }));
  await unsafe!.create(spec("unsafe", { name: "remote-yaml", key: "running" }));
  await missing!.create(spec("missing", { name: "gone" }));
  await keyless!.create(spec("keyless", { name: "remote", key: "other" }));

  const done = await all!.reaches("Ready");
  expect(await remote.data("all")).toEqual({ color: "red" });
  expect(await cluster.core.listNamespace({ fieldSelector: `metadata.name=${namespace}` })).toMatchObject({
    items: [],
  });
  const here = (await cluster.core.readNamespace({ name: "kube-system" })).metadata?.uid;
  expect(here).not.toBe(remote.id);
  expect(done.status).toMatchObject({
    targetKey: { targetName: "prod", clusterId: remote.id },
    lastDeployResult: {
      targetKey: { clusterId: remote.id },
      clusterInfo: { clusterId: remote.id },
      kluctlDeployment: { name: "all", clusterId: here },
    },
    lastValidateResult: { ready: true, targetKey: { clusterId: remote.id } },
  });
  const results = { namespace: "kluctl-results", labelSelector: `kluctl.io/command-result-id` };
  const stored = await cluster.core.listNamespacedSecret(results);
  const { id } = (done.status as { lastDeployResult: { id: string } }).lastDeployResult;
  expect(stored.items.map(({ metadata }) => metadata?.labels?.["kluctl.io/command-result-id"])).toContain(id);
  const none = await remote.core.listNamespacedSecret({ ...results, labelSelector: undefined });
  expect(none.items).toEqual([]);

  const problems = await Promise.all(
    [unsafe!, missing!, keyless!].map(async (one) => String((await one.settles()).status?.["lastPrepareError"])),
  );
  const { namespace: ours } = cluster;
  expect(problems).toEqual([
    expect.stringContaining(`KubeConfig secret '${ours}/remote-yaml' cannot be used: its exec would run on the server`),
    `unable to read KubeConfig secret '${ours}/gone' error: secrets "gone" not found`,
    `KubeConfig secret '${ours}/remote' does not contain a 'other' key with a kubeconfig`,
  ]);

  const refused = await limited!.settles();
  expect(JSON.stringify(refused.status)).toContain(`system:serviceaccount:${ours}:limited`);
  expect(await remote.data("limited")).toBeUndefined();
  await remote.objects.create({
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "ClusterRoleBinding",
    metadata: { name: "limited" },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "cluster-admin" },
    subjects: [{ kind: "ServiceAccount", name: "limited", namespace: ours }],
  } as object);
  await limited!.patch({ metadata: { annotations: { "kluctl.io/request-reconcile": "now" } } });
  await limited!.reaches("Ready");
  expect(await remote.data("limited")).toEqual({ color: "red" });

  // Creating a token requires the account to exist, unlike impersonation.
  const place = { name: "limited", namespace: ours };
  await remote.core.createNamespace({ body: { metadata: { name: ours } } });
  await remote.core.createNamespacedServiceAccount({ namespace: ours, body: { metadata: place } });
  const pull = await pulls.open(project({ color: "blue" }));
  const comment = await pull.comment("took");
  expect(comment).toMatch(/- +red\n\+ +blue/);
  expect(comment).toContain(remote.id.slice(0, 8));
  expect(comment).not.toContain("could not be compared");
  expect(await remote.data("all")).toEqual({ color: "red" });

  await Promise.all([all!.delete(), limited!.delete()]);
  for (const one of [all!, limited!]) await expect.poll(() => one.get(), patience).toBeUndefined();
  expect(await remote.data("all")).toBeUndefined();
  expect(await remote.data("limited")).toBeUndefined();
  expect(conditionOf(refused, "Ready")?.status).toBe("False");
});
