import { expect, test } from "vitest";
import { hostsAsking } from "../../../src/kluctl/asking-hosts.ts";
import { toLogins } from "../../../src/kluctl/logins.ts";
import { type GitCredential, noCredentials } from "../../../src/model.ts";

const login: GitCredential = {
  host: "git.test",
  namedHost: "git.test",
  secretName: "login",
  username: "bot",
  password: "pass",
};

const words = (...urls: string[]) =>
  ["Loading kluctl project", ...urls.map((url) => `Updating git cache for ${url}`), "authentication required"].join(
    "\n",
  );

test.each([
  ["another port of the host", ["https://git.test:8443/a/b.git"], ["git.test:8443"]],
  ["a user in the URL", ["https://me@GIT.test:8443/a/b"], ["git.test:8443"]],
  ["what is known already", ["https://git.test/a/b"], []],
  ["another host", ["https://evil.test/a/b", "https://git.test.evil.test/a"], []],
  ["another host that looks like it", ["https://git.test:x@evil.test/a", "https://evil.test/?git.test:1"], []],
  ["ssh, where the key was offered", ["ssh://git@git.test:2222/a/b"], []],
  ["several", ["https://git.test:1/a", "https://other.test/b", "http://git.test:2/c"], ["git.test:1", "git.test:2"]],
])("the hosts that ask for a login are read from kluctl's message about %s", (_name, urls, hosts) => {
  expect(hostsAsking(words(...urls), [login])).toEqual(hosts);
});

test("only the login of a source goes to a host that asks for one, and only when it asks", () => {
  const asked = words("https://git.test:8443/a/b");

  expect(hostsAsking(asked, [{ ...login, namedHost: undefined }])).toEqual([]);
  expect(hostsAsking(asked, [{ ...login, host: "*", namedHost: "" }])).toEqual([]);
  expect(hostsAsking(asked.replace("authentication required", "connection refused"), [login])).toEqual([]);
});

test("the password of a source is for its host and for ports of the same host that asked, and its key for all hosts", () => {
  const git = [{ ...login, identity: "KEY", knownHosts: "HOSTS", ca: "PEM" }];

  const logins = toLogins({ ...noCredentials, git }, "/j", ["git.test:8443", "evil.test:8443"]);

  expect(logins.git).toEqual([
    { HOST: "git.test", USERNAME: "bot", PASSWORD: "pass", CA_BUNDLE: "/j/git-0.ca" },
    { HOST: "git.test:8443", USERNAME: "bot", PASSWORD: "pass", CA_BUNDLE: "/j/git-1.ca" },
    { HOST: "*", USERNAME: "bot", SSH_KEY: "/j/git-2.key" },
  ]);
});

test("with an OCI artifact as source only the key of the login is used, if it has one", () => {
  const git = [{ ...login, host: "*", namedHost: "" }];

  expect(toLogins({ ...noCredentials, git }, "/j").git).toEqual([]);
});
