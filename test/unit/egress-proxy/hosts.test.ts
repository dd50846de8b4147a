import { expect, test } from "vitest";
import { matchesRule, parseHostRule, parseTarget } from "../../../src/kit/host-rule.ts";

function allows(rule: string, target: string, defaultPort = 443): boolean {
  const [known, wanted] = [parseHostRule(rule), parseTarget(target)];
  return known !== undefined && wanted !== undefined && matchesRule(wanted, known, defaultPort);
}

test.each([
  ["git.example.com", "git.example.com:443"],
  ["Git.Example.COM", "git.example.com:443"],
  ["git.example.com", "GIT.example.com.:443"],
  ["git.example.com:8443", "git.example.com:8443"],
  ["*.example.com", "a.b.example.com:443"],
  ["*.example.com:8443", "a.example.com:8443"],
  ["bücher.example", "xn--bcher-kva.example:443"],
  ["127.0.0.1:3000", "127.0.0.1:3000"],
  ["127.0.0.1", "0x7f000001:443"],
  ["[2001:db8::1]", "[2001:db8:0:0::1]:443"],
])("%s allows %s", (rule, target) => {
  expect(allows(rule, target)).toBe(true);
});

test.each([
  ["git.example.com", "git.example.com:22"],
  ["git.example.com", "git.example.com:80"],
  ["git.example.com:8443", "git.example.com:443"],
  ["git.example.com", "evil.example.com:443"],
  ["git.example.com", "git.example.com.evil.example:443"],
  ["git.example.com", "notgit.example.com:443"],
  ["*.example.com", "example.com:443"],
  ["*.example.com", "notexample.com:443"],
  ["*.example.com", "*.example.com:443"],
  ["*", "example.com:443"],
  ["*.", "example.com:443"],
  ["a*.example.com", "ab.example.com:443"],
  ["git.example.com", "user@git.example.com:443"],
  ["git.example.com", "git.example.com/@x:443"],
  ["git.example.com", "git.example.com:0"],
  ["git.example.com", "git.example.com:99999"],
  ["git.example.com", "git.example.com"],
  ["git.example.com", ""],
  ["", ":443"],
])("%s does not allow %s", (rule, target) => {
  expect(allows(rule, target)).toBe(false);
});

test("a host without a port means the protocol's default port", () => {
  expect(allows("charts.example.com", "charts.example.com:80", 80)).toBe(true);
  expect(allows("charts.example.com", "charts.example.com:443", 80)).toBe(false);
});
