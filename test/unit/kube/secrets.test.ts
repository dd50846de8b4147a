import { expect, test } from "vitest";
import type { KubeRequest } from "../../../src/kube/client.ts";
import { createSecrets, type SecretsDeps } from "../../../src/kube/secrets.ts";

/** Reads a Secret and returns the user that the request impersonated. */
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

test("Secrets are read with the server's own rights by default", async () => {
  expect(await askedAs({}, "deployer")).toBeUndefined();
  expect(await askedAs({ defaultServiceAccount: "usual" })).toBeUndefined();
});

test("with readAs account, Secrets are read as the deployment's account, as the default account, or as the server", async () => {
  const options = { readAs: "account", defaultServiceAccount: "usual" } as const;
  expect(await askedAs(options, "deployer")).toBe("system:serviceaccount:shop:deployer");
  expect(await askedAs(options)).toBe("system:serviceaccount:shop:usual");
  expect(await askedAs({ readAs: "account" })).toBeUndefined();
  await expect(askedAs(options, " ")).rejects.toThrow("without a name cannot be impersonated");
});
