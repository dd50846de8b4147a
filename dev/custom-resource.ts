import { setTimeout as delay } from "node:timers/promises";
import { createKubeClient } from "../src/kube/client.ts";
import { customResourceDefinition } from "../src/apis/kluctl/crd.ts";

const list = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const name = "kluctldeployments.gitops.kluctl.io";
const path = `${list}/${name}`;

interface Definition {
  readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}

/**
 * Creates the KluctlDeployment CRD unless the cluster has it, and resolves when the cluster accepts KluctlDeployments.
 * The definition is sent as raw JSON: the typed client of @kubernetes/client-node omits
 * `x-kubernetes-preserve-unknown-fields`, and the API server would then prune all arguments and results.
 */
export async function installCustomResource(kubeconfig: string): Promise<void> {
  const client = createKubeClient({ kubeconfig });
  try {
    const known = await client.list(list, { query: { fieldSelector: `metadata.name=${name}` } });
    if (known.items.length === 0) {
      const query = { fieldManager: "towline-dev" };
      await client.request({ method: "PATCH", patch: "apply", path, query, body: customResourceDefinition() });
    }
    for (let attempt = 0; attempt < 100; attempt++, await delay(100)) {
      const { status } = (await client.request({ method: "GET", path })) as Definition;
      if (status?.conditions?.some((one) => one.type === "Established" && one.status === "True")) return;
    }
    throw new Error("The API server did not establish KluctlDeployments within 10 s.");
  } finally {
    client.close();
  }
}
