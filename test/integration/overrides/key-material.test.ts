/** The service's keys in a real cluster: shared with kluctl's own controller, whichever of the two created them. */
import type { V1ConfigMap, V1Secret } from "@kubernetes/client-node";
import { expect, onTestFinished, test, vi } from "vitest";
import { freePort } from "../../../dev/parts/port.ts";
import { createKubeClient } from "../../../src/kube/client.ts";
import { loadKeyMaterial } from "../../../src/kube/key-material.ts";
import { createKeyMaterial, problemOf } from "../../../src/overrides/key-material.ts";
import { defaultLimits } from "../../../src/overrides/limits.ts";
import { askReplica } from "../../../src/overrides/proxy-client.ts";
import { loadGrpc } from "../../../src/overrides/service.ts";
import { silentLog } from "../../support/fakes.ts";
import { useController } from "../../support/kluctl-controller.ts";
import { useOverrideClient } from "../../support/override-client.ts";
import { useWorld } from "../../support/world.ts";
import { type TestCluster } from "../../support/world-cluster.ts";
import { patience } from "../../support/patience.ts";

const secretName = "kluctl-source-override-secret";
const configMapName = "kluctl-source-override-ca";

function useMaterial({ kubeconfig, namespace }: TestCluster) {
  const client = createKubeClient({ kubeconfig });
  onTestFinished(() => client.close());
  const make = vi.fn(() => createKeyMaterial(new Date()));
  const load = () =>
    loadKeyMaterial({
      client,
      namespace,
      fieldManager: "kluctl-controller",
      make,
      problemOf: (material) => problemOf(material, new Date()),
      log: silentLog,
    });
  return { load, made: () => make.mock.calls.length };
}

function usePublished(cluster: TestCluster) {
  const secret = () => cluster.find<V1Secret>("v1", "Secret", secretName);
  const ca = async () => (await cluster.find<V1ConfigMap>("v1", "ConfigMap", configMapName))?.data?.["ca.pem"];
  return { secret, ca };
}

test("keys are created once, published, kept while they are valid, and replaced when they are not", async () => {
  const { cluster } = await useWorld();
  const { load } = useMaterial(cluster);
  const { secret, ca } = usePublished(cluster);
  // Two replicas start concurrently.
  const [one, two] = await Promise.all([load(), load()]);
  expect(two).toEqual(one);
  expect(await ca()).toBe(one.ca);
  expect(await load()).toEqual(one);

  await cluster.patch({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: configMapName },
    data: { "ca.pem": "old" },
  } as V1ConfigMap);
  expect(await load()).toEqual(one);
  expect(await ca()).toBe(one.ca);

  const nothing = Buffer.from("nothing").toString("base64");
  await cluster.patch({
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: secretName },
    data: { "tls.key": nothing },
  } as V1Secret);
  const renewed = await load();
  expect(renewed.key).not.toBe(one.key);
  expect(await ca()).toBe(renewed.ca);
  expect(Object.keys((await secret())?.data ?? {}).toSorted()).toEqual([
    "ca.pem",
    "controllerSecret",
    "tls.crt",
    "tls.key",
  ]);
});

test("kluctl's controller serves with our keys, and we serve with its keys", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { load, made } = useMaterial(cluster);
  const { secret, ca } = usePublished(cluster);
  const grpc = await loadGrpc();

  /** Starts kluctl's controller, and connects to it as one of our replicas and as a command line. */
  async function meet(): Promise<void> {
    const port = await freePort();
    const stop = useController(world, { "source-override-bind-address": `localhost:${port}` });
    await expect.poll(ca, patience).toBeDefined();
    const material = await load();
    expect(await ca()).toBe(material.ca);
    const artifact = Buffer.from("some bytes");
    const client = await vi.waitFor(async () => {
      const connecting = await useOverrideClient({ port, ca: material.cert, answer: () => ({ artifact }) });
      await connecting.accepted;
      return connecting;
    }, patience);
    const question = { address: `localhost:${port}`, client: client.id, repoKey: "git://host/org/shop" };
    const signal = new AbortController().signal;
    expect(await askReplica(grpc, material, question, defaultLimits, signal)).toEqual({ artifact });
    expect(client.asked).toEqual(["git://host/org/shop"]);
    client.leave();
    await stop();
  }

  await load();
  await meet();
  expect(made()).toBe(1);
  await cluster.delete({ apiVersion: "v1", kind: "Secret", metadata: { name: secretName } });
  await cluster.delete({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: configMapName } });
  await meet();
  expect(made()).toBe(1);
  expect(Buffer.from((await secret())?.data?.["tls.key"] ?? "", "base64").toString()).toContain("RSA PRIVATE KEY");
});
