import { kluctlApi } from "../../../src/apis/kluctl/api.ts";
import { expect, onTestFinished, test, vi } from "vitest";
import { createDeployments } from "../../../src/apis/deployments.ts";
import { isMalformed } from "../../../src/model.ts";
import { deploymentsPath, fakeLog, resource, useKube } from "../../support/kube.ts";
import { patience } from "../../support/patience.ts";

async function useDeployment() {
  const kube = await useKube();
  const { namespace, client, proxied } = kube;
  const { log, lines } = fakeLog();
  const deployments = createDeployments({ apis: [kluctlApi], client: proxied, controllerName: "towline-test", log });
  onTestFinished(() => deployments.stop());
  const created = (await client.request({
    method: "POST",
    path: deploymentsPath(namespace),
    body: resource(namespace, "shop"),
  })) as { metadata: { uid: string } };
  const key = { namespace, name: "shop" };
  const read = async () => {
    const entry = await deployments.get(key);
    if (entry === undefined || isMalformed(entry)) throw new Error("The deployment is gone or malformed.");
    return entry;
  };
  return { ...kube, deployments, key, ref: { key, uid: created.metadata.uid }, read, lines };
}

test("the status is patched field by field, under our field manager, also if the API server fails at times", async () => {
  const { deployments, ref, read, proxy, client, namespace } = await useDeployment();
  await deployments.patchStatus(ref, { lastObjectsHash: "1", observedCommit: "a", lastPrepareError: "bad" });
  proxy.answer((request) => request.startsWith("PATCH"), { status: 500 }, 3);
  await deployments.patchStatus(ref, { observedCommit: "b", lastPrepareError: null });

  expect((await read()).status).toEqual({ lastObjectsHash: "1", observedCommit: "b", conditions: [] });
  const { metadata } = (await client.request({ method: "GET", path: deploymentsPath(namespace, "shop") })) as {
    metadata: { managedFields: { manager: string; subresource?: string }[] };
  };
  expect(metadata.managedFields).toContainEqual(
    expect.objectContaining({ manager: "towline-test", subresource: "status" }),
  );
});

test("a late status update does not affect a new resource with the same name", async () => {
  const { deployments, ref, read, client, namespace } = await useDeployment();
  await deployments.patchStatus(ref, { observedCommit: "a" });
  await client.request({ method: "DELETE", path: deploymentsPath(namespace, "shop") });
  await client.request({ method: "POST", path: deploymentsPath(namespace), body: resource(namespace, "shop") });

  await expect(deployments.patchStatus(ref, { observedCommit: "b" })).rejects.toMatchObject({ status: 409 });
  expect((await read()).status).toEqual({ conditions: [] });
});

test("a finalizer is added and removed without touching those of others, even during concurrent writes", async () => {
  const { deployments, ref, read, client, namespace, proxy } = await useDeployment();
  const path = deploymentsPath(namespace, "shop");
  await client.request({ method: "PATCH", path, body: { metadata: { finalizers: ["others.test/one"] } } });
  proxy.answer((request) => request.startsWith("PATCH"), { status: 409 }, 2);

  await deployments.setFinalizer(ref, "ours.test/one", true);
  await deployments.setFinalizer(ref, "ours.test/one", true);
  expect((await read()).finalizers).toEqual(["others.test/one", "ours.test/one"]);

  await deployments.setFinalizer({ ...ref, uid: "of-another-with-this-name" }, "ours.test/one", false);
  expect((await read()).finalizers).toContain("ours.test/one");
  await deployments.setFinalizer(ref, "ours.test/one", false);
  expect((await read()).finalizers).toEqual(["others.test/one"]);
  await client.request({ method: "PATCH", path, body: { metadata: { finalizers: null } } });
});

test("removing a finalizer or annotation of a deleted resource is not an error", async () => {
  const { deployments, namespace } = await useDeployment();
  const absent = { namespace, name: "absent" };
  await expect(deployments.get(absent)).resolves.toBeUndefined();
  const gone = { key: absent, uid: "gone" };
  await expect(deployments.setFinalizer(gone, "ours.test/one", true)).resolves.toBeUndefined();
  await expect(deployments.removeAnnotation(gone, "a", "1")).resolves.toBeUndefined();
});

test("an annotation is removed only if its value has not changed", async () => {
  const { deployments, ref, read, client, namespace } = await useDeployment();
  const annotations = { "kluctl.io/request-deploy": "new", keep: "1" };
  await client.request({
    method: "PATCH",
    path: deploymentsPath(namespace, "shop"),
    body: { metadata: { annotations } },
  });

  await deployments.removeAnnotation(ref, "kluctl.io/request-deploy", "old");
  expect((await read()).annotations).toEqual(annotations);
  await deployments.removeAnnotation(ref, "kluctl.io/request-deploy", "new");
  expect((await read()).annotations).toEqual({ keep: "1" });
});

interface EventItem {
  readonly count: number;
  readonly type: string;
  readonly reason: string;
  readonly message: string;
  readonly source: { readonly component: string };
}

test("repeated events are counted, long ones truncated, and failures are logged", async () => {
  const { deployments, read, client, namespace, proxy, lines } = await useDeployment();
  const subject = await read();
  deployments.event(subject, "Normal", "Deployed", "1 changed object.");
  deployments.event(subject, "Normal", "Deployed", "1 changed object.");
  deployments.event(subject, "Normal", "Deployed", "1 changed object.");
  deployments.event(subject, "Warning", "PrepareFailed", "é".repeat(3_000));

  const events = async () => (await client.list(`/api/v1/namespaces/${namespace}/events`)).items as EventItem[];
  await vi.waitFor(async () => expect((await events()).map(({ count }) => count).sort()).toEqual([1, 3]), patience);
  const [deployed] = (await events()).filter(({ reason }) => reason === "Deployed");
  expect(deployed).toMatchObject({
    type: "Normal",
    message: "1 changed object.",
    source: { component: "towline-test" },
  });

  proxy.answer((request) => request.includes("/events"), { status: 403 });
  deployments.event(subject, "Normal", "Deployed", "Another.");
  await vi.waitFor(() => expect(lines.map(({ msg }) => msg)).toContain("could not write an event"), patience);
});
