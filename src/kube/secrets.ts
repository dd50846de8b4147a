/** Reads Secrets when they are needed and never caches them. */
import { z } from "zod";
import { ApiError } from "../errors.ts";
import { serviceAccountUser } from "../model.ts";
import type { Secrets } from "../ports.ts";
import type { KubeClient } from "./client.ts";

const Secret = z.object({ data: z.record(z.string(), z.string()).nullish() });

export interface SecretsDeps {
  readonly client: Pick<KubeClient, "request">;
  /**
   * `account`: Secrets that a deployment names are read as its service account, so that it can name only those that
   * account may read.
   */
  readonly readAs?: "server" | "account" | undefined;
  /** For deployments that name no account. */
  readonly defaultServiceAccount?: string | undefined;
}

export function createSecrets(deps: SecretsDeps): Secrets {
  const { client } = deps;
  return {
    async get(namespace, name, account = deps.defaultServiceAccount) {
      const as =
        deps.readAs === "account" && account !== undefined
          ? serviceAccountUser({ namespace, name: account })
          : undefined;
      const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/secrets/${encodeURIComponent(name)}`;
      let secret: unknown;
      try {
        secret = await client.request({ method: "GET", path, as });
      } catch (error) {
        if (error instanceof ApiError && error.status === 404) return undefined;
        throw error;
      }
      const { data } = Secret.parse(secret);
      return Object.fromEntries(
        Object.entries(data ?? {}).map(([key, value]) => [key, toText(Buffer.from(value, "base64"))]),
      );
    },
  };
}

/** Files made on Windows are often UTF-16 with a byte order mark. */
function toText(bytes: Buffer): string {
  const [first, second] = bytes;
  if (first === 0xff && second === 0xfe) return bytes.subarray(2).toString("utf16le");
  if (first === 0xfe && second === 0xff && bytes.length % 2 === 0)
    return bytes.subarray(2).swap16().toString("utf16le");
  return bytes.toString("utf8").replace(/^\uFEFF/, "");
}
