/** Reads the annotations of service accounts, and creates and reviews their tokens. */
import { z } from "zod";
import { ApiError } from "../errors.ts";
import type { ServiceAccounts } from "../ports.ts";
import type { KubeClient } from "./client.ts";

const ServiceAccount = z.object({
  metadata: z.object({ annotations: z.record(z.string(), z.string()).nullish() }),
});
const TokenRequest = z.object({ status: z.object({ token: z.string().min(1) }) });

export function createServiceAccounts({ client }: { client: Pick<KubeClient, "request"> }): ServiceAccounts {
  const pathOf = (namespace: string, name: string) =>
    `/api/v1/namespaces/${encodeURIComponent(namespace)}/serviceaccounts/${encodeURIComponent(name)}`;

  return {
    async annotations(namespace, name) {
      let account: unknown;
      try {
        account = await client.request({ method: "GET", path: pathOf(namespace, name) });
      } catch (error) {
        if (error instanceof ApiError && error.status === 404) return undefined;
        throw error;
      }
      return ServiceAccount.parse(account).metadata.annotations ?? {};
    },

    async createToken(namespace, name, { audience, seconds }) {
      const path = `${pathOf(namespace, name)}/token`;
      const spec = { audiences: audience === undefined ? undefined : [audience], expirationSeconds: seconds };
      const body = { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec };
      return TokenRequest.parse(await client.request({ method: "POST", path, body })).status.token;
    },
  };
}
