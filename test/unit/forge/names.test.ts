import { expect, test, vi } from "vitest";
import { pathOf } from "../../../src/forge/ask.ts";
import { createMemory } from "../../../src/forge/memory.ts";
import { createRepoNames } from "../../../src/forge/repo-name.ts";
import { shorten } from "../../../src/kit/shorten.ts";
import { repoId } from "../../../src/model/repo-url.ts";

const twoParts = (name: string) => name.split("/").length === 2;
const nested = (name: string) => name.split("/").length >= 2;

test.each([
  ["https://git.example.com", "https://git.example.com/org/repo.git", "org/repo"],
  ["https://git.example.com/", "git@git.example.com:Org/Repo.git", "org/repo"],
  ["https://GIT.example.com:3000", "ssh://git@git.example.com:2222/org/repo", "org/repo"],
  ["https://git.example.com", "https://git.example.com/org/group/repo", undefined],
  ["https://git.example.com", "https://git.example.com/repo", undefined],
  ["https://git.example.com", "https://git.example.com.evil.test/org/repo", undefined],
  ["https://example.com/forge", "https://example.com/forge/org/repo.git", "org/repo"],
  ["https://example.com/forge/", "git@example.com:org/repo.git", "org/repo"],
  ["https://example.com/forge", "https://example.com/elsewhere/org/repo.git", undefined],
])("on %s, %s is %s", (webUrl, url, name) => {
  const repo = repoId(url);
  expect(repo && createRepoNames(webUrl, twoParts)(repo)).toBe(name);
});

test.each([
  ["https://example.com/gitlab", "https://example.com/gitlab/group/sub/repo.git", "group/sub/repo"],
  ["https://example.com/gitlab", "git@example.com:group/sub/repo.git", "group/sub/repo"],
  ["https://example.com", "https://example.com/a/b/c/d", "a/b/c/d"],
])("on a host with nested groups, %s, %s is %s", (webUrl, url, name) => {
  const repo = repoId(url);
  expect(repo && createRepoNames(webUrl, nested)(repo)).toBe(name);
});

test("a text is shortened between characters and ends with an ellipsis", () => {
  expect(shorten("five!", 5)).toBe("five!");
  expect(shorten("more than five", 5)).toBe("more…");
  expect(shorten("🚀🚀🚀🚀", 3)).toBe("🚀🚀…");
});

test("a repository name cannot change the path of a request", () => {
  expect(pathOf`/repos/${"a b"}/${"../x?y#z"}/${7}`).toBe("/repos/a%20b/..%2Fx%3Fy%23z/7");
  for (const name of [".", "..", "%2e%2e", "a/../../b", "..\\.."]) {
    const { pathname } = new URL(`https://example.com/api/v1${pathOf`/repos/${name}/${name}/pulls`}`);
    expect(pathname).toMatch(/^\/api\/v1\/repos\/[^/]+\/[^/]+\/pulls$/);
  }
});

test("an answer is cached until it expires, and a failure is not cached", async () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  try {
    const memory = createMemory<number>(1_000);
    let asked = 0;
    const ask = () => Promise.resolve(++asked);
    await expect(memory.get("a", () => Promise.reject(new Error("not now")))).rejects.toThrow("not now");
    expect([await memory.get("a", ask), await memory.get("a", ask), await memory.get("b", ask)]).toEqual([1, 1, 2]);
    vi.advanceTimersByTime(1_001);
    expect(await memory.get("a", ask)).toBe(3);
  } finally {
    vi.useRealTimers();
  }
});

test("the cache is bounded and keeps the newest entries", async () => {
  const memory = createMemory<number>(Infinity);
  for (let i = 0; i < 3_000; i++) await memory.get(String(i), () => Promise.resolve(i));
  const again = () => Promise.resolve(-1);
  expect(await memory.get("2999", again)).toBe(2_999);
  expect(await memory.get("0", again)).toBe(-1);
});
