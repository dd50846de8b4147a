import { expect, test } from "vitest";
import { withGitLogins } from "../../../src/kluctl/environment.ts";
import { toLogins } from "../../../src/kluctl/logins.ts";

const secretName = "login";

test("passwords become variables, keys become files with flags", () => {
  const logins = toLogins(
    [
      { host: "Git.Example.com:8443", path: "/Org/*", secretName, username: "bot", password: "pass", ca: "PEM" },
      { host: "git.example.com", secretName, username: "*", identity: "KEY", knownHosts: "HOSTS\n" },
      { host: "both.example.com", secretName, username: "git", password: "pass", identity: "KEY\n" },
    ],
    "/j",
  );

  expect(logins.git).toEqual([
    { host: "git.example.com:8443", path: "org/*", username: "bot", password: "pass", caFile: "/j/git-0.ca" },
    { host: "both.example.com", path: undefined, username: "git", password: "pass", caFile: undefined },
  ]);
  expect(logins.flags).toEqual([
    "--git-username=git.example.com=*",
    "--git-ssh-key-file=git.example.com=/j/git-1.key",
    "--git-ssh-known-hosts-file=git.example.com=/j/git-1.hosts",
    "--git-username=both.example.com=git",
    "--git-ssh-key-file=both.example.com=/j/git-2.key",
  ]);
  expect(Object.fromEntries(logins.files)).toEqual({
    "/j/git-0.ca": "PEM",
    "/j/git-1.key": "KEY\n",
    "/j/git-1.hosts": "HOSTS\n",
    "/j/git-2.key": "KEY\n",
  });
});

test("of two keys for one place the first is used", () => {
  const key = (identity: string) => ({ host: "git", secretName, username: "git", identity });
  const { files } = toLogins([key("ONE"), key("TWO")], "/j");
  expect([...files.values()]).toEqual(["ONE\n"]);
});

test("a place that kluctl could not tell from its value is refused", () => {
  const credential = { host: "git", path: "a=b", secretName, username: "git", identity: "KEY" };
  expect(() => toLogins([credential], "/j")).toThrow('secret login cannot have a "="');
});

test("the deployment's logins come before the server's, which keep their order", () => {
  const shared = { KLUCTL_GIT_HOST: "first", KLUCTL_GIT_0_HOST: "second", KLUCTL_GIT_12_HOST: "third", PATH: "/bin" };
  const env = withGitLogins(shared, [{ host: "own", username: "bot", password: "pass" }]);
  expect(env).toEqual({
    PATH: "/bin",
    KLUCTL_GIT_0_HOST: "own",
    KLUCTL_GIT_0_USERNAME: "bot",
    KLUCTL_GIT_0_PASSWORD: "pass",
    KLUCTL_GIT_1_HOST: "first",
    KLUCTL_GIT_2_HOST: "second",
    KLUCTL_GIT_14_HOST: "third",
  });
});
