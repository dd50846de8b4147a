/** What a Helm chart may ask a cluster for besides objects: its version, and the kinds that it knows. */
import { createHash } from "node:crypto";
import type { KubeClient } from "./client.ts";

/** One document with all kinds; API servers before 1.30 answer with their groups and versions only. */
const discovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/** A text that is the same as long as they are. */
export async function readClusterFacts({ request }: Pick<KubeClient, "request">): Promise<string> {
  const answers = await Promise.all([
    request({ method: "GET", path: "/version" }),
    request({ method: "GET", path: "/api", accept: discovery }),
    request({ method: "GET", path: "/apis", accept: discovery }),
  ]);
  return createHash("sha256").update(JSON.stringify(answers)).digest("base64");
}
