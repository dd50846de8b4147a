/** Watches of applied objects, against a real API server. */
import { expect, onTestFinished, test, vi } from "vitest";
import { createAppliedObjects, type AppliedObjectsLimits } from "../../../src/kube/applied-objects.ts";
import { createKubeClient } from "../../../src/kube/client.ts";
import type { AppliedChange, AppliedScope } from "../../../src/model.ts";
import { createAccount } from "../../support/accounts.ts";
import { useApiLogin } from "../../support/api-login.ts";
import { fakeLog } from "../../support/kube.ts";
import { patience } from "../../support/patience.ts";
import { uniqueName, useCluster } from "../../support/world.ts";

async function useApplied(limits: Partial<AppliedObjectsLimits> = {}) {
  const cluster = await useCluster();
  const { namespace } = cluster;
  const discriminator = uniqueName("test");
  const changes: AppliedChange[] = [];
  const configMap = (name: string, more: object = {}) => ({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name, labels: { "kluctl.io/discriminator": discriminator } },
    ...more,
  });
  const scope: AppliedScope = {
    kinds: [{ group: "", apiVersion: "v1", kind: "ConfigMap", namespaces: [namespace] }],
  };
  function watchAs(kubeconfig: string) {
    const { log, lines } = fakeLog();
    const client = createKubeClient({ kubeconfig });
    const applied = createAppliedObjects({ client, log, limits });
    applied.onChange((change) => {
      if (change.discriminator === discriminator) changes.push(change);
    });
    onTestFinished(async () => {
      await applied.stop();
      client.close();
    });
    const find = (of: AppliedScope = scope) => applied.find(discriminator, of);
    const found = (of?: AppliedScope) =>
      vi.waitFor(() => {
        const { objects, unknown } = { objects: undefined, unknown: undefined, ...find(of) };
        expect(unknown).toBeUndefined();
        return objects!;
      }, patience);
    return { applied, find, found, lines };
  }
  return { cluster, namespace, changes, configMap, scope, watchAs };
}

test("the versions of objects with a discriminator are known, and changes are reported", async () => {
  const { cluster, namespace, changes, configMap, watchAs } = await useApplied();
  await cluster.create(configMap("one"));
  const { found, find, applied } = watchAs(cluster.kubeconfig);
  const id = `/ConfigMap/${namespace}/one`;
  expect(find()).toEqual({ unknown: "ConfigMap is not watched yet" });
  const first = (await found()).get(id);
  const live = await cluster.find("v1", "ConfigMap", "one");
  expect(first).toEqual({ uid: live?.metadata?.uid, resourceVersion: live?.metadata?.resourceVersion });

  await cluster.patch(configMap("one", { data: { color: "red" } }));
  await vi.waitFor(
    async () => expect((await found()).get(id)?.resourceVersion).not.toBe(first?.resourceVersion),
    patience,
  );
  await cluster.create(configMap("two"));
  await vi.waitFor(async () => expect([...(await found()).keys()]).toHaveLength(2), patience);
  expect(applied.size().watches).toBe(1);
  await cluster.delete(configMap("one"));
  await vi.waitFor(() => expect(changes.at(-1)).toMatchObject({ id, deleted: true }), patience);
  expect([...(await found()).keys()]).toEqual([`/ConfigMap/${namespace}/two`]);
});

test("if the server may not watch, the account that deploys does; if neither may, the log says so", async () => {
  const { cluster, namespace, configMap, scope, watchAs } = await useApplied();
  await createAccount(cluster, "deployer");
  await createAccount(cluster, "stranger", ["namespaces"]);
  const body = { apiVersion: "rbac.authorization.k8s.io/v1", metadata: { name: "act-as" } };
  await cluster.create({
    ...body,
    kind: "Role",
    rules: [{ apiGroups: [""], resources: ["serviceaccounts"], verbs: ["impersonate"] }],
  } as object);
  await cluster.create({ apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "server" } } as object);
  await cluster.create({
    ...body,
    kind: "RoleBinding",
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: "act-as" },
    subjects: [{ kind: "ServiceAccount", name: "server", namespace }],
  } as object);
  await cluster.create(configMap("one"));
  const login = await useApiLogin(cluster, { namespace, name: "server" });
  const { found, find, lines, applied } = watchAs(login.kubeconfig);

  const objects = await found({ ...scope, impersonate: `system:serviceaccount:${namespace}:deployer` });
  expect([...objects.keys()]).toEqual([`/ConfigMap/${namespace}/one`]);
  expect(applied.size().watches).toBe(1);
  const told = () => lines.filter((line) => JSON.stringify(line).includes("objects not watched"));
  expect(told(), "somebody may").toEqual([]);
  await vi.waitFor(
    () => expect(find()).toEqual({ unknown: "the server is not allowed to list and watch /api/v1/configmaps" }),
    patience,
  );
  const kinds = [{ ...scope.kinds[0]!, namespaces: ["default"] }];
  const elsewhere = { kinds, impersonate: `system:serviceaccount:${namespace}:deployer` };
  await vi.waitFor(
    () =>
      expect(find(elsewhere)).toMatchObject({ unknown: expect.stringContaining("is not allowed to list") as string }),
    patience,
  );
  expect(told()).toHaveLength(2); // one for the server's cluster-wide watch, and one for the account in another namespace
  expect(JSON.stringify(lines)).not.toContain("forbidden");
});

test("above the limit no more watches are started, and the log says so once", async () => {
  const { cluster, configMap, scope, watchAs } = await useApplied({ watches: 1 });
  await cluster.create(configMap("one"));
  const { found, find, lines } = watchAs(cluster.kubeconfig);
  await found();
  const more = { kinds: [...scope.kinds, { group: "", apiVersion: "v1", kind: "Secret", namespaces: [] }] };
  await vi.waitFor(() => expect(find(more)).toEqual({ unknown: "more than 1 watches would be needed" }), patience);
  find(more);
  expect(lines.filter((line) => JSON.stringify(line).includes("object watch limit reached"))).toHaveLength(1);
  await found();
});
