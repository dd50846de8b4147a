import { expect, test } from "vitest";
import { createCommitUrls } from "../../../src/forge/commit-url.ts";
import { repoId } from "../../../src/model/repo-url.ts";

const commitUrl = createCommitUrls([
  { kind: "github" },
  { kind: "gitlab", apiUrl: "https://git.example.com/gitlab/api/v4" },
  { kind: "gitea", apiUrl: "http://gitea.svc:3000/api/v1", webUrl: "https://gitea.example.com" },
  { kind: "gitea" },
]);

test.each([
  ["git@github.com:org/shop.git", "https://github.com/org/shop/commit/3f2c1ab"],
  ["https://git.example.com/gitlab/a/b/shop", "https://git.example.com/gitlab/a/b/shop/-/commit/3f2c1ab"],
  ["ssh://git@gitea.example.com:22/org/shop", "https://gitea.example.com/org/shop/commit/3f2c1ab"],
  ["https://elsewhere.example.com/org/shop", undefined],
])("the link to a commit of %s is the URL at which its forge shows it", (url, expected) => {
  const repo = repoId(url);
  expect(repo && commitUrl(repo, "3f2c1ab")).toBe(expected);
});
