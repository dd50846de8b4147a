/** What rendering and dry runs depend on besides objects: the cluster's version, its kinds and their schemas. */
import { createHash } from "node:crypto";
import { z } from "zod";
import { ApiError } from "../errors.ts";
import type { KubeClient } from "./client.ts";

/**
 * One document with all kinds: v2 since Kubernetes 1.30, v2beta1 since 1.26. Older API servers list only groups and
 * versions.
 */
const discovery = [
  "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
  "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
  "application/json",
].join(",");

/** Returns a text that stays the same as long as these facts do. */
export async function readClusterFacts({ request }: Pick<KubeClient, "request">): Promise<string> {
  const answers = await Promise.all([
    request({ method: "GET", path: "/version" }),
    request({ method: "GET", path: "/api", accept: discovery }),
    request({ method: "GET", path: "/apis", accept: discovery }),
    // An index of all schemas, with a hash of each.
    request({ method: "GET", path: "/openapi/v3" }).catch(ignoreMissing),
  ]);
  return createHash("sha256").update(JSON.stringify(answers)).digest("base64");
}

/** As the cluster reports it: `v1.32.2`. */
export async function readKubernetesVersion({ request }: Pick<KubeClient, "request">): Promise<string | undefined> {
  const answer = await request({ method: "GET", path: "/version" });
  return Version.safeParse(answer).data?.gitVersion;
}

/** It is passed on as a command-line argument. */
const Version = z.object({ gitVersion: z.string().regex(/^v[\w.+-]{1,100}$/) });

/** Kubernetes before 1.24 does not have this endpoint. */
function ignoreMissing(error: unknown): undefined {
  if (!(error instanceof ApiError && error.status === 404)) throw error;
}
