import { expect, test } from "vitest";
import { createIsHostedBy, createSpeaksFor, type HostedForge } from "../../../src/forge/forge-hosts.ts";

const aForge = (id: HostedForge["kind"], more: Partial<HostedForge> = {}): HostedForge => ({
  id,
  kind: id,
  hosts: [],
  ...more,
});
const gitea = aForge("gitea", { apiUrl: "http://gitea.gitea.svc:3000/api/v1", webUrl: "https://Git.example.com" });
const speaksFor = createSpeaksFor([
  aForge("github"),
  aForge("gitlab", { apiUrl: "https://gitlab.example.com/api/v4", hosts: ["SSH.example.com"] }),
  gitea,
]);

test.each([
  ["github", "https://github.com/org/shop.git"],
  ["github", "ssh://git@ssh.github.com:443/org/shop.git"],
  ["gitlab", "git@gitlab.example.com:group/shop.git"],
  ["gitlab", "git@ssh.example.com:group/shop.git"],
  ["gitea", "https://git.example.com/org/shop"],
  ["gitea", "http://gitea.gitea.svc:3000/org/shop.git"],
])("only %s may report on %s", (forge, url) => {
  const who = ["github", "gitlab", "gitea"].filter((id) => speaksFor(id, url));
  expect(who).toEqual([forge]);
});

test("any forge may report on a host without a forge, and none on a path that is not a repository", () => {
  expect(["github", "gitlab", "gitea"].filter((id) => speaksFor(id, "https://mirror.example.com/shop"))).toHaveLength(
    3,
  );
  expect(speaksFor("gitlab", "https://gitlab.com/group/shop")).toBe(true);
  expect(speaksFor("github", "/tmp/shop")).toBe(false);
});

test("two forges of one host may both report on it", () => {
  const both = createSpeaksFor([gitea, { ...gitea, id: "team" }]);
  expect(["gitea", "team"].map((id) => both(id, "https://git.example.com/org/shop"))).toEqual([true, true]);
});

test.each([
  ["https://api.github.com", "https://github.com/org/shop", "https://ghe.com/org/shop"],
  ["https://api.octo.ghe.com", "https://octo.ghe.com/org/shop", "https://github.com/org/shop"],
  ["https://github.example.com/api/v3", "https://github.example.com/org/shop", "https://github.com/org/shop"],
])("a GitHub whose API is %s owns the repository %s", (apiUrl, own, other) => {
  const speaks = createSpeaksFor([aForge("github", { apiUrl }), aForge("gitea")]);
  expect([speaks("gitea", own), speaks("gitea", other)]).toEqual([false, true]);
});

test("only repositories on its own hosts are hosted by a forge, unless these are unknown", () => {
  const isHostedBy = createIsHostedBy([aForge("github"), aForge("gitea", { apiUrl: undefined })]);
  expect(["github", "gitea"].filter((id) => isHostedBy(id, "https://github.com/org/shop"))).toEqual(["github"]);
  expect(["github", "gitea"].filter((id) => isHostedBy(id, "https://git.example.com/shop"))).toEqual(["gitea"]);
  expect(isHostedBy("gitea", "/tmp/shop")).toBe(false);
});
