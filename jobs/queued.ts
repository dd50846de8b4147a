/** Finds the deployments with a job in Redis that waits, runs or will be retried. */
import type { Redis } from "ioredis";
import { jobOfKey } from "./bullmq.ts";
import { withinDeadline } from "../src/redis/connection.ts";

/** Deployments are given as `namespace/name`. Throws QueueUnavailableError. */
export async function findQueued(
  connection: Redis,
  prefix: string,
  deployments: readonly string[],
): Promise<ReadonlySet<string>> {
  const keyOf = (deployment: string) => {
    const [namespace = "", name = ""] = deployment.split("/");
    return jobOfKey(prefix, "reconcile", { kind: "reconcile", deployment: { namespace, name }, cause: "push" });
  };
  if (deployments.length === 0) return new Set();
  const jobs = await withinDeadline("find the jobs", 2_000, () => connection.mget(deployments.map(keyOf)));
  return new Set(deployments.filter((_, i) => jobs[i]));
}
