import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseRepoUrl, repoId } from "../../../src/repo-url.ts";
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

test("every spelling of a repository's URL is the same repository", () => {
  fc.assert(
    fc.property(host, path, (name, at) => {
      for (const url of spellings(name, at)) expect(repoId(url), url).toBe(`${name}/${at}`);
    }),
  );
});

test("two repositories are never the same one, whatever their spelling", () => {
  fc.assert(
    fc.property(fc.tuple(host, path), fc.tuple(host, path), (one, other) => {
      fc.pre(one.join("/") !== other.join("/"));
      const ids = new Set(spellings(...one).map(repoId));
      for (const url of spellings(...other)) expect(ids.has(repoId(url)), url).toBe(false);
    }),
  );
});

describe("what looks like github.com/example/shop", () => {
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
  ])("%s is something else", (url) => {
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
  ])("%j is no repository", (url) => {
    const parsed = parseRepoUrl(url);
    // The URL parser resolves dots before we see them: what is left must not leave the host.
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

test("no URL keeps it busy, however long", () => {
  const startedAt = cpuMs();
  expect(repoId(`https://h.example/a${"/".repeat(1_000_000)}b`)).toBeUndefined();
  expect(cpuMs() - startedAt).toBeLessThan(1_000);
});
