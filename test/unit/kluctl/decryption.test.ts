import { expect, test } from "vitest";
import { PrepareError } from "../../../src/errors.ts";
import { explainDecryption, toDecryption } from "../../../src/kluctl/decryption.ts";
import { withDecryption } from "../../../src/kluctl/environment.ts";

const certificate = "-----BEGIN CERTIFICATE-----\n";

test.each([
  [{ "a.agekey": "AGE-1\n", "b.agekey": "AGE-2" }, { SOPS_AGE_KEY: "AGE-1\n\nAGE-2" }],
  [{ "sops.vault-token": " hvs.1\n" }, { VAULT_TOKEN: "hvs.1" }],
  [
    { "sops.aws-kms": "aws_access_key_id: id\naws_secret_access_key: key\naws_session_token: session" },
    { AWS_ACCESS_KEY_ID: "id", AWS_SECRET_ACCESS_KEY: "key", AWS_SESSION_TOKEN: "session" },
  ],
  [
    {
      "sops.azure-kv": '{"tenantId": "t", "clientId": "c", "clientSecret": "s", "clientCertificate": "is left alone"}',
    },
    { AZURE_TENANT_ID: "t", AZURE_CLIENT_ID: "c", AZURE_CLIENT_SECRET: "s" },
  ],
  [
    {
      "sops.azure-kv": JSON.stringify({
        ...{ tenantId: "t", clientId: "c", clientCertificate: certificate },
        ...{ clientCertificatePassword: "p", clientCertificateSendChain: true, authorityHost: "https://login.test" },
      }),
    },
    {
      ...{ AZURE_TENANT_ID: "t", AZURE_CLIENT_ID: "c", AZURE_CLIENT_CERTIFICATE_PATH: "/job/azure-certificate.pem" },
      ...{ AZURE_CLIENT_CERTIFICATE_PASSWORD: "p", AZURE_CLIENT_SEND_CERTIFICATE_CHAIN: "true" },
      AZURE_AUTHORITY_HOST: "https://login.test",
    },
  ],
  [
    { "sops.azure-kv": "appId: a\ntenant: t\npassword: p\ndisplayName: from az" },
    { AZURE_TENANT_ID: "t", AZURE_CLIENT_ID: "a", AZURE_CLIENT_SECRET: "p" },
  ],
  [{ "sops.azure-kv": "clientId: managed" }, { AZURE_CLIENT_ID: "managed" }],
  [{ "sops.gcp-kms": '\n{"type": "service_account"}\n' }, { GOOGLE_CREDENTIALS: '{"type": "service_account"}' }],
  [{ "pgp.asc": "armored", "sops.other": "x", "readme.txt": "y", "sops.vault-token": "" }, {}],
])("a Secret with %o becomes the environment %o", (data, env) => {
  expect(toDecryption({ data }, "/job").env).toEqual(env);
});

test("settings that have to be files are written to files", () => {
  const { files, pgpKeys } = toDecryption(
    {
      data: {
        "b.asc": "key of b",
        "../a.asc": "key of a",
        "sops.azure-kv": `tenantId: t\nclientId: c\nclientCertificate: "c"`,
      },
    },
    "/job",
  );
  expect(Object.fromEntries(pgpKeys)).toEqual({ "b.asc": "/job/key-0.asc", "../a.asc": "/job/key-1.asc" });
  expect(Object.fromEntries(files)).toEqual({
    "/job/azure-certificate.pem": "c",
    "/job/key-0.asc": "key of b",
    "/job/key-1.asc": "key of a",
  });
});

test.each([
  [
    { "sops.aws-kms": "aws_access_key_id: hidden" },
    "'sops.aws-kms'",
    "needs aws_access_key_id and aws_secret_access_key",
  ],
  [{ "sops.aws-kms": "hidden: [" }, "'sops.aws-kms'", "it is not a YAML mapping"],
  [{ "sops.azure-kv": "tenantId: hidden" }, "'sops.azure-kv'", "it needs clientId, tenantId and clientSecret or"],
  [{ "sops.azure-kv": "hidden" }, "'sops.azure-kv'", "it is not a YAML mapping"],
  [{ "sops.gcp-kms": "/var/run/secrets/hidden" }, "'sops.gcp-kms'", "it is not a service account key in JSON"],
  [{ "a.agekey": "hidden\0" }, "SOPS_AGE_KEY", "has a NUL character"],
])("%o is refused: %s %s", (data, name, why) => {
  const problem = () => toDecryption({ data }, "/job");
  expect(problem).toThrow(PrepareError);
  expect(problem).toThrow(name);
  expect(problem).toThrow(why);
  expect(problem).not.toThrow("hidden");
});

const server = {
  PATH: "/bin",
  AWS_REGION: "eu-central-1",
  AWS_ACCESS_KEY_ID: "server's",
  AWS_SESSION_TOKEN: "server's",
  AWS_PROFILE: "server's",
  AWS_CONTAINER_CREDENTIALS_FULL_URI: "server's",
  AZURE_TENANT_ID: "server's",
  AZURE_CLIENT_SECRET: "server's",
  VAULT_ADDR: "https://vault.test",
  VAULT_TOKEN: "server's",
  GOOGLE_CREDENTIALS: "server's",
};

test("logins of the server and of the deployment are never mixed", () => {
  const data = {
    "sops.aws-kms": "aws_access_key_id: id\naws_secret_access_key: key",
    "sops.azure-kv": "clientId: managed",
    "sops.vault-token": "ours",
    "sops.gcp-kms": "{}",
  };
  expect(withDecryption(server, toDecryption({ data }, "/job"))).toEqual({
    PATH: "/bin",
    AWS_REGION: "eu-central-1",
    AWS_ACCESS_KEY_ID: "id",
    AWS_SECRET_ACCESS_KEY: "key",
    AZURE_CLIENT_ID: "managed",
    VAULT_ADDR: "https://vault.test",
    VAULT_TOKEN: "ours",
    GOOGLE_CREDENTIALS: "{}",
  });
});

test("a role replaces the server's own, and AWS credentials in the Secret replace the role", () => {
  const webIdentity = { roleArn: "arn:aws:iam::1:role/r", token: "token" };
  const role = toDecryption({ data: {}, webIdentity }, "/job");
  const env = Object.entries(withDecryption(server, role)).filter(([name]) => name.startsWith("AWS_"));
  expect(Object.fromEntries(env)).toEqual({
    AWS_REGION: "eu-central-1",
    AWS_ROLE_ARN: "arn:aws:iam::1:role/r",
    AWS_ROLE_SESSION_NAME: "kluctl-controller",
    AWS_WEB_IDENTITY_TOKEN_FILE: "/job/aws-token",
  });
  expect(role.files.get("/job/aws-token")).toBe("token");
  const data = { "sops.aws-kms": "aws_access_key_id: id\naws_secret_access_key: key" };
  expect(toDecryption({ data, webIdentity }, "/job").env).toEqual({
    AWS_ACCESS_KEY_ID: "id",
    AWS_SECRET_ACCESS_KEY: "key",
  });
});

test("variables that only SOPS reads are removed from runs without decryption", () => {
  const { GOOGLE_CREDENTIALS: _, ...rest } = server;
  expect(withDecryption(server, toDecryption(undefined, "/job"))).toEqual(rest);
  expect(withDecryption(server, toDecryption({ data: {} }, "/job"))).toEqual(server);
});

const undecrypted = "Failed to get the data key required to decrypt the SOPS file.";
const webIdentity = { roleArn: "arn:aws:iam::1:role/r", token: "t" };

test.each([
  [undefined, "Set spec.decryption.secretRef to a Secret with the key."],
  [{ data: {} }, "spec.decryption references no Secret, and its service account has no AWS role."],
  [
    { data: {}, webIdentity },
    "spec.decryption has AWS role arn:aws:iam::1:role/r, which cannot decrypt it, and no secretRef.",
  ],
  [{ secretName: "shop/keys", data: {} }, "No key in Secret shop/keys (empty) decrypts it."],
  [
    { secretName: "shop/keys", data: { "b.asc": "", "a.agekey": "" }, webIdentity },
    "No key in Secret shop/keys (a.agekey, b.asc) or AWS role arn:aws:iam::1:role/r decrypts it.",
  ],
  [
    { secretName: "shop/keys", data: { "age.txt": "", "a.agekey": "", "sops.aws-kms": "" } },
    "No key in Secret shop/keys (a.agekey, age.txt, sops.aws-kms) decrypts it. Ignored because of its name: age.txt. " +
      "The name of a key must be *.agekey, *.asc, sops.vault-token, sops.aws-kms, sops.azure-kv, sops.gcp-kms.",
  ],
])("with %o, a decryption failure gets an advice: %s", (keys, advice) => {
  expect(explainDecryption(new PrepareError(undecrypted), keys)).toEqual(
    new PrepareError(`${undecrypted}\n\n${advice}`),
  );
});

test("a PGP key with a passphrase is reported", () => {
  // SOPS breaks the lines of gpg 2.2 like this.
  const said = `${undecrypted}\n    - | gpg: public key decryption failed: Inappropriate\n      | ioctl for device`;
  const { message } = explainDecryption(new PrepareError(said), {
    secretName: "shop/keys",
    data: { "b.asc": "" },
  }) as Error;
  expect(message).toContain("decrypts it. A PGP key in it has a passphrase, which cannot be entered here");
});

test("other failures stay unchanged", () => {
  for (const error of [new PrepareError("target not found"), new Error(undecrypted)]) {
    expect(explainDecryption(error, undefined)).toBe(error);
  }
});
