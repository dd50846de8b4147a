import { expect, test } from "vitest";
import { annotation, type GitDeployment, type GitSource } from "../../../src/model.ts";
import { type RepositoryFacts, matchPullRequest } from "../../../src/preview/match.ts";
import { repoId } from "../../../src/model/repo-url.ts";
import { aDeployment, aSpec } from "../../support/deployments.ts";

const pullRequest = {
  baseBranch: "main",
  repoUrls: ["https://git.example.com/org/shop.git", "git@git.example.com:org/shop.git", "not a url"],
};

function following(source: Partial<GitSource>, { spec, ...overrides }: Parameters<typeof aDeployment>[0] = {}) {
  const whole = { ...aSpec().source, ...source };
  return aDeployment({ ...overrides, spec: { ...spec, source: whole }, repo: repoId(whole.url)! });
}

/** "concerned", "elsewhere", or the reason why the deployment was ignored. */
function outcome(deployment: GitDeployment, known?: RepositoryFacts): string {
  const { concerned, ignored } = matchPullRequest(pullRequest, [deployment], known);
  return concerned.length > 0 ? "concerned" : (ignored[0]?.reason ?? "elsewhere");
}

const changing = (...paths: string[]): RepositoryFacts => ({ changed: { complete: true, paths } });

test("a pull request affects the deployments that follow its base branch in its base repository", () => {
  const deployments = [
    following({}, { key: { namespace: "shop", name: "prod" } }),
    following({ ref: { branch: "next" } }, { key: { namespace: "shop", name: "next" } }),
    following({ url: "https://git.example.com/org/other" }),
  ];
  expect(matchPullRequest(pullRequest, deployments)).toEqual({
    concerned: [deployments[0]],
    ignored: [{ deployment: "shop/next", reason: "follows branch next, the pull request is into branch main" }],
  });
});

test.each([
  ["ssh://git@git.example.com:2222/Org/shop", "concerned"],
  ["https://user@git.example.com/org/shop.git", "concerned"],
  ["https://git.example.com/org/shop2", "elsewhere"],
])("a deployment that spells the repository %s is %s", (url, expected) => {
  expect(outcome(following({ url }))).toBe(expected);
});

test("a deployment of the default branch is affected if that is the base branch, or not known yet", () => {
  const deployment = following({ ref: {} });
  expect(outcome(deployment)).toBe("concerned");
  expect(outcome(deployment, { defaultRef: "refs/heads/main" })).toBe("concerned");
  expect(outcome(deployment, { defaultRef: "refs/heads/trunk" })).toBe(
    "follows the default branch, the pull request is into branch main",
  );
});

test("a merge affects no deployment that is pinned to a commit or a tag", () => {
  expect(outcome(following({ ref: { commit: "c1" } }))).toBe("is pinned to commit c1");
  expect(outcome(following({ ref: { tag: "v1" } }))).toBe("is pinned to tag v1");
});

test.each([
  [{ annotations: { [annotation.preview]: " False" } }, "previews are disabled by annotation"],
  [{ annotations: { [annotation.preview]: "true" } }, "concerned"],
  [{ annotations: { [annotation.webhooks]: "false" } }, "concerned"],
  [{ spec: { suspend: true } }, "concerned"],
  [{ spec: { manual: true } }, "concerned"],
  [{ deletionTimestamp: "2026-01-01T00:00:00Z" }, "is being deleted"],
])("a deployment with %o: %s", (overrides, expected) => {
  expect(outcome(following({}, overrides))).toBe(expected);
});

test("only the paths that the merge changes count, once they are known", () => {
  const app = following({ path: "app" }, { annotations: { [annotation.paths]: "base/**" } });
  expect(outcome(app)).toBe("concerned");
  expect(outcome(app, changing("app/deployment.yaml"))).toBe("concerned");
  expect(outcome(app, changing("base/settings.yaml"))).toBe("concerned");
  expect(outcome(app, { changed: { complete: false, paths: ["README.md"] } })).toBe("concerned");
  expect(outcome(app, changing("README.md"))).toBe("no changed path under app/ or annotation towline.dev/paths");
  expect(outcome(following({ path: "" }), changing("README.md"))).toBe("concerned");
});

test("a merge that changes no file affects no deployment", () => {
  expect(outcome(following({ path: "" }), changing())).toBe("the merge changes no file");
});

test("a deployment that was never reconciled is affected by any change: nobody knows yet what it reads", () => {
  const suspended = following({ path: "app" }, { spec: { suspend: true } });
  expect(outcome(suspended, changing("base/settings.yaml"))).toBe("concerned");
  const reconciled = following({ path: "app" }, { annotations: { [annotation.reads]: "app/" } });
  expect(outcome(reconciled, changing("base/settings.yaml"))).toBe("no changed path under app/");
});
