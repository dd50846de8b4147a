/** Which files a deployment's keys decrypt: with the real kluctl and the cloud providers' real libraries. */
import { generateKeyPairSync } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { PrepareError } from "../../../src/errors.ts";
import type { CommandResult, DecryptionKeys } from "../../../src/model.ts";
import { cloudKey, cloudMasterKeys, useFakeClouds } from "../../support/fake-clouds.ts";
import {
  collectLogs,
  createFakeKluctl,
  createProject,
  findProcesses,
  newKluctl,
  newRun,
  noDiffOptions,
} from "../../support/fake-kluctl.ts";
import { createPgpKey } from "../../support/pgp.ts";
import { ageMasterKey, blueKey, encryptedYaml, greenKey, type MasterKeys, testDataKey } from "../../support/sops.ts";
import { useCluster, useKluctl, useTempDir } from "../../support/world.ts";
import { cacheDir } from "../../../dev/cache.ts";
import { patience } from "../../support/patience.ts";

/** A ConfigMap with the value of each vars file, which is encrypted for the key of the same name. */
async function createEncrypted(
  dir: string,
  namespace: string,
  keys: Record<string, { dataKey: Buffer; masterKeys: MasterKeys }>,
) {
  const names = Object.keys(keys);
  const files = names.map((name) => [`${name}.yaml`, encryptedYaml({ [name]: `decrypted by ${name}` }, keys[name]!)]);
  const data = Object.fromEntries(names.map((name) => [name, `{{ ${name} }}`]));
  const settings = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "settings", namespace }, data };
  return createProject(dir, {
    ".kluctl.yaml": "{discriminator: test, targets: [{name: prod}]}",
    "deployment.yaml": JSON.stringify({
      vars: names.map((name) => ({ file: `${name}.yaml` })),
      deployments: [{ path: "app" }],
    }),
    "app/settings.yml": JSON.stringify(settings),
    ...Object.fromEntries(files),
  });
}

function dataOf({ objects }: CommandResult): Record<string, string> {
  return (JSON.parse(objects[0]?.rendered ?? "{}") as { data: Record<string, string> }).data;
}

async function useDecryption() {
  const [cluster, binary, dir] = await Promise.all([useCluster(), useKluctl(), useTempDir()]);
  const kubeconfig = await readFile(cluster.kubeconfig, "utf8");
  const { log, lines } = collectLogs();
  const clouds = await useFakeClouds(dir);
  const env = {
    PATH: process.env["PATH"],
    ...clouds.env,
    // The server's own keys and logins, none of which may decrypt anything here.
    SOPS_AGE_KEY: blueKey.identity,
    GNUPGHOME: dir,
    GOOGLE_CREDENTIALS: "{}",
    AWS_ACCESS_KEY_ID: "AKIA-OF-THE-SERVER",
    AWS_SECRET_ACCESS_KEY: "secret",
    AWS_SESSION_TOKEN: "of-the-server",
    VAULT_TOKEN: "token-of-the-server",
  };
  const kluctl = newKluctl(dir, {
    binary,
    log,
    kubeconfigFor: () => kubeconfig,
    cacheDir: join(cacheDir(), "kluctl"),
    env,
  });
  onTestFinished(() => kluctl.stop());
  const { signal } = new AbortController();
  const diff = (projectDir: string, decryption?: Partial<DecryptionKeys>) =>
    kluctl.diff(
      newRun({ projectDir, target: "prod", decryption: decryption && { data: {}, ...decryption } }),
      noDiffOptions,
      signal,
    );
  return { namespace: cluster.namespace, dir, clouds, diff, lines, kluctl };
}

test("age, PGP, Vault, AWS, Azure and Google keys decrypt, from one Secret and in one process", async () => {
  const { namespace, dir, clouds, diff, lines, kluctl } = await useDecryption();
  const pgp = await createPgpKey(dir);
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const cloud = (masterKeys: MasterKeys) => ({ dataKey: cloudKey, masterKeys });
  const age = { dataKey: blueKey.dataKey, masterKeys: ageMasterKey(blueKey) };
  const pgpDataKey = testDataKey("pgp");
  const project = await createEncrypted(join(dir, "all"), namespace, {
    age,
    pgp: { dataKey: pgpDataKey, masterKeys: await pgp.masterKeys(pgpDataKey) },
    vault: cloud(cloudMasterKeys.vault(clouds.vaultAddress)),
    aws: cloud(cloudMasterKeys.aws),
    azure: cloud(cloudMasterKeys.azure),
    google: cloud(cloudMasterKeys.google),
  });
  const data = {
    "other.agekey": `# another\n${greenKey.identity}\n`,
    "age.agekey": `# created: some day\n${blueKey.identity}\n`,
    "pgp.asc": pgp.armored,
    "sops.vault-token": "token-of-ours\n",
    "sops.aws-kms": "aws_access_key_id: AKIA-OF-OURS\naws_secret_access_key: secret\n",
    "sops.azure-kv": "tenantId: a-tenant\nclientId: our-client\nclientSecret: our-secret\n",
    "sops.gcp-kms": JSON.stringify({
      type: "service_account",
      client_email: "our-account",
      private_key: privateKey.export({ type: "pkcs8", format: "pem" }),
      token_uri: "https://oauth2.googleapis.com/token",
    }),
    "something.else": "is left alone",
  };

  const names = ["age", "pgp", "vault", "aws", "azure", "google"];
  expect(dataOf(await diff(project, { data }))).toEqual(
    Object.fromEntries(names.map((name) => [name, `decrypted by ${name}`])),
  );
  expect([...clouds.logins].sort()).toEqual([
    "aws AKIA-OF-OURS undefined",
    "azure our-client our-secret",
    "google our-account",
    "vault token-of-ours",
  ]);
  await kluctl.stop();
  expect(await findProcesses(join(dir, "work"))).toEqual([]);
  const logged = JSON.stringify(lines);
  for (const secret of [greenKey.identity, blueKey.identity, "token-of-ours", "our-secret"])
    expect(logged).not.toContain(secret);
});

test("the role of a service account decrypts instead of the server's own", async () => {
  const { namespace, dir, clouds, diff } = await useDecryption();
  const aws = { dataKey: cloudKey, masterKeys: cloudMasterKeys.aws };
  const project = await createEncrypted(join(dir, "aws"), namespace, { aws });
  const webIdentity = { roleArn: "arn:aws:iam::111122223333:role/shop", token: "token-of-the-account" };
  expect(dataOf(await diff(project, { webIdentity }))).toEqual({ aws: "decrypted by aws" });
  expect([...clouds.logins].sort()).toEqual([
    "aws ASIA-OF-THE-ROLE session-of-the-role",
    "sts arn:aws:iam::111122223333:role/shop kluctl-controller token-of-the-account",
  ]);
});

test("an aborted run leaves no agent behind", async () => {
  const dir = await useTempDir();
  const binary = await createFakeKluctl(dir, `ls "$GNUPGHOME" > $here/seen; exec sleep 600`);
  const { armored } = await createPgpKey(dir);
  const kluctl = newKluctl(dir, { binary });
  const stopping = new AbortController();
  const decryption = { data: { "main.asc": armored } };
  const projectDir = await createProject(join(dir, "project"), { ".kluctl.yaml": "{}" });
  const run = kluctl.diff(newRun({ projectDir, decryption }), noDiffOptions, stopping.signal);
  const ended = run.catch((error: unknown) => error);
  await vi.waitFor(async () => expect(await readFile(join(dir, "seen"), "utf8")).toContain("private-keys"), patience);
  const agents = async () => findProcesses(join(dir, "work"));
  expect(await agents()).not.toEqual([]);
  stopping.abort();
  expect(String(await ended)).toContain("was ended");
  await kluctl.stop();
  expect(await agents()).toEqual([]);
  expect(await readdir(join(dir, "work"))).toEqual([]);
});

test("without its key a file is not decrypted, whatever keys the server has, and the error says what to do", async () => {
  const { namespace, dir, diff, kluctl } = await useDecryption();
  const pgp = await createPgpKey(dir);
  const pgpDataKey = testDataKey("pgp");
  const age = await createEncrypted(join(dir, "age"), namespace, {
    age: { dataKey: blueKey.dataKey, masterKeys: ageMasterKey(blueKey) },
  });
  const ofPgp = await createEncrypted(join(dir, "pgp"), namespace, {
    pgp: { dataKey: pgpDataKey, masterKeys: await pgp.masterKeys(pgpDataKey) },
  });
  const problemOf = async (...args: Parameters<typeof diff>) => {
    const error = await diff(...args).catch((one: unknown) => one);
    expect(error).toBeInstanceOf(PrepareError);
    return (error as Error).message;
  };
  const advice = "Set spec.decryption.secretRef to a Secret with the key.";
  const problems = await Promise.all([
    problemOf(age),
    problemOf(ofPgp),
    problemOf(age, { secretName: "shop/keys", data: { "green.agekey": greenKey.identity } }),
    problemOf(age, {}),
    problemOf(ofPgp, { data: { "pgp.asc": "-----BEGIN NOTHING-----" } }),
  ]);
  expect(problems).toEqual([
    expect.stringMatching(new RegExp(`failed to decrypt vars file age.yaml[^]*${advice}`)),
    expect.stringMatching(new RegExp(`failed to decrypt vars file pgp.yaml[^]*${advice}`)),
    expect.stringMatching(
      /no identity matched any of the[^]*No key in Secret shop\/keys \(green.agekey\) decrypts it\.$/,
    ),
    expect.stringMatching(/spec.decryption references no Secret, and its service account has no AWS role\.$/),
    "failed to import 'pgp.asc' data from decryption Secret: gpg: no valid OpenPGP data found.",
  ]);
  for (const problem of problems) expect(problem).not.toMatch(/AGE-SECRET|\/root|\.gnupg/);
  await kluctl.stop();
  expect(await findProcesses(join(dir, "work"))).toEqual([]);
});
