import { expect, test } from "vitest";
import {
  credentialSecrets,
  credentialsKey,
  includedLoginKey,
  loginKey,
  readCredentials,
} from "../../../src/access/credentials.ts";
import { aDeployment } from "../../support/deployments.ts";

type Data = Record<string, string>;

/** Reads the logins of a deployment that names each Secret once in each list. */
async function read(secrets: Record<string, Data>) {
  const names = Object.keys(secrets).map((secretName) => ({ secretName }));
  const deployment = aDeployment({
    spec: {
      gitCredentials: names.map((name) => ({ host: "git.test", path: "org/*", ...name })),
      ociCredentials: names.map((name) => ({ registry: "registry.test", repository: "org/**", ...name })),
      helmCredentials: names.map((name) => ({ host: "charts.test", path: "stable", ...name })),
    },
  });
  const get = (namespace: string, name: string) => Promise.resolve(namespace === "shop" ? secrets[name] : undefined);
  return readCredentials(deployment, { get });
}

const tls = { cert: "CERT", key: "KEY", ca: "CA" };

test("every key of a Secret is read into its field", async () => {
  const { git, oci, helm } = await read({
    all: {
      username: "ada",
      password: "pass",
      identity: "PRIVATE",
      known_hosts: "HOSTS",
      identityToken: "refresh",
      token: "bearer",
      plainHttp: "true",
      insecureSkipTlsVerify: "1",
      passCredentialsAll: "T",
      ...tls,
      caFile: "GIT-CA",
    },
  });

  const secretName = "shop/all";
  const login = { secretName, username: "ada", password: "pass" };
  const git0 = { host: "git.test", path: "org/*", ...login, identity: "PRIVATE", knownHosts: "HOSTS", ca: "GIT-CA" };
  expect(git).toEqual([git0]);
  expect(oci).toEqual([
    {
      registry: "registry.test",
      repository: "org/**",
      ...login,
      identityToken: "refresh",
      token: "bearer",
      plainHttp: true,
      insecureSkipTlsVerify: true,
      ...tls,
    },
  ]);
  expect(helm).toEqual([
    { host: "charts.test", path: "stable", ...login, passCredentialsAll: true, insecureSkipTlsVerify: true, ...tls },
  ]);
});

test("an empty Secret gives a git login the URL's user name, and enables nothing", async () => {
  const { git, oci, helm } = await read({ empty: {} });
  expect(git).toMatchObject([{ username: "*" }]);
  expect(oci).toMatchObject([{ plainHttp: false, insecureSkipTlsVerify: false }]);
  expect(helm).toMatchObject([{ passCredentialsAll: false, insecureSkipTlsVerify: false }]);
});

test("the longer key names of certificates count if the shorter ones are absent", async () => {
  const { oci, helm } = await read({ files: { certFile: "CERT", keyFile: "KEY", caFile: "CA", ca: "CA-2" } });
  for (const login of [...oci, ...helm]) expect(login).toMatchObject({ cert: "CERT", key: "KEY", ca: "CA-2" });
});

test.for(["yes", "on", "0", "TrUe", ""])("%j does not enable insecure connections", async (insecure) => {
  const { helm } = await read({ odd: { insecure, insecureSkipTlsVerify: "true" } });
  expect(helm).toMatchObject([{ insecureSkipTlsVerify: false }]);
});

test("logins keep the order of the spec", async () => {
  const { git, oci, helm } = await read({ b: {}, a: {}, c: {} });
  for (const list of [git, oci, helm]) {
    expect(list.map(({ secretName }) => secretName)).toEqual(["shop/b", "shop/a", "shop/c"]);
  }
});

test.for(["git", "oci", "helm"] as const)("a missing Secret of credentials.%s is reported", async (list) => {
  const deployment = aDeployment({ spec: { [`${list}Credentials`]: [{ secretName: "gone" }] } });
  await expect(readCredentials(deployment, { get: () => Promise.resolve(undefined) })).rejects.toThrow(
    `failed to get secret 'gone': it does not exist in namespace shop, but spec.credentials.${list} of shop/prod references it`,
  );
});

test("all secret parts of a login are known as secrets, and no others", async () => {
  const credentials = await read({
    all: {
      username: "adaaaa",
      password: "password-1",
      identity: "BEGIN\nprivate-2",
      identityToken: "refresh-3",
      token: "bearer-4",
      key: "BEGIN\nprivate-5",
      cert: "certificate",
      ca: "authority",
    },
  });
  const secrets = credentialSecrets(credentials);
  expect(new Set(secrets)).toEqual(
    new Set(["password-1", "BEGIN\nprivate-2", "private-2", "refresh-3", "bearer-4", "BEGIN\nprivate-5", "private-5"]),
  );
});

test("logins of other kinds change the credentials key, but not the login key of the repository", () => {
  const plain = aDeployment();
  const withHelm = aDeployment({ spec: { helmCredentials: [{ host: "charts.test", secretName: "a" }] } });
  expect(loginKey(withHelm)).toBe(loginKey(plain));
  expect(credentialsKey(withHelm)).not.toBe(credentialsKey(plain));
  expect(credentialsKey(plain)).toBe(credentialsKey(aDeployment({ key: { namespace: "other", name: "prod" } })));
  expect(loginKey(aDeployment({ spec: { serviceAccountName: "deployer" } }))).toBe(loginKey(plain));
  // One account may be allowed to read the Secret, and another not.
  const withLogin = { gitCredentials: [{ host: "git.test", secretName: "a" }] };
  const deployer = aDeployment({ spec: { ...withLogin, serviceAccountName: "deployer" } });
  expect(loginKey(deployer)).not.toBe(loginKey(aDeployment({ spec: withLogin })));
});

test("an included repository is asked once for all that have the same login for it, whether they follow or include it", () => {
  const [shop, library] = ["https://git.test/org/shop", "https://git.test/org/library"];
  const elsewhere = "https://other.test/org/library";
  const from = (
    url: string,
    gitCredentials: readonly { host: string; bySource?: boolean; secretName: string }[] = [],
  ) => aDeployment({ spec: { source: { url, ref: {}, path: "" }, gitCredentials } });
  const own = [{ host: "", bySource: true, secretName: "a" }];
  expect(includedLoginKey(from(shop), library)).toBe(loginKey(from(library)));
  expect(includedLoginKey(from(shop, own), library)).toBe(loginKey(from(library, own)));
  // The login of a source on another host does not count for this one.
  expect(includedLoginKey(from(shop, own), elsewhere)).not.toBe(loginKey(from(elsewhere, own)));
  expect(includedLoginKey(from(shop, [{ host: "*", secretName: "a" }]), library)).not.toBe(loginKey(from(library)));
});

test("a Secret of spec.helmCredentials contains the repository that it is for", async () => {
  const secrets: Record<string, Data> = {
    byUrl: { url: "https://charts.test:8443/stable/", username: "ada" },
    byId: { credentialsId: "charts", password: "pass" },
  };
  const names = Object.keys(secrets).map((secretName) => ({ secretName, bySecret: true }));
  const deployment = aDeployment({ spec: { helmCredentials: names } });
  const { helm } = await readCredentials(deployment, { get: (_, name) => Promise.resolve(secrets[name]) });
  expect(helm).toMatchObject([
    { host: "charts.test:8443", path: "stable", username: "ada" },
    { host: "", credentialsId: "charts", password: "pass" },
  ]);
  await expect(readCredentials(deployment, { get: () => Promise.resolve(undefined) })).rejects.toThrow(
    "but spec.helmCredentials of shop/prod references it",
  );
});

test.each([
  ["https://git.test/org/repo", { host: "git.test", namedHost: "git.test" }],
  ["http://Git.test:3000/org/repo", { host: "git.test:3000", namedHost: "git.test" }],
  ["git@git.test:org/repo", { host: "git.test", namedHost: "git.test" }],
  ["oci://registry.test/org/repo", { host: "*", namedHost: "" }],
])("the login beside source %s is for its host", async (url, place) => {
  const source = { kind: "git" as const, url, ref: {}, path: "" };
  const deployment = aDeployment({ spec: { source, gitCredentials: [{ secretName: "login", bySource: true }] } });

  const { git } = await readCredentials(deployment, { get: async () => ({ password: "pass" }) });

  expect(git).toEqual([{ ...place, secretName: "shop/login", username: "*", password: "pass" }]);
});

test("a missing Secret is named with the field that refers to it", async () => {
  const deployment = aDeployment({ spec: { gitCredentials: [{ secretName: "login", bySource: true }] } });

  const read = readCredentials(deployment, { get: async () => undefined });

  await expect(read).rejects.toThrow(/^failed to get secret 'login': .* spec.source.secretRef of shop/);
});
