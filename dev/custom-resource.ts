import { customResourceDefinition } from "../src/apis/kluctl/crd.ts";
import { createKubeClient } from "../src/kube/client.ts";
import { established, installDefinitions, nameOf } from "./parts/definitions.ts";

const list = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/**
 * Creates the KluctlDeployment CRD unless the cluster has it, and resolves when the cluster accepts KluctlDeployments.
 */
export async function installCustomResource(kubeconfig: string): Promise<void> {
  const client = createKubeClient({ kubeconfig });
  try {
    const definition = customResourceDefinition();
    const known = await client.list(list, { query: { fieldSelector: `metadata.name=${nameOf(definition)}` } });
    await (known.items.length === 0 ? installDefinitions(client, [definition]) : established(client, definition));
  } finally {
    client.close();
  }
}
