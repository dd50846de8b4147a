import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { environmentSecrets } from "../../../src/config/environment-secrets.ts";

test("the secrets in the environment are found, and no other variable is", () => {
  const secret = {
    KLUCTL_GIT_PASSWORD: "git-1",
    KLUCTL_GIT_0_PASSWORD: "git-2",
    KLUCTL_HELM_1_PASSWORD: "helm",
    KLUCTL_REGISTRY_IDENTITY_TOKEN: "oci",
    AWS_SECRET_ACCESS_KEY: "aws-1",
    AWS_SESSION_TOKEN: "aws-2",
    VAULT_TOKEN: "vault-1",
    VAULT_SECRET_ID: "vault-2",
    AZURE_CLIENT_SECRET: "azure",
    SOPS_AGE_KEY: "age",
  };
  const plain = {
    PATH: "/bin",
    KLUCTL_GIT_HOST: "git.example.com",
    KLUCTL_GIT_USERNAME: "robot",
    AWS_REGION: "eu-1",
    VAULT_ADDR: "https://vault",
    GOOGLE_CLOUD_PROJECT: "shop",
    HTTP_PROXY: "http://proxy:3128",
  };
  expect(environmentSecrets({ ...secret, ...plain, AWS_UNSET: undefined })).toEqual(Object.values(secret));
  expect(environmentSecrets({ HTTPS_PROXY: "http://me:p%40ss@proxy:3128" })).toEqual(["p%40ss", "p@ss"]);
});

test("a file that a variable names is read, and an unreadable one is ignored", () => {
  const dir = mkdtempSync(join(tmpdir(), "towline-secrets-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const account = { type: "service_account", project_id: "shop-project", private_key_id: "1", private_key: "the-key" };
  writeFileSync(join(dir, "account.json"), JSON.stringify(account));
  writeFileSync(join(dir, "token"), "the-token\n");
  const found = environmentSecrets({
    GOOGLE_APPLICATION_CREDENTIALS: join(dir, "account.json"),
    AWS_WEB_IDENTITY_TOKEN_FILE: join(dir, "token"),
    KLUCTL_GIT_SSH_KEY: join(dir, "not-there"),
  });
  expect(found).toEqual(expect.arrayContaining(["the-key", "the-token"]));
  expect(found).not.toContain("shop-project");
});

test("the logins that `docker login` stored are found, wherever the file is", () => {
  const home = mkdtempSync(join(tmpdir(), "towline-secrets-"));
  onTestFinished(() => rmSync(home, { recursive: true }));
  const auth = Buffer.from("robot:the-password").toString("base64");
  const login = { auth, identitytoken: "the-identity", registrytoken: "the-token" };
  const folder = join(home, ".docker");
  mkdirSync(folder);
  writeFileSync(join(folder, "config.json"), JSON.stringify({ auths: { "registry.example.com": login } }));
  const known = [auth, "the-password", "the-identity", "the-token"];
  expect(environmentSecrets({ HOME: home })).toEqual(known);
  expect(environmentSecrets({ HOME: "/nowhere", DOCKER_CONFIG: folder })).toEqual(known);
  for (const broken of ["", "{", "[]", '{"auths":[null,1,{"auth":1}]}']) {
    writeFileSync(join(folder, "config.json"), broken);
    expect(environmentSecrets({ HOME: home })).toEqual([]);
  }
});
