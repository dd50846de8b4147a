import { setTimeout as delay } from "node:timers/promises";
import { ApiException, ApiextensionsV1Api, KubeConfig, type V1CustomResourceDefinition } from "@kubernetes/client-node";
import { customResourceDefinition } from "../src/kube/crd.ts";

/** Teaches a cluster what a KluctlDeployment is, unless it knows. Resolves when it takes them. */
export async function installCustomResource(kubeconfig: string): Promise<void> {
  const config = new KubeConfig();
  config.loadFromFile(kubeconfig);
  const api = config.makeApiClient(ApiextensionsV1Api);
  const body = customResourceDefinition() as unknown as V1CustomResourceDefinition;
  const name = body.metadata?.name ?? "";
  await api.createCustomResourceDefinition({ body }).catch((error: unknown) => {
    if (!(error instanceof ApiException && error.code === 409)) throw error;
  });
  for (let attempt = 0; attempt < 100; attempt++, await delay(100)) {
    const { status } = await api.readCustomResourceDefinition({ name });
    if (status?.conditions?.some((one) => one.type === "Established" && one.status === "True")) return;
  }
  throw new Error(`The API server did not establish ${name} within 10 s.`);
}
