/** What rendering and dry runs depend on besides objects: the cluster's version, its kinds, and their schemas. */
import { createHash } from "node:crypto";
import { z } from "zod";
import { ApiError } from "../errors.ts";
import type { KubeClient } from "./client.ts";

/** One document with all kinds: v2 since Kubernetes 1.30, v2beta1 since 1.26; older API servers answer with groups and versions. */
const discovery = [
  "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
  "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
  "application/json",
].join(",");

/** A text that is the same as long as they are. */
export async function readClusterFacts({ request }: Pick<KubeClient, "request">): Promise<string> {
  const answers = await Promise.all([
    request({ method: "GET", path: "/version" }),
    request({ method: "GET", path: "/api", accept: discovery }),
    request({ method: "GET", path: "/apis", accept: discovery }),
    // A list of all schemas, with the hash of each.
    request({ method: "GET", path: "/openapi/v3" }).catch(ignoreMissing),
  ]);
  return createHash("sha256").update(JSON.stringify(answers)).digest("base64");
}

/** As it calls itself: `v1.32.2`. */
export async function readKubernetesVersion({ request }: Pick<KubeClient, "request">): Promise<string | undefined> {
  const answer = await request({ method: "GET", path: "/version" });
  return Version.safeParse(answer).data?.gitVersion;
}

/** It becomes an argument. */
const Version = z.object({ gitVersion: z.string().regex(/^v[\w.+-]{1,100}$/) });

/** Kubernetes before 1.24 has none. */
function ignoreMissing(error: unknown): undefined {
  if (!(error instanceof ApiError && error.status === 404)) throw error;
}
