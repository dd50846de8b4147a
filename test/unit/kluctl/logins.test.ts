import { expect, test } from "vitest";
import { withLogins } from "../../../src/kluctl/environment.ts";
import { explainHostKey, explainRefusal, toLogins } from "../../../src/kluctl/logins.ts";
import { PrepareError } from "../../../src/errors.ts";
import {
  type Credentials,
  type GitCredential,
  type HelmCredential,
  noCredentials,
  type OciCredential,
} from "../../../src/model.ts";

const secretName = "login";
const gitLogins = (...git: GitCredential[]) => toLogins({ ...noCredentials, git }, "/j");
const none = { git: [], oci: [], helm: [] };

test("passwords become variables and keys become files, in the order of the spec", () => {
  const logins = gitLogins(
    { host: "Git.Example.com:8443", path: "/Org/*", secretName, username: "bot", password: "pass", ca: "PEM" },
    { host: "git.example.com", secretName, username: "*", identity: "KEY", knownHosts: "ONE" },
    { host: "both.example.com", secretName, username: "git", password: "pass", identity: "KEY\n", knownHosts: "TWO\n" },
  );

  expect(logins.git).toEqual([
    { HOST: "git.example.com:8443", PATH: "org/*", USERNAME: "bot", PASSWORD: "pass", CA_BUNDLE: "/j/git-0.ca" },
    { HOST: "git.example.com", USERNAME: "*", SSH_KEY: "/j/git-1.key" },
    { HOST: "both.example.com", USERNAME: "git", PASSWORD: "pass", SSH_KEY: "/j/git-2.key" },
  ]);
  expect(logins.knownHosts).toBe("/j/known_hosts");
  expect(Object.fromEntries(logins.files)).toEqual({
    "/j/git-0.ca": "PEM",
    "/j/git-1.key": "KEY\n",
    "/j/git-2.key": "KEY\n",
    "/j/known_hosts": "ONE\nTWO\n",
  });
});

const tls = { cert: "CERT", key: "KEY", ca: "CA", insecureSkipTlsVerify: true };
const anOci: OciCredential = { registry: "ghcr.io", secretName, plainHttp: false, insecureSkipTlsVerify: false };
const aHelm: HelmCredential = {
  host: "charts.test:8443",
  secretName,
  passCredentialsAll: false,
  insecureSkipTlsVerify: false,
};

test("every part of a login for a registry has its variable or its file", () => {
  const all = { username: "bot", password: "pass", identityToken: "refresh", token: "bearer", plainHttp: true };
  const { oci, files } = toLogins({ ...none, oci: [anOci, { ...anOci, repository: "org/**", ...all, ...tls }] }, "/j");

  expect(oci).toEqual([
    { HOST: "ghcr.io", PLAIN_HTTP: "false", INSECURE_SKIP_TLS_VERIFY: "false" },
    {
      HOST: "ghcr.io",
      REPOSITORY: "org/**",
      USERNAME: "bot",
      PASSWORD: "pass",
      IDENTITY_TOKEN: "refresh",
      TOKEN: "bearer",
      PLAIN_HTTP: "true",
      CERT_FILE: "/j/oci-1.cert",
      KEY_FILE: "/j/oci-1.key",
      CA_FILE: "/j/oci-1.ca",
      INSECURE_SKIP_TLS_VERIFY: "true",
    },
  ]);
  expect(Object.fromEntries(files)).toEqual({ "/j/oci-1.cert": "CERT", "/j/oci-1.key": "KEY", "/j/oci-1.ca": "CA" });
});

test("every part of a login for a Helm repository has its variable or its file", () => {
  const all = { username: "bot", password: "pass", passCredentialsAll: true };
  const { helm, files } = toLogins({ ...none, helm: [{ ...aHelm, path: "stable/*", ...all, ...tls }, aHelm] }, "/j");

  expect(helm).toEqual([
    {
      HOST: "charts.test:8443",
      PATH: "stable/*",
      USERNAME: "bot",
      PASSWORD: "pass",
      PASS_CREDENTIALS_ALL: "true",
      CERT_FILE: "/j/helm-0.cert",
      KEY_FILE: "/j/helm-0.key",
      CA_FILE: "/j/helm-0.ca",
      INSECURE_SKIP_TLS_VERIFY: "true",
    },
    { HOST: "charts.test:8443", PASS_CREDENTIALS_ALL: "false", INSECURE_SKIP_TLS_VERIFY: "false" },
  ]);
  expect(Object.fromEntries(files)).toEqual({ "/j/helm-0.cert": "CERT", "/j/helm-0.key": "KEY", "/j/helm-0.ca": "CA" });
});

test("Docker's registry gets the name that kluctl uses for it, and a login without a host is ignored", () => {
  const oci = [
    { ...anOci, registry: "" },
    { ...anOci, registry: "docker.io" },
  ];
  const logins = toLogins({ git: [], oci, helm: [{ ...aHelm, host: "" }] }, "/j");
  expect(logins.oci.map(({ HOST }) => HOST)).toEqual(["index.docker.io"]);
  expect(logins.helm).toEqual([]);
});

test("a login with neither a password nor a key is ignored", () => {
  const logins = gitLogins({ host: "git", secretName, username: "git", password: "", knownHosts: "ONE" });
  expect(logins).toMatchObject({ git: [], knownHosts: undefined });
});

test("a key without known hosts gets an empty known_hosts file, so that those in the server's home are not used", () => {
  const { files } = gitLogins({ host: "git", secretName, username: "git", identity: "KEY" });
  expect(files.get("/j/known_hosts")).toBe("");
});

test("a password that cannot be passed on is refused without being shown", () => {
  const password = "hunter2\0";
  expect(() => gitLogins({ host: "git", secretName, username: "git", password })).toThrow(
    "The git login in secret login has a NUL character.",
  );
  expect(() => toLogins({ ...none, oci: [{ ...anOci, token: password }] }, "/j")).toThrow(
    "The OCI login in secret login has a NUL character.",
  );
  expect(() => toLogins({ ...none, helm: [{ ...aHelm, password }] }, "/j")).toThrow(
    "The Helm login in secret login has a NUL character.",
  );
});

test("the deployment's logins come before the server's, which keep their order", () => {
  const shared = { KLUCTL_GIT_HOST: "first", KLUCTL_GIT_0_HOST: "second", KLUCTL_GIT_12_HOST: "third", PATH: "/bin" };
  const own = { HOST: "own", USERNAME: "bot", PASSWORD: "pass", SSH_KEY: "/j/key", CA_BUNDLE: undefined };
  expect(withLogins(shared, { ...none, git: [own] })).toEqual({
    PATH: "/bin",
    KLUCTL_GIT_0_HOST: "own",
    KLUCTL_GIT_0_USERNAME: "bot",
    KLUCTL_GIT_0_PASSWORD: "pass",
    KLUCTL_GIT_0_SSH_KEY: "/j/key",
    KLUCTL_GIT_1_HOST: "first",
    KLUCTL_GIT_2_HOST: "second",
    KLUCTL_GIT_14_HOST: "third",
  });
});

test("logins of one kind move neither those of another nor the defaults of a kind", () => {
  const shared = {
    KLUCTL_REGISTRY_HOST: "theirs",
    KLUCTL_HELM_3_HOST: "theirs",
    KLUCTL_HELM_DEFAULT_INSECURE_SKIP_TLS_VERIFY: "true",
  };
  expect(withLogins(shared, { git: [], oci: [{ HOST: "a" }, { HOST: "b" }], helm: [{ HOST: "c" }] })).toEqual({
    KLUCTL_REGISTRY_0_HOST: "a",
    KLUCTL_REGISTRY_1_HOST: "b",
    KLUCTL_REGISTRY_2_HOST: "theirs",
    KLUCTL_HELM_0_HOST: "c",
    KLUCTL_HELM_5_HOST: "theirs",
    KLUCTL_HELM_DEFAULT_INSECURE_SKIP_TLS_VERIFY: "true",
  });
});

test("the deployment's known hosts are added to the server's", () => {
  expect(withLogins({}, none, "/j/known_hosts")).toEqual({ SSH_KNOWN_HOSTS: "/j/known_hosts" });
  expect(withLogins({ SSH_KNOWN_HOSTS: "/etc/hosts" }, none, "/j/known_hosts")).toEqual({
    SSH_KNOWN_HOSTS: "/j/known_hosts:/etc/hosts",
  });
  expect(withLogins({ SSH_KNOWN_HOSTS: "/etc/hosts" }, none)).toEqual({ SSH_KNOWN_HOSTS: "/etc/hosts" });
});

test("an unknown host key is reported with what to do", () => {
  const words = explainHostKey("ssh: handshake failed: host not found and SSH_KNOWN_HOSTS has been set");
  expect(words).toBe("ssh: handshake failed: the host's key is not known: put it into known_hosts of the secret");
});

test("a rejected login is reported with the logins that match, and never with their contents", () => {
  const said = new PrepareError("failed to fetch https://h.test:8443/index.yaml : 401 Unauthorized");
  const helm = { ...aHelm, host: "h.test:8443", secretName: "shop/helm", password: "canary" };
  const explain = (credentials: Partial<Credentials>) =>
    (explainRefusal(said, { credentials: { ...noCredentials, ...credentials } }) as Error).message;

  const others = [
    { ...helm, host: "other.test" },
    { ...helm, secretName: "" },
  ];
  expect(explain({ helm: [...others, helm, { ...helm, path: "/sta*" }] })).toBe(
    `${said.message}\n\nConfigured logins for it: spec.credentials.helm for h.test:8443 (secret shop/helm), ` +
      "spec.credentials.helm for h.test:8443/sta* (secret shop/helm).",
  );
  for (const unfit of [[], others]) {
    expect(explain({ helm: unfit })).toContain("No entry of spec.credentials.git, oci or helm matches its host");
  }
});

test("if kluctl does not name the repository that rejected the login, the repositories that it fetched are named", () => {
  const git = [
    { host: "git.test:8443", secretName: "shop/git", username: "ada", password: "canary" },
    { host: "other.test", secretName: "shop/other", username: "ada", password: "canary" },
  ];
  const stderr = "Loading kluctl project\nUpdating git cache for https://ada:canary@git.test:8443/org/shop.git\n";
  for (const said of ["authentication required", "ssh: handshake failed: ssh: unable to authenticate"]) {
    const error = explainRefusal(new PrepareError(said), { credentials: { ...noCredentials, git } }, stderr);
    expect((error as Error).message).toBe(
      `${said}\n\nRepositories fetched: git.test:8443/org/shop. ` +
        "Configured logins for it: spec.credentials.git for git.test:8443 (secret shop/git).",
    );
  }
});

test("a login rejected by the cluster of spec.kubeConfig is distinguished from the server's own", () => {
  const said = new PrepareError("the server has asked for the client to provide credentials");
  const cluster = { kubeconfig: "", fingerprint: "" };
  expect(explainRefusal(said, { credentials: noCredentials })).toBe(said);
  expect(String(explainRefusal(said, { credentials: noCredentials, cluster }))).toContain(
    "cluster of spec.kubeConfig rejected",
  );
});
