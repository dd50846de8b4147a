import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseRepoUrl, repoId, withoutLogin } from "../../../src/model/repo-url.ts";
import { cpuMs } from "../../support/cpu-time.ts";

const letters = "abcdefghijklmnopqrstuvwxyz0123456789";
const word = fc.string({ unit: fc.constantFrom(...letters), minLength: 1, maxLength: 8 });
// A last label that begins with a digit would be read as a part of an IPv4 address.
const host = fc.tuple(word, word).map(([name, domain]) => `${name}.x${domain}`);
const path = fc.array(word, { minLength: 1, maxLength: 4 }).map((parts) => parts.join("/"));

function spellings(name: string, at: string): string[] {
  const upper = name.toUpperCase();
  return [
    `https://${name}/${at}`,
    `https://${name}/${at}.git`,
    `https://${name}/${at}/`,
    `https://${name}:443/${at}.git`,
    `HTTPS://${upper}/${at.toUpperCase()}.GIT`,
    `http://${name}:3000/${at}`,
    `http://${name}:3000/${at}/.git`,
    `http://user:password@${name}/${at}`,
    `ssh://git@${name}/${at}.git`,
    `ssh://git@${name}:22/${at}`,
    `ssh://${name}:2222/${at}`,
    `git@${name}:${at}.git`,
    `git@${upper}:${at}`,
    `${name}:${at}`,
    `git@${name}:/${at}.git`,
    `git://${name}/${at}.git`,
  ];
}

test("every spelling of a repository's URL means the same repository", () => {
  fc.assert(
    fc.property(host, path, (name, at) => {
      for (const url of spellings(name, at)) expect(repoId(url), url).toBe(`${name}/${at}`);
    }),
  );
});

test("two repositories never have the same identity, whatever their spelling", () => {
  fc.assert(
    fc.property(fc.tuple(host, path), fc.tuple(host, path), (one, other) => {
      fc.pre(one.join("/") !== other.join("/"));
      const ids = new Set(spellings(...one).map(repoId));
      for (const url of spellings(...other)) expect(ids.has(repoId(url)), url).toBe(false);
    }),
  );
});

describe("a URL that looks like github.com/example/shop", () => {
  const real = repoId("https://github.com/example/shop");
  test.each([
    "https://github.com.evil.example/example/shop",
    "https://github.com@evil.example/example/shop",
    "https://github.com:secret@evil.example/example/shop",
    "https://evil.example/github.com/example/shop",
    "https://evil.example/?x=github.com/example/shop",
    "https://evil.example#github.com/example/shop",
    "https://github.com%2eevil.example/example/shop",
    "https://github.comexample/shop",
    "https://githubXcom/example/shop",
    "https://xn--gthub-n4a.com/example/shop",
    "https://github.com/example/shop2",
    "https://github.com/example/shop/extra",
    "https://github.com/example/shop.git.evil",
    "https://github.com/example%2fother/shop",
    "github.com.evil:example/shop",
    "git@evil.example:github.com/example/shop",
    "evil.example:git@github.com/example/shop",
  ])("%s is another repository", (url) => {
    expect(repoId(url)).not.toBe(real);
  });

  test.each([
    "https://github.com/../example/shop/..",
    "https://github.com/example/%2e%2e/%2e%2e/etc",
    "https://github.com/example//shop",
    "https://github.com/",
    "https://github.com/%zz",
    "file:///github.com/example/shop",
    "ext::sh -c id github.com/example/shop",
    "--upload-pack=id",
    "/srv/git/shop",
    "../shop",
    "https://github.com/example/shop\n",
    "https://github.com/exam\tple/shop",
    "ssh://-oProxyCommand=id/shop",
    "",
  ])("%j is not a repository", (url) => {
    const parsed = parseRepoUrl(url);
    // The URL parser resolves dots before we see them: the remaining path must stay on the host.
    if (parsed) expect(parsed.path).not.toMatch(/(^|\/)\.\.?(\/|$)/);
    expect(repoId(url)).not.toBe(real);
  });
});

test("any text gives an identity or none, and never an error", () => {
  const texts = fc.oneof(
    fc.string(),
    fc.webUrl({ withFragments: true, withQueryParameters: true }),
    fc.tuple(fc.constantFrom("https://", "ssh://", "git@", "http://x@"), fc.string()).map((parts) => parts.join("")),
    fc
      .tuple(fc.constant("https://h.example/"), fc.string({ unit: fc.constantFrom("%", "2", "e", "/", ".", "z") }))
      .map((parts) => parts.join("")),
    fc
      .tuple(fc.string({ unit: fc.constantFrom("%", "2", "f", "z", "@") }), fc.constant("@h.example/a"))
      .map((parts) => `https://${parts.join("")}`),
  );
  fc.assert(
    fc.property(texts, (text) => void repoId(text)),
    { numRuns: 500 },
  );
});

test("a very long URL is parsed in less than a second", () => {
  const startedAt = cpuMs();
  expect(repoId(`https://h.example/a${"/".repeat(1_000_000)}b`)).toBeUndefined();
  expect(cpuMs() - startedAt).toBeLessThan(1_000);
});

test.each([
  ["https://h.example/org/shop.git", { protocol: "https:", hostAndPort: "h.example", username: "", path: "org/shop" }],
  ["https://H.example:443/Org/Shop/", { protocol: "https:", hostAndPort: "h.example", path: "Org/Shop" }],
  ["http://h.example:443/a", { protocol: "http:", host: "h.example", hostAndPort: "h.example:443" }],
  ["ssh://git@h.example:22/a", { protocol: "ssh:", hostAndPort: "h.example", username: "git" }],
  ["ssh://git@h.example:2222/a", { host: "h.example", hostAndPort: "h.example:2222", username: "git" }],
  ["git://h.example:9418/a", { protocol: "git:", hostAndPort: "h.example" }],
  ["git@h.example:a/b.git", { protocol: "ssh:", host: "h.example", username: "git", path: "a/b" }],
  ["h.example:/a/b", { protocol: "ssh:", username: "", path: "a/b" }],
  ["git@[::1]:a/b", { protocol: "ssh:", host: "[::1]", path: "a/b" }],
  ["https://me%40org@h.example/a%20b", { username: "me@org", path: "a b" }],
  ["https://h.example/a.git.git", { path: "a.git" }],
  ["https://h.example/a/.git/", { path: "a" }],
  ["https://h.example/a.github/b", { path: "a.github/b" }],
  ["https://h.example//a//", { path: "a" }],
])("%s is parsed as git parses it", (url, expected) => {
  expect(parseRepoUrl(url)).toMatchObject(expected);
});

test.each([
  "https://h.example/a%0ab",
  "https://h.example/a b",
  "https://h.example/%zz",
  "https://%zz@h.example/a",
  "https://h.example/a/./b%2f..",
  "https://h.example/a%2f%2fb",
  "https://h.example/a%2f.%2fb",
  "-u@h.example:a/b",
  "https://h.example",
  "https://-h.example/a",
  "ext::sh",
  "ftp://h.example/a",
  `https://h.example/${"a".repeat(3_983)}`,
])("%s is not the URL of a repository", (url) => {
  expect(parseRepoUrl(url)).toBeUndefined();
});

test("a URL of 4,000 characters is accepted", () => {
  expect(parseRepoUrl(`https://h.example/${"a".repeat(3_982)}`)?.path).toHaveLength(3_982);
});

test.each([
  ["https://user:password@h.example/a", "https://h.example/a"],
  ["https://token@h.example/a@b", "https://h.example/a@b"],
  ["HTTPS://token@h.example/a", "HTTPS://h.example/a"],
  ["ssh://git@h.example/a", "ssh://git@h.example/a"],
  ["ssh://git:password@h.example/a", "ssh://git@h.example/a"],
  ["git@h.example:a/b", "git@h.example:a/b"],
  ["https://h.example/a@b", "https://h.example/a@b"],
])("%s is shown as %s", (url, shown) => {
  expect(withoutLogin(url)).toBe(shown);
});
