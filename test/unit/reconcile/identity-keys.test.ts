import { expect, test } from "vitest";
import { ApiError, PrepareError } from "../../../src/errors.ts";
import type { ServiceAccounts } from "../../../src/ports.ts";
import { aDeployment } from "../../support/deployments.ts";
import { fakeReadIdentity, fakeSecrets, fakeServiceAccounts } from "../../support/fakes.ts";

const role = { "eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/shop" };
const secrets = fakeSecrets({ "shop/keys": { "a.agekey": "AGE-SECRET-KEY-1ABC" } });
const decryption = { secretName: "keys" };

test("without spec.decryption no keys are read, and with it the keys are secrets", async () => {
  const read = fakeReadIdentity({ secrets, serviceAccounts: fakeServiceAccounts({ "shop/deployer": role }) });
  const plain = await read(aDeployment({ spec: { serviceAccountName: "deployer" } }));
  expect(plain).toMatchObject({ decryption: undefined, secrets: [] });

  const keyed = await read(aDeployment({ spec: { decryption } }));
  expect(keyed.decryption).toEqual({ secretName: "shop/keys", data: { "a.agekey": "AGE-SECRET-KEY-1ABC" } });
  expect(keyed.secrets).toEqual(["AGE-SECRET-KEY-1ABC"]);

  expect((await read(aDeployment({ spec: { decryption } }), { decrypts: false })).decryption).toBeUndefined();
});

test.each([
  [{ secretName: "keys", serviceAccountName: "asked" }, "deployer", "usual", "asked"],
  [{}, "deployer", "usual", "deployer"],
  [{}, undefined, "usual", "usual"],
  [{}, undefined, undefined, undefined],
])("with %o, account %s and default %s, AWS sees account %s", async (spec, serviceAccountName, usual, account) => {
  const accounts = { "shop/asked": role, "shop/deployer": role, "shop/usual": role };
  const serviceAccounts = fakeServiceAccounts(accounts);
  const read = fakeReadIdentity({ secrets, serviceAccounts, defaultServiceAccount: usual });
  const deployment = aDeployment({ spec: { decryption: spec, serviceAccountName, timeoutMs: 1_200_000 } });
  // The preview's own account is for the cluster only.
  for (const options of [{}, { serviceAccount: "previewer" }]) {
    const { decryption: keys, secrets: hidden } = await read(deployment, options);
    const token = `token of shop/${account} for sts.amazonaws.com, 1200 s`;
    expect(keys?.webIdentity).toEqual(account && { roleArn: "arn:aws:iam::1:role/shop", token });
    if (account) expect(hidden).toContain(token);
  }
});

test("a token is valid for at least ten minutes", async () => {
  const serviceAccounts = fakeServiceAccounts({ "shop/deployer": role });
  const spec = { decryption: {}, serviceAccountName: "deployer", timeoutMs: 60_000 };
  const { decryption: keys } = await fakeReadIdentity({ serviceAccounts })(aDeployment({ spec }));
  expect(keys?.webIdentity?.token).toContain("600 s");
});

test("an account without a role, or one that exists only in another cluster, does not prevent decryption", async () => {
  const serviceAccounts = fakeServiceAccounts({ "shop/plain": {} });
  const read = fakeReadIdentity({ secrets, serviceAccounts });
  for (const serviceAccountName of ["plain", "elsewhere"]) {
    const { decryption: keys } = await read(aDeployment({ spec: { decryption, serviceAccountName } }));
    expect(keys?.webIdentity).toBeUndefined();
  }
});

test("a server that may not read service accounts still decrypts, unless spec.decryption names one", async () => {
  const forbidden = new ApiError(403, "GET …: 403 serviceaccounts is forbidden");
  const serviceAccounts: ServiceAccounts = { ...fakeServiceAccounts(), annotations: () => Promise.reject(forbidden) };
  const read = fakeReadIdentity({ secrets, serviceAccounts, defaultServiceAccount: "usual" });
  const { decryption: keys } = await read(aDeployment({ spec: { decryption } }));
  expect(keys).toMatchObject({ secretName: "shop/keys", webIdentity: undefined });
  const asked = { ...decryption, serviceAccountName: "asked" };
  await expect(read(aDeployment({ spec: { decryption: asked } }))).rejects.toBe(forbidden);
});

test("a missing Secret or account, and an invalid ARN, are named", async () => {
  const serviceAccounts = fakeServiceAccounts({ "shop/odd": { "eks.amazonaws.com/role-arn": "shop" } });
  const read = fakeReadIdentity({ serviceAccounts });
  const readOf = (decryption: { secretName?: string; serviceAccountName?: string }) =>
    read(aDeployment({ spec: { decryption } }));
  await expect(readOf(decryption)).rejects.toThrow(
    new PrepareError(`cannot get decryption Secret 'shop/keys': secrets "keys" not found`),
  );
  await expect(readOf({ serviceAccountName: "gone" })).rejects.toThrow(
    new PrepareError(`spec.decryption.serviceAccount: serviceaccounts "gone" not found in shop`),
  );
  await expect(readOf({ serviceAccountName: "odd" })).rejects.toThrow(
    new PrepareError("the annotation eks.amazonaws.com/role-arn of service account shop/odd is not an ARN"),
  );
});
