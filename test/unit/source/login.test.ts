import { expect, test } from "vitest";
import type { GitCredential } from "../../../src/model.ts";
import { parseRepoUrl } from "../../../src/model/repo-url.ts";
import { chooseLogin } from "../../../src/source/login.ts";

const https = "https://git.example.com/Shop/Web.git";
const ssh = "git@git.example.com:shop/web.git";

function chosen(url: string, credentials: readonly Partial<GitCredential>[], urlPassword = ""): string | undefined {
  const parsed = parseRepoUrl(url);
  if (parsed === undefined) throw new Error(`not a URL: ${url}`);
  const full = credentials.map((c, i) => ({
    host: "",
    secretName: `s${i}`,
    username: "u",
    password: "p",
    identity: "k",
    ...c,
  }));
  const { login } = chooseLogin(parsed, urlPassword, full);
  return login && (login.secretName ?? "url");
}

test.each([
  ["the host must be equal", https, [{ host: "git.example.org" }, { host: "GIT.example.com" }], "s1"],
  [
    "a port that is not the default belongs to the host",
    "https://h:8443/a/b",
    [{ host: "h" }, { host: "h:8443" }],
    "s1",
  ],
  ["the default port does not", "https://h:443/a/b", [{ host: "h" }], "s0"],
  ["any host is for ssh only", https, [{ host: "*" }, { host: "" }], undefined],
  ["any host", ssh, [{ host: "*" }], "s0"],
  ["no host is any host", ssh, [{ host: "" }], "s0"],
  ["the path is compared in lower case", https, [{ host: "git.example.com", path: "shop/*" }], "s0"],
  ["a star does not cross a slash", https, [{ host: "git.example.com", path: "*" }], undefined],
  ["two stars do", https, [{ host: "git.example.com", path: "**" }], "s0"],
  ["the first of several wins", https, [{ host: "git.example.com" }, { host: "git.example.com" }], "s0"],
  ["http wants a password", https, [{ host: "git.example.com", password: "" }, { host: "git.example.com" }], "s1"],
  ["ssh wants a key", ssh, [{ host: "*", identity: undefined }, { host: "*" }], "s1"],
  ["the URL's user stands in for *", "https://me@h/a/b", [{ host: "h", username: "*" }], "s0"],
  ["without one, * is of no use for http", "https://h/a/b", [{ host: "h", username: "*" }], undefined],
  ["the login of a source is for any port of its host", "https://h:8443/a/b", [{ host: "h", namedHost: "h" }], "s0"],
  ["the login of a source is for no other host", "https://g/a/b", [{ host: "h", namedHost: "h" }], undefined],
  ["the key of a source is for any host", "ssh://git@g/a/b", [{ host: "h", namedHost: "h" }], "s0"],
  ["a name that only ends like the host is another one", "https://evil.h/a", [{ host: "h" }], undefined],
])("%s", (_name, url, credentials, secret) => {
  expect(chosen(url, credentials)).toBe(secret);
});

test("a password in the URL is used if no Secret matches it", () => {
  expect(chosen("https://me:pw@h/a/b", [{ host: "other" }], "pw")).toBe("url");
  expect(chosen("https://me:pw@h/a/b", [{ host: "h" }], "pw")).toBe("s0");
});
