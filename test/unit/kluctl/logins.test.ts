import { expect, test } from "vitest";
import { withGitLogins } from "../../../src/kluctl/environment.ts";
import { explainHostKey, toLogins } from "../../../src/kluctl/logins.ts";

const secretName = "login";

test("passwords become variables, keys become files, in the order of the spec", () => {
  const logins = toLogins(
    [
      { host: "Git.Example.com:8443", path: "/Org/*", secretName, username: "bot", password: "pass", ca: "PEM" },
      { host: "git.example.com", secretName, username: "*", identity: "KEY", knownHosts: "ONE" },
      {
        host: "both.example.com",
        secretName,
        username: "git",
        password: "pass",
        identity: "KEY\n",
        knownHosts: "TWO\n",
      },
    ],
    "/j",
  );

  expect(logins.git).toEqual([
    { host: "git.example.com:8443", path: "org/*", username: "bot", password: "pass", caFile: "/j/git-0.ca" },
    { host: "git.example.com", username: "*", keyFile: "/j/git-1.key" },
    { host: "both.example.com", username: "git", password: "pass", keyFile: "/j/git-2.key" },
  ]);
  expect(logins.knownHosts).toBe("/j/known_hosts");
  expect(Object.fromEntries(logins.files)).toEqual({
    "/j/git-0.ca": "PEM",
    "/j/git-1.key": "KEY\n",
    "/j/git-2.key": "KEY\n",
    "/j/known_hosts": "ONE\nTWO\n",
  });
});

test("a login with neither a password nor a key is none", () => {
  const logins = toLogins([{ host: "git", secretName, username: "git", password: "", knownHosts: "ONE" }], "/j");
  expect(logins).toMatchObject({ git: [], knownHosts: undefined });
});

test("a key without known hosts knows none, and those of the server's home are not asked for", () => {
  const { files } = toLogins([{ host: "git", secretName, username: "git", identity: "KEY" }], "/j");
  expect(files.get("/j/known_hosts")).toBe("");
});

test("a password that cannot be handed over is refused without being shown", () => {
  const credential = { host: "git", secretName, username: "git", password: "hunter2\0" };
  expect(() => toLogins([credential], "/j")).toThrow("The git login in secret login has a NUL character.");
});

test("the deployment's logins come before the server's, which keep their order", () => {
  const shared = { KLUCTL_GIT_HOST: "first", KLUCTL_GIT_0_HOST: "second", KLUCTL_GIT_12_HOST: "third", PATH: "/bin" };
  const own = { host: "own", username: "bot", password: "pass", keyFile: "/j/key" };
  expect(withGitLogins(shared, [own])).toEqual({
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

test("hosts that the deployment knows are added to those that the server knows", () => {
  expect(withGitLogins({}, [], "/j/known_hosts")).toEqual({ SSH_KNOWN_HOSTS: "/j/known_hosts" });
  expect(withGitLogins({ SSH_KNOWN_HOSTS: "/etc/hosts" }, [], "/j/known_hosts")).toEqual({
    SSH_KNOWN_HOSTS: "/j/known_hosts:/etc/hosts",
  });
  expect(withGitLogins({ SSH_KNOWN_HOSTS: "/etc/hosts" }, [])).toEqual({ SSH_KNOWN_HOSTS: "/etc/hosts" });
});

test("a host that is not known is said in words that help", () => {
  const words = explainHostKey("ssh: handshake failed: host not found and SSH_KNOWN_HOSTS has been set");
  expect(words).toBe("ssh: handshake failed: the host's key is not known: put it into known_hosts of the secret");
});
