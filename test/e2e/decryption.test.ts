/**
 * Encrypted files, from the Secret with the keys to the pull request's comment: where they are decrypted, and where
 * they are not.
 */
import { join } from "node:path";
import type { KubernetesObject } from "@kubernetes/client-node";
import { expect, test } from "vitest";
import { stringify } from "yaml";
import type { FileChanges } from "../../dev/parts/work-copy.ts";
import { findProcesses } from "../support/fake-kluctl.ts";
import { createPgpKey } from "../support/pgp.ts";
import { aProject, aSpec } from "../support/project.ts";
import { usePullRequests } from "../support/pull-requests.ts";
import { createSecret } from "../support/remote-cluster.ts";
import { ageMasterKey, blueKey, encryptedYaml, greenKey, type MasterKeys, testDataKey } from "../support/sops.ts";
import { useWorld } from "../support/world.ts";
import { patience } from "../support/patience.ts";

interface Encryption {
  readonly dataKey: Buffer;
  readonly masterKeys: MasterKeys;
}

/** A directory of that name with encrypted vars, which end up in a ConfigMap, and an encrypted Secret. */
function anEncryptedProject(name: string, namespace: string, key: Encryption, value = `canary-${name}`): FileChanges {
  const files = aProject({ namespace, name, data: { host: "{{ hidden }}.example.com" } });
  const secret = { apiVersion: "v1", kind: "Secret", metadata: { name, namespace }, stringData: { password: value } };
  const project: FileChanges = {
    ...files,
    "deployment.yaml": stringify({ vars: [{ file: "vars.yaml" }], deployments: [{ path: "app" }] }),
    "vars.yaml": encryptedYaml({ hidden: `${value}-of-vars`, replicas: 3 }, key),
    "app/secret.yml": encryptedYaml(secret, { ...key, fields: ["stringData"] }),
  };
  return Object.fromEntries(Object.entries(project).map(([file, content]) => [`${name}/${file}`, content]));
}

test("each deployment decrypts with its own keys only, and decrypted values are not reported anywhere", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const dataDir = join(world.dir, "data");
  const pulls = await usePullRequests(world, { TOWLINE_DATA_DIR: dataDir });
  const { repo, towline } = pulls;
  const pgpKey = await createPgpKey(world.dir);
  const dataKey = testDataKey("pgp");
  const [blue, green] = [blueKey, greenKey].map((key) => ({ dataKey: key.dataKey, masterKeys: ageMasterKey(key) }));
  const pgp = { dataKey, masterKeys: await pgpKey.masterKeys(dataKey) };
  await repo.push({
    ...anEncryptedProject("blue", namespace, blue!),
    ...anEncryptedProject("green", namespace, green!),
    ...anEncryptedProject("pgp", namespace, pgp),
  });
  await createSecret(cluster, "blue-keys", { "main.agekey": blueKey.identity });
  await createSecret(cluster, "green-keys", { "main.agekey": greenKey.identity });
  await createSecret(cluster, "pgp-keys", { "main.asc": pgpKey.armored });

  const create = async (name: string, path: string, secret?: string) => {
    const deployment = cluster.deployment(name);
    const source = { git: { url: repo.url, ref: { branch: "main" }, path } };
    const decryption = { provider: "sops", secretRef: { name: secret } };
    await deployment.create(aSpec(repo.url, { source, ...(secret && { decryption }) }));
    return deployment;
  };
  const readable = await Promise.all(["blue", "green", "pgp"].map((name) => create(name, name, `${name}-keys`)));
  const crossed = await create("crossed", "blue", "green-keys");
  const keyless = await create("keyless", "pgp");
  const missing = await create("missing", "blue", "gone");

  for (const one of readable) await one.reaches("Ready");
  for (const name of ["blue", "green", "pgp"]) {
    expect(await cluster.data(name)).toEqual({ host: `canary-${name}-of-vars.example.com` });
    const secret = await cluster.core.readNamespacedSecret({ name, namespace });
    expect(Buffer.from(secret.data?.["password"] ?? "", "base64").toString()).toBe(`canary-${name}`);
  }
  const problems = await Promise.all(
    [crossed, keyless, missing].map(async (one) => String((await one.settles()).status?.["lastPrepareError"])),
  );
  expect(problems).toEqual([
    expect.stringMatching(
      new RegExp(`vars.yaml[^]*No key in Secret ${namespace}/green-keys \\(main.agekey\\) decrypts it`),
    ),
    expect.stringMatching(/vars.yaml[^]*Set spec.decryption.secretRef to a Secret with the key/),
    `cannot get decryption Secret '${namespace}/gone': secrets "gone" not found`,
  ]);

  // A user changes a decrypted value by hand.
  const byHand = { metadata: { name: "blue" }, data: { host: "by-hand" } };
  await cluster.patch({ apiVersion: "v1", kind: "ConfigMap", ...byHand } as KubernetesObject);
  await readable[0]!.patch({ metadata: { annotations: { "kluctl.io/request-reconcile": "now" } } });
  const drifted = await readable[0]!.until("drift", ({ status }) => JSON.stringify(status).includes("by-hand"));
  expect(drifted.status?.["lastDriftDetectionResultMessage"]).toBe("1 chg");

  const pull = await pulls.open(anEncryptedProject("pgp", namespace, pgp, "canary-newer"));
  const comment = await pull.comment("took");
  expect(comment).toMatch(/Secret.*pgp/);
  expect(comment).toMatch(/ConfigMap.*pgp[^]*\n- .*\.example\.com\n\+ .*\.example\.com/);

  const told = await Promise.all(
    [...readable, crossed, keyless, missing].map(async (one) => [(await one.get())?.status, await one.events()]),
  );
  const everything = JSON.stringify([comment, told, towline.lines]);
  for (const secret of ["canary-", blueKey.identity, greenKey.identity]) expect(everything).not.toContain(secret);

  for (const one of readable) await one.delete();
  for (const one of readable) await expect.poll(() => one.get(), patience).toBeUndefined();
  await towline.stop();
  const agents = await findProcesses("gpg-agent");
  expect((await findProcesses(dataDir)).filter((pid) => agents.includes(pid))).toEqual([]);
});
