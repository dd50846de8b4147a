import { describe, expect, test } from "vitest";
import { createGithubForge } from "../../../src/forge/github/forge.ts";
import { toForgeError } from "../../../src/forge/github/problem.ts";
import { repoId } from "../../../src/model/repo-url.ts";
import { silentLog } from "../../support/fakes.ts";

describe("a repository's name", () => {
  function nameOf(apiUrl: string | undefined, url: string): string | undefined {
    const repo = repoId(url);
    return repo && createGithubForge({ id: "github", apiUrl, login: { token: "t" }, log: silentLog }).repoName(repo);
  }

  test.each([
    [undefined, "https://github.com/Org/Shop.git", "org/shop"],
    [undefined, "git@github.com:org/shop", "org/shop"],
    [undefined, "ssh://git@ssh.github.com:443/org/shop.git", "org/shop"],
    [undefined, "https://www.github.com/org/shop", "org/shop"],
    [undefined, "https://github.com/org", undefined],
    [undefined, "https://github.com/org/shop/tree", undefined],
    [undefined, "https://gitlab.com/org/shop", undefined],
    [undefined, "https://api.github.com/org/shop", undefined],
    [undefined, "https://notgithub.com/org/shop", undefined],
    ["https://api.github.com/", "https://github.com/org/shop", "org/shop"],
    ["https://git.example.com/api/v3", "git@git.example.com:org/shop.git", "org/shop"],
    ["https://git.example.com/api/v3/", "https://git.example.com/org/shop.git", "org/shop"],
    ["https://git.example.com/api/v3", "https://github.com/org/shop", undefined],
    ["https://api.example.com/api/v3", "https://api.example.com/org/shop", "org/shop"],
    ["https://api.example.ghe.com", "https://example.ghe.com/org/shop", "org/shop"],
  ])("%s: %s is %s", (apiUrl, url, name) => {
    expect(nameOf(apiUrl, url)).toBe(name);
  });
});

describe("an error response", () => {
  const date = "Sat, 21 Nov 2026 12:00:00 GMT";
  const before = String(Date.parse(date) / 1_000 - 5);
  const inTenMinutes = String(Date.parse(date) / 1_000 + 600);

  function explain(status: number, headers: Record<string, string>, message?: string, errors?: unknown[]) {
    const question = { what: "write a comment on org/repo#7", who: "the token" } as const;
    return toForgeError({ status, headers: { date, ...headers }, data: { message, errors } }, question);
  }

  test.each([
    ["a used up hour", 403, { "x-ratelimit-remaining": "0", "x-ratelimit-reset": inTenMinutes }, "", 600_000],
    ["a used up hour", 429, { "x-ratelimit-remaining": "0", "x-ratelimit-reset": inTenMinutes }, "", 600_000],
    ["a wait that is told goes before it", 403, { "retry-after": "7", "x-ratelimit-remaining": "0" }, "", 7_000],
    [
      "an hour that has begun anew meanwhile",
      403,
      { "x-ratelimit-remaining": "0", "x-ratelimit-reset": before },
      "",
      1_000,
    ],
    [
      "asking too fast, with most of the hour unused",
      403,
      { "x-ratelimit-remaining": "4000", "x-ratelimit-reset": inTenMinutes },
      "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.",
      60_000,
    ],
    ["an old Enterprise's words", 403, {}, "You have triggered an abuse detection mechanism.", 60_000],
    ["no word at all", 429, {}, "", 60_000],
  ])("is a rate limit with a wait: %s (%i %o)", (_, status, headers, message, retryAfterMs) => {
    expect(explain(status, headers, message)).toMatchObject({ problem: "rate-limited", retryAfterMs });
  });

  test("that is not about rate limits is not treated as one, whatever the headers count", () => {
    const headers = { "x-ratelimit-remaining": "4000", "x-ratelimit-reset": inTenMinutes };
    expect(explain(403, headers, "Must have admin rights to Repository.")).toMatchObject({
      problem: "unauthorized",
      message:
        'GitHub: cannot write a comment on org/repo#7: the token lacks the permission: "Must have admin rights to Repository." (403)',
    });
  });

  test("about single sign-on names it", () => {
    const sso = { "x-github-sso": "required; url=https://github.com/orgs/o/sso?authorization_request=abc" };
    expect(explain(403, sso, "Resource protected by organization SAML enforcement.")).toMatchObject({
      problem: "unauthorized",
      message: expect.stringContaining("single sign-on"),
    });
  });

  test("lists all permissions that would be enough", () => {
    const accepted = { "x-accepted-github-permissions": "issues=write; pull_requests=write" };
    expect(explain(403, accepted).message).toContain("(it needs issues=write or pull_requests=write)");
  });

  test.each([
    [
      "Validation Failed",
      [{ code: "custom", field: "body", message: "body is too long" }],
      '"Validation Failed: body is too long"',
    ],
    ["Validation Failed", ["first", { code: "missing" }, 7, "second"], '"Validation Failed: first: second"'],
    ["line\nbreaks", undefined, String.raw`"line\nbreaks"`],
    [undefined, undefined, "GitHub gave no reason"],
    [`Bearer ${"a1".repeat(20)}`, undefined, "is not shown, because it may contain a secret"],
  ])("repeats GitHub's message where it can: %j %j", (message, errors, words) => {
    expect(explain(422, {}, message, errors)).toMatchObject({
      problem: "refused",
      message: expect.stringContaining(words),
    });
  });

  test.each([408, 409, 500, 502, 503])("with status %i is transient", (status) => {
    expect(explain(status, {})).toMatchObject({ problem: "unreachable" });
  });

  test("without a body has a message too", () => {
    const question = { what: "read org/repo#7", who: "the App" } as const;
    expect(toForgeError({ status: 422, headers: {} }, question)).toMatchObject({
      problem: "refused",
      message: expect.stringContaining("GitHub gave no reason"),
    });
  });
});
