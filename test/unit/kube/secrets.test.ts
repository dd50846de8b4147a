import { expect, test } from "vitest";
import type { KubeRequest } from "../../../src/kube/client.ts";
import { createSecrets, type SecretsDeps } from "../../../src/kube/secrets.ts";

/** Reads a Secret, and says as whom the API server was asked. */
async function askedAs(options: Omit<SecretsDeps, "client">, account?: string): Promise<string | undefined> {
  const asked: KubeRequest[] = [];
  const client = {
    request(request: KubeRequest) {
      asked.push(request);
      return Promise.resolve({ data: { password: Buffer.from("a-password").toString("base64") } });
    },
  };
  const data = await createSecrets({ client, ...options }).get("shop", "login", account);
  expect(data).toEqual({ password: "a-password" });
  return asked[0]?.as;
}

test("Secrets are read with the server's own rights unless it is told otherwise", async () => {
  expect(await askedAs({}, "deployer")).toBeUndefined();
  expect(await askedAs({ defaultServiceAccount: "usual" })).toBeUndefined();
});

test("a server that reads as accounts asks as the deployment's, as the usual one, and else as itself", async () => {
  const options = { readAs: "account", defaultServiceAccount: "usual" } as const;
  expect(await askedAs(options, "deployer")).toBe("system:serviceaccount:shop:deployer");
  expect(await askedAs(options)).toBe("system:serviceaccount:shop:usual");
  expect(await askedAs({ readAs: "account" })).toBeUndefined();
  await expect(askedAs(options, " ")).rejects.toThrow("without a name cannot be impersonated");
});
