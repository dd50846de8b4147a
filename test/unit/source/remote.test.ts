import { expect, test } from "vitest";
import { toRemote, remoteId } from "../../../src/source/remote.ts";
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

test("each login and each repository has a mirror of its own", () => {
  const key = Buffer.alloc(32);
  const credential = { host: "h", secretName: "s", username: "u", password: "p" };
  const ids = [
    remoteId(remote("https://h/a"), key),
    remoteId(remote("https://h/a", [credential]), key),
    remoteId(remote("https://h/a", [{ ...credential, password: "q" }]), key),
    remoteId(remote("https://h/b", [credential]), key),
    remoteId(remote("https://h/a", [credential]), Buffer.alloc(32, 1)),
  ];
  expect(new Set(ids).size).toBe(ids.length);
  expect(remoteId(remote("https://h/a", [{ ...credential, secretName: "renamed" }]), key)).toBe(ids[1]);
});
