/** Serves the logs of a kubelet: kwok simulates the rest of it, but runs no containers. */
import { once } from "node:events";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import type { KubernetesObject } from "@kubernetes/client-node";
import { onTestFinished } from "vitest";
import { createCertificateAuthority } from "../../dev/parts/certificates.ts";
import { uniqueName } from "./world.ts";
import type { TestCluster } from "./world-cluster.ts";

/**
 * A pod with the labels of kluctl's controller, on a node of its own; its log consists of these lines and later ones.
 */
export async function useControllerPod(cluster: TestCluster, lines: readonly object[]): Promise<void> {
  const node = uniqueName("kubelet");
  const { cert, key } = createCertificateAuthority("test").issueServer(node, ["127.0.0.1"]);
  const kubelet = createServer({ cert, key }, (req, res) => {
    let sent = 0;
    const send = () => {
      for (; sent < lines.length; sent++) res.write(`${JSON.stringify(lines[sent])}\n`);
    };
    send();
    if (!req.url?.includes("follow=true")) return void res.end();
    const timer = setInterval(send, 50);
    req.on("close", () => clearInterval(timer));
  });
  kubelet.listen(0, "127.0.0.1");
  await once(kubelet, "listening");
  const { port } = kubelet.address() as AddressInfo;

  const metadata = { name: node };
  await cluster.core.createNode({
    body: {
      metadata,
      spec: { unschedulable: true },
      status: {
        addresses: [{ type: "InternalIP", address: "127.0.0.1" }],
        daemonEndpoints: { kubeletEndpoint: { Port: port } },
        // kwok would mark a node that is not ready as ready, with the node's name as its address.
        conditions: [{ type: "Ready", status: "True", reason: "Test", message: "" }],
      },
    },
  });
  onTestFinished(async () => {
    await cluster.core.deleteNode(metadata);
    kubelet.close();
    kubelet.closeAllConnections();
  });
  await cluster.create({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "controller", labels: { "control-plane": "kluctl-controller" } },
    spec: { nodeName: node, containers: [{ name: "controller", image: "none" }] },
  } as KubernetesObject);
}
