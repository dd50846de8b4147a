/** Secrets, read when they are needed and never kept. */
import { z } from "zod";
import { ApiError } from "../errors.ts";
import type { Secrets } from "../ports.ts";
import type { KubeClient } from "./client.ts";

const Secret = z.object({ data: z.record(z.string(), z.string()).nullish() });

export function createSecrets({ client }: { client: Pick<KubeClient, "request"> }): Secrets {
  return {
    async get(namespace, name) {
      const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/secrets/${encodeURIComponent(name)}`;
      let secret: unknown;
      try {
        secret = await client.request({ method: "GET", path });
      } catch (error) {
        if (error instanceof ApiError && error.status === 404) return undefined;
        throw error;
      }
      const { data } = Secret.parse(secret);
      return Object.fromEntries(
        Object.entries(data ?? {}).map(([key, value]) => [key, Buffer.from(value, "base64").toString("utf8")]),
      );
    },
  };
}
