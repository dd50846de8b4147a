/** Helpers of the tests of src/kube. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type DestinationStream, pino } from "pino";
import { expect, onTestFinished } from "vitest";
import { createKubeClient, type KubeClient } from "../../src/kube/client.ts";
import { customResourceDefinition } from "../../src/apis/kluctl/crd.ts";
import type { Logger } from "../../src/log.ts";
import { type FaultProxy, useFaultProxy } from "./kube-fault-proxy.ts";
import { patience } from "./patience.ts";
import { useCluster, useTempDir } from "./world.ts";

export interface TestKube {
  readonly namespace: string;
  readonly kubeconfig: string;
  /** Connects to the API server directly. */
  readonly client: KubeClient;
  /** Connects through the proxy. */
  readonly proxied: KubeClient;
  readonly proxy: FaultProxy;
}

/** The shared API server with the CRD, a namespace of this test, and a proxy in front that can inject faults. */
export async function useKube(): Promise<TestKube> {
  const { kubeconfig, namespace } = await useCluster();
  const proxy = await useFaultProxy(kubeconfig);
  const file = join(await useTempDir(), "proxy.kubeconfig");
  await writeFile(file, proxy.kubeconfig);
  const client = createKubeClient({ kubeconfig });
  const proxied = createKubeClient({ kubeconfig: file });
  onTestFinished(() => {
    client.close();
    proxied.close();
  });
  await installCrd(client);
  return { namespace, kubeconfig, client, proxied, proxy };
}

export async function installCrd(client: KubeClient): Promise<void> {
  const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/kluctldeployments.gitops.kluctl.io";
  const query = { fieldManager: "test", force: true };
  await client.request({ method: "PATCH", patch: "apply", path, query, body: customResourceDefinition() });
  const served = () =>
    client.list("/apis/gitops.kluctl.io/v1beta1/kluctldeployments").then(
      () => true,
      () => false,
    );
  await expect.poll(served, patience).toBe(true);
}

/** A valid resource; `spec` replaces single fields. */
export function resource(namespace: string, name: string, spec: object = {}): object {
  return {
    apiVersion: "gitops.kluctl.io/v1beta1",
    kind: "KluctlDeployment",
    metadata: { namespace, name },
    spec: { interval: "5m", source: { git: { url: "https://git.test/org/shop.git" } }, ...spec },
  };
}

export function deploymentsPath(namespace: string, name?: string): string {
  const path = `/apis/gitops.kluctl.io/v1beta1/namespaces/${namespace}/kluctldeployments`;
  return name === undefined ? path : `${path}/${name}`;
}

export interface LogLine {
  readonly level: number;
  readonly msg: string;
  readonly [field: string]: unknown;
}

/** A logger that keeps its lines. */
export function fakeLog(): { log: Logger; lines: LogLine[] } {
  const lines: LogLine[] = [];
  const stream: DestinationStream = { write: (line) => void lines.push(JSON.parse(line) as LogLine) };
  return { log: pino({ level: "debug" }, stream), lines };
}
