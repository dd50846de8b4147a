/** A different cluster from that of the KluctlDeployments: an API server of this test. */
import { readFile } from "node:fs/promises";
import type { KubernetesObject } from "@kubernetes/client-node";
import { onTestFinished } from "vitest";
import { apiServerTools, startApiServer } from "../../dev/parts/control-plane.ts";
import { findTools } from "../../dev/tools.ts";
import { useTempDir, uniqueName } from "./world.ts";
import { type TestCluster, useNamespace } from "./world-cluster.ts";

export interface TestRemoteCluster extends TestCluster {
  /** The id by which kluctl identifies the cluster. */
  readonly id: string;
  /** Kubeconfig of an administrator. */
  readonly kubeconfigText: string;
}

export async function useRemoteCluster(): Promise<TestRemoteCluster> {
  const stateDir = await useTempDir();
  const tools = await findTools(apiServerTools, { say: () => undefined });
  const { kubeconfig, stop } = await startApiServer({ tools, stateDir });
  onTestFinished(stop);
  const cluster = await useNamespace(kubeconfig, uniqueName("remote"), true);
  const system = await cluster.core.readNamespace({ name: "kube-system" });
  return { ...cluster, id: system.metadata?.uid ?? "", kubeconfigText: await readFile(kubeconfig, "utf8") };
}

/** Creates a Secret in the test's namespace. */
export async function createSecret(
  cluster: TestCluster,
  name: string,
  stringData: Record<string, string>,
): Promise<void> {
  await cluster.create({ apiVersion: "v1", kind: "Secret", metadata: { name }, stringData } as KubernetesObject);
}
