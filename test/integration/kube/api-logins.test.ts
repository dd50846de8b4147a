/** Which user the API server sees when a preview's deployment has a kubeconfig of its own. */
import { readFile } from "node:fs/promises";
import { type KubernetesObject } from "@kubernetes/client-node";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { createApiLogins } from "../../../src/kube/api-logins.ts";
import { toRemoteCluster } from "../../../src/kube/remote-cluster.ts";
import type { ApiAccess, Identity } from "../../../src/model.ts";
import { type AuditedCluster, startAuditedCluster } from "../../support/audited-cluster.ts";
import { uniqueName } from "../../support/world.ts";
import { type TestCluster, useNamespace } from "../../support/world-cluster.ts";

let audited: AuditedCluster;
beforeAll(async () => {
  audited = await startAuditedCluster();
  return () => audited.stop();
});

async function useLogins(allowServerLogin = false) {
  const cluster = await useNamespace(audited.kubeconfig, uniqueName("test"), true);
  await cluster.create({ apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "preview" } } as KubernetesObject);
  const client = { request: () => Promise.reject(new Error("the server's own cluster is not asked")) };
  const kubernetes = { kubeconfig: audited.kubeconfig };
  const logins = createApiLogins({ kubernetes, client, allowServerLogin: () => allowServerLogin });
  onTestFinished(() => logins.close());
  return { cluster, logins, user: `system:serviceaccount:${cluster.namespace}:preview` };
}

/** The kubeconfig in the deployment's Secret, with a changed user. */
async function kubeconfigText(change: (user: Record<string, unknown>) => object = (user) => user): Promise<string> {
  const config = JSON.parse(await readFile(audited.kubeconfig, "utf8")) as {
    users: { user: Record<string, unknown> }[];
  };
  return JSON.stringify({ ...config, users: config.users.map((each) => ({ ...each, user: change(each.user) })) });
}

async function remote(text: string, impersonate?: string): Promise<Pick<Identity, "impersonate" | "cluster">> {
  return { impersonate, cluster: await toRemoteCluster(text, { impersonate, allowUnsafe: false }) };
}

/** The user and the impersonated user of a request to a path that no other request has. */
async function askedAs({ namespace }: TestCluster, access: ApiAccess) {
  const path = `/api/v1/namespaces/${namespace}/configmaps/${uniqueName("who")}`;
  const answer = await access.send({ method: "GET", path, headers: {}, signal: AbortSignal.timeout(60_000) });
  answer.resume();
  const event = (await audited.audit()).find(({ requestURI }) => requestURI === path);
  return { by: event?.user.username, as: event?.impersonatedUser?.username };
}

test("requests for a named account use a token of that account, which the kubeconfig's login creates", async () => {
  const { cluster, logins, user } = await useLogins();
  const access = await logins.login(await remote(await kubeconfigText(), user));
  expect(await askedAs(cluster, access)).toEqual({ by: user, as: undefined });
});

test("without an account, the kubeconfig's login is used, with the impersonation that it sets", async () => {
  const { cluster, logins } = await useLogins();
  const own = await logins.login(await remote(await kubeconfigText()));
  expect(await askedAs(cluster, own)).toEqual({ by: "admin", as: undefined });
  const text = await kubeconfigText((login) => ({ ...login, as: "ann", "as-groups": ["team:shop"] }));
  const acting = await logins.login(await remote(text));
  expect(await askedAs(cluster, acting)).toEqual({ by: "admin", as: "ann" });
  expect(acting.cluster).toBe(own.cluster);
  expect(acting.account).not.toBe(own.account);
});

test("a login that may not create tokens is named, with the missing permission", async () => {
  const { cluster, logins, user } = await useLogins();
  const { namespace, core } = cluster;
  const { status } = await core.createNamespacedServiceAccountToken({
    name: "preview",
    namespace,
    body: { spec: { audiences: [] } },
  });
  const text = await kubeconfigText(() => ({ token: status?.token }));
  const asked = logins.login(await remote(text, user));
  await expect(asked).rejects.toThrow(
    /the login of the deployment's kubeConfig is not allowed to create a token.*serviceaccounts\/token/,
  );
});

test("the server's own login is used only if that is allowed", async () => {
  const { logins } = await useLogins();
  await expect(logins.login({})).rejects.toThrow("needs a service account");
  const { cluster, logins: allowing } = await useLogins(true);
  expect(await askedAs(cluster, await allowing.login({}))).toEqual({ by: "admin", as: undefined });
});
