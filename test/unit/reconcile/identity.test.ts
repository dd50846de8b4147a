import { expect, test } from "vitest";
import { PrepareError } from "../../../src/errors.ts";
import { secretsIn } from "../../../src/redact/secrets-in.ts";
import { aDeployment } from "../../support/deployments.ts";
import { fakeReadIdentity, fakeSecrets } from "../../support/fakes.ts";

const kubeConfig = { secretName: "prod" };
const reading = (data: Record<string, string>) => fakeReadIdentity({ secrets: fakeSecrets({ "shop/prod": data }) });

test.each([
  [{ value: "a", "value.yaml": "b", other: "c" }, undefined, "a"],
  [{ "value.yaml": "b", other: "c" }, undefined, "b"],
  [{ value: "a", other: "c" }, "other", "c"],
])("from a Secret with %o and key %s the kubeconfig is %s", async (data, key, text) => {
  const identity = await reading(data)(aDeployment({ spec: { kubeConfig: { ...kubeConfig, key } } }));
  expect(identity.cluster?.kubeconfig).toBe(`${text} as undefined`);
});

test.each([
  [{ other: "c" }, undefined, "KubeConfig secret 'shop/prod' does not contain a 'value' key with a kubeconfig"],
  [{ value: "a" }, "gone", "KubeConfig secret 'shop/prod' does not contain a 'gone' key with a kubeconfig"],
])("a Secret with %o and key %s gives the error: %s", async (data, key, message) => {
  const deployment = aDeployment({ spec: { kubeConfig: { ...kubeConfig, key } } });
  await expect(reading(data)(deployment)).rejects.toThrow(new PrepareError(message));
});

test("a missing Secret and a rejected kubeconfig are named", async () => {
  const deployment = aDeployment({ spec: { kubeConfig } });
  await expect(fakeReadIdentity()(deployment)).rejects.toThrow(
    new PrepareError(`unable to read KubeConfig secret 'shop/prod' error: secrets "prod" not found`),
  );
  const refuse = fakeReadIdentity({
    secrets: fakeSecrets({ "shop/prod": { value: "x" } }),
    toRemoteCluster() {
      throw new Error("it is not YAML");
    },
  });
  await expect(refuse(deployment)).rejects.toThrow(
    new PrepareError("KubeConfig secret 'shop/prod' cannot be used: it is not YAML"),
  );
});

test("service accounts are impersonated on other clusters too", async () => {
  const deployment = aDeployment({ spec: { kubeConfig, serviceAccountName: "deployer" } });
  const read = reading({ value: "config" });
  expect((await read(deployment)).cluster?.kubeconfig).toBe("config as system:serviceaccount:shop:deployer");
  const previewing = await read(deployment, { serviceAccount: "previewer" });
  expect(previewing.cluster?.kubeconfig).toBe("config as system:serviceaccount:shop:previewer");
});

// This would take an hour if the time grew with the square of the length, far longer than the test's time-out.
test("a key full of blanks is searched quickly", () => {
  const value = `abcdef${" ".repeat(1_000_000)}!`;
  expect(secretsIn(value)).toEqual([value]);
});

test.each([
  ["token: hunter2-hunter2\nname: somebody", ["hunter2-hunter2"]],
  ["client-certificate-data: Y2VydGlmaWNhdGU=\nserver: https://secret.example.com", ["Y2VydGlmaWNhdGU="]],
  ["aws_access_key_id: AKIA123456\naws_secret_access_key: abcdefgh", ["abcdefgh"]],
  ['{"clientId": "a-client-id", "clientSecret": "the-secret", "tenantId": "a-tenant"}', ["the-secret"]],
  [
    '{"type":"service_account","private_key_id":"0123456789","private_key":"-----BEGIN PRIVATE KEY-----\\nabcdefghij\\n-----END PRIVATE KEY-----\\n","token_uri":"https://oauth2.example.com/token"}',
    ["-----BEGIN PRIVATE KEY-----\nabcdefghij\n-----END PRIVATE KEY-----", "abcdefghij"],
  ],
  ["hvs.CAESIabc\n", ["hvs.CAESIabc"]],
  ["12345678", ["12345678"]],
  [
    "# public key: age1abc\nAGE-SECRET-KEY-1ABC\n",
    ["# public key: age1abc\nAGE-SECRET-KEY-1ABC", "AGE-SECRET-KEY-1ABC"],
  ],
  [
    "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: 1\n\nabcdefghij\n=abcd\n-----END PGP PRIVATE KEY BLOCK-----",
    [
      "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: 1\n\nabcdefghij\n=abcd\n-----END PGP PRIVATE KEY BLOCK-----",
      "abcdefghij",
    ],
  ],
])("in %j, these parts are secret: %j", (text, secrets) => {
  expect(secretsIn(text)).toEqual(secrets);
});

test("keys in base64 are known as secrets both encoded and decoded", () => {
  const pem = `-----BEGIN EC PRIVATE KEY-----\n${"abcdefgh".repeat(8)}\n-----END EC PRIVATE KEY-----\n`;
  const encoded = Buffer.from(pem).toString("base64");
  const found = secretsIn(`users: [{name: u, user: {client-key-data: ${encoded}}}]`);
  expect(found).toContain(encoded);
  expect(found).toContain("abcdefgh".repeat(8));
});
