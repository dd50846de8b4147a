import { expect, test } from "vitest";
import { toReader, toRemote } from "../../../src/source/remote.ts";
import type { GitCredential } from "../../../src/model.ts";

const all = ["http", "https", "ssh"];
const remote = (url: string, credentials: readonly GitCredential[] = []) => toRemote({ url, credentials }, all);

test.each([
  ["https://u:secret@git.example.com/a/b.git", "https://git.example.com/a/b.git"],
  ["https://token@git.example.com/a/b", "https://git.example.com/a/b"],
  ["HTTPS://Git.Example.com:443/A/b", "https://git.example.com/A/b"],
  ["ssh://git:secret@git.example.com:2222/a/b", "ssh://git@git.example.com:2222/a/b"],
  ["git@git.example.com:a/b.git", "git@git.example.com:a/b.git"],
  ["git@git.example.com:/srv/b.git", "git@git.example.com:/srv/b.git"],
])("%s is read from %s", (url, address) => {
  expect(remote(url).address).toBe(address);
});

test("the label for users has neither login nor protocol", () => {
  expect(remote("https://u:secret@git.example.com:8443/a/b.git").label).toBe("git.example.com:8443/a/b");
});

test("a protocol that is not allowed is refused, without repeating the login", () => {
  expect(() => toRemote({ url: "http://u:secret@h/a", credentials: [] }, ["https", "ssh"])).toThrow(
    '"http://h/a" is not supported: only https, ssh URLs are',
  );
  expect(() => toRemote({ url: "http://u:sec@ret@h/a", credentials: [] }, ["https", "ssh"])).toThrow('"http://h/a"');
});

test("a password with a % that starts no escape sequence is used unchanged", () => {
  expect(remote("https://u:100%@h/a").login?.password).toBe("100%");
  expect(remote("https://u:a%40b@h/a").login?.password).toBe("a@b");
});

test("each repository has one mirror, in which each login is told apart", () => {
  const key = Buffer.alloc(32);
  const credential = { host: "h", secretName: "s", username: "u", password: "p" };
  const of = (url: string, over?: Partial<GitCredential>) =>
    toReader(remote(url, over ? [{ ...credential, ...over }] : []), key);
  const readers = [of("https://h/a"), of("https://h/a", {}), of("https://h/a", { password: "q" })];

  expect(new Set(readers.map(({ mirror }) => mirror)).size).toBe(1);
  expect(new Set(readers.map(({ login }) => login)).size).toBe(3);
  expect(of("https://h/a", { secretName: "renamed" })).toEqual(readers[1]);
  expect(of("https://h/b", {}).mirror).not.toBe(readers[1]?.mirror);
  const otherKey = toReader(remote("https://h/a", [credential]), Buffer.alloc(32, 1));
  expect(otherKey.login).not.toBe(readers[1]?.login);
  expect(JSON.stringify(readers)).not.toMatch(/https|"u"|"p"/);
});

test("a login that trusts another authority or other hosts has a mirror of its own", () => {
  const mirror = (url: string, over: Partial<GitCredential>) =>
    toReader(remote(url, [{ host: "h", secretName: "s", username: "u", password: "p", ...over }]), Buffer.alloc(32))
      .mirror;

  expect(mirror("https://h/a", { ca: "mine" })).not.toBe(mirror("https://h/a", {}));
  expect(mirror("https://h/a", { knownHosts: "for ssh" })).toBe(mirror("https://h/a", {}));
  const key = { identity: "key" };
  expect(mirror("ssh://h/a", { ...key, knownHosts: "one" })).not.toBe(
    mirror("ssh://h/a", { ...key, knownHosts: "two" }),
  );
});
