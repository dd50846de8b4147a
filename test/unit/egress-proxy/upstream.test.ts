import { expect, test } from "vitest";
import { findUpstream } from "../../../src/egress-proxy/upstream.ts";
import { parseTarget } from "../../../src/kit/host-rule.ts";

const proxies = { HTTPS_PROXY: "http://proxy.example:3128", http_proxy: "plain.example:3128" };

function upstream(target: string, env: Record<string, string> = {}, protocol: "http" | "https" = "https") {
  return findUpstream({ ...proxies, ...env }, protocol, parseTarget(target)!)?.host;
}

test("each protocol has its own proxy, with or without a scheme", () => {
  expect(upstream("git.example:443")).toBe("proxy.example:3128");
  expect(upstream("git.example:80", {}, "http")).toBe("plain.example:3128");
  expect(findUpstream({}, "https", parseTarget("git.example:443")!)).toBeUndefined();
  expect(upstream("git.example:443", { HTTPS_PROXY: "socks5://proxy.example" })).toBeUndefined();
});

test.each([
  ["*", "git.example:443"],
  ["git.example", "git.example:443"],
  ["example", "git.example:443"],
  [".example", "git.example:443"],
  ["*.example", "git.example:443"],
  ["other, git.example:443", "git.example:443"],
  ["10.0.0.0/8", "10.1.2.3:443"],
  ["10.1.2.3", "10.1.2.3:443"],
  ["2001:db8::/32", "[2001:db8::1]:443"],
  ["2001:db8::1", "[2001:db8::1]:443"],
])("NO_PROXY %s matches %s", (exceptions, target) => {
  expect(upstream(target, { NO_PROXY: exceptions })).toBeUndefined();
});

test.each([
  ["", "git.example:443"],
  [".git.example", "git.example:443"],
  ["git.example:80", "git.example:443"],
  ["it.example", "git.example:443"],
  ["10.0.0.0/8", "11.1.2.3:443"],
  ["10.0.0.0/99", "10.1.2.3:443"],
  ["10.0.0.0/8", "git.example:443"],
])("NO_PROXY %s does not match %s", (exceptions, target) => {
  expect(upstream(target, { NO_PROXY: exceptions })).toBe("proxy.example:3128");
});
