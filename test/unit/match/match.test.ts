import { describe, expect, test } from "vitest";
import { describeIgnored, match, reposOf } from "../../../src/intake/match.ts";
import { touchesKnown } from "../../../src/intake/touched-files.ts";
import { annotation, type GitDeployment, type GitSource, type PushEvent } from "../../../src/model.ts";
import { formatReads } from "../../../src/model/outside-reads.ts";
import { repoId } from "../../../src/model/repo-url.ts";
import { aDeployment, aSpec } from "../../support/deployments.ts";

const url = "https://git.example.com/org/shop";

function push(overrides: Partial<PushEvent> = {}): PushEvent {
  return {
    kind: "push",
    forge: "gitea",
    delivery: "d1",
    repoUrls: [`${url}.git`, "git@git.example.com:org/shop.git"],
    repoName: "org/shop",
    ref: "refs/heads/main",
    change: "updated",
    after: "1".repeat(40),
    defaultBranch: "main",
    changed: { complete: true, paths: ["shop/app.yaml"] },
    ...overrides,
  };
}

function following(source: Partial<GitSource>, overrides: Partial<GitDeployment> = {}): GitDeployment {
  const { source: usual } = aSpec();
  const whole = { ...usual, url, ...source };
  const annotations = { [annotation.reads]: formatReads(whole.path, []), ...overrides.annotations };
  return aDeployment({ ...overrides, annotations, spec: { source: whole }, repo: repoId(whole.url)! });
}

/** "matched", "elsewhere", or the reason why the deployment was ignored. */
function outcome(event: PushEvent, deployment: GitDeployment): string {
  const { requests, ignored } = match(event, [deployment]);
  return requests.length > 0 ? "matched" : (ignored[0]?.reason ?? "elsewhere");
}

const paths = (...names: string[]) => push({ changed: { complete: true, paths: names } });

test("a push requests its deployments by name, and without a commit", () => {
  const deployments = [
    following({}, { key: { namespace: "shop", name: "staging" } }),
    following({ ref: { branch: "release" } }, { key: { namespace: "shop", name: "prod" } }),
    following({ url: "https://git.example.com/org/other" }),
  ];
  expect(match(push(), deployments)).toEqual({
    requests: [
      {
        kind: "reconcile",
        deployment: { namespace: "shop", name: "staging" },
        cause: "push",
        repo: "git.example.com/org/shop",
        delivery: "d1",
      },
    ],
    ignored: [{ deployment: "shop/prod", reason: "follows branch release, the push is to branch main" }],
  });
});

describe("the repository", () => {
  test.each([
    "git@git.example.com:org/shop.git",
    "ssh://git@git.example.com:2222/org/shop",
    "https://GIT.example.com/Org/Shop/",
    "https://user@git.example.com/org/shop.git",
  ])("is the same when a deployment spells it %s", (spelling) => {
    expect(outcome(push(), following({ url: spelling }))).toBe("matched");
  });

  test.each(["https://git.example.com.evil/org/shop", "https://git.example.com/org/shop2", "https://other/org/shop"])(
    "is another one when a deployment spells it %s",
    (spelling) => {
      expect(outcome(push(), following({ url: spelling }))).toBe("elsewhere");
    },
  );

  test("needs one valid URL in the payload", () => {
    expect(outcome(push({ repoUrls: ["not a url", `${url}.git`] }), following({}))).toBe("matched");
    expect(outcome(push({ repoUrls: ["not a url", "/org/shop"] }), following({}))).toBe("elsewhere");
    expect([...reposOf({ repoUrls: ["not a url", `${url}.git`, url] })]).toEqual([repoId(url)]);
  });
});

describe("the ref", () => {
  const branch = { ref: { branch: "main" } };
  const tag = { ref: { tag: "v1" } };
  test.each([
    [branch, "refs/heads/main", "matched"],
    [branch, "refs/heads/Main", "follows branch main, the push is to branch Main"],
    [branch, "refs/heads/feature/main", "follows branch main, the push is to branch feature/main"],
    [branch, "refs/tags/main", "follows branch main, the push is to tag main"],
    [tag, "refs/tags/v1", "matched"],
    [tag, "refs/tags/v10", "follows tag v1, the push is to tag v10"],
    [tag, "refs/heads/v1", "follows tag v1, the push is to branch v1"],
    [{ ref: {} }, "refs/heads/main", "matched"],
    [{ ref: {} }, "refs/heads/next", "follows the default branch, the push is to branch next"],
    [{ ref: {} }, "refs/tags/v1", "follows the default branch, the push is to tag v1"],
    [{ ref: { commit: "abc" } }, "refs/heads/main", "is pinned to commit abc"],
  ])("%o and a push to %s: %s", (source, ref, expected) => {
    expect(outcome(push({ ref }), following(source))).toBe(expected);
  });

  test("any branch may be the default branch if the host does not name it", () => {
    const event = push({ ref: "refs/heads/next", defaultBranch: undefined });
    expect(outcome(event, following({ ref: {} }))).toBe("matched");
    expect(outcome({ ...event, ref: "refs/tags/v1" }, following({ ref: {} }))).not.toBe("matched");
  });

  test("the deletion of a branch requests a reconciliation, so that it is reported", () => {
    const gone = push({ change: "deleted", after: undefined, changed: { complete: false, paths: [] } });
    expect(outcome(gone, following({ path: "shop" }))).toBe("matched");
  });
});

describe("the changed paths", () => {
  test.each([
    ["", ["anything"], "matched"],
    ["shop", ["shop/app.yaml"], "matched"],
    ["shop", ["docs/a", "shop/deep/app.yaml"], "matched"],
    ["shop", ["shop"], "matched"], // a submodule or a link in its place
    ["shop", ["shop2/app.yaml", "apps/shop/x", "shop.yaml", "Shop/x"], "no changed path under shop/"],
    ["a/b", ["a/b/c"], "matched"],
    ["a/b", ["a/bc", "b/x", "a"], "no changed path under a/b/"],
  ])("path %j and %j: %s", (path, names, expected) => {
    expect(outcome(paths(...names), following({ path }))).toBe(expected);
  });

  test("match every deployment if the host lists none, or may have omitted some", () => {
    expect(outcome(paths(), following({ path: "shop" }))).toBe("matched");
    const cut = push({ changed: { complete: false, paths: ["docs/a"] } });
    expect(outcome(cut, following({ path: "shop" }))).toBe("matched");
  });

  test("match a deployment by its annotation as well", () => {
    const deployment = following(
      { path: "shop" },
      { annotations: { [annotation.paths]: "shared, charts/*/values.yaml" } },
    );
    expect(outcome(paths("shared/a/b"), deployment)).toBe("matched");
    expect(outcome(paths("docs/a", "shared/a"), deployment)).toBe("matched");
    expect(outcome(paths("charts/db/values.yaml"), deployment)).toBe("matched");
    expect(outcome(paths("shop/x"), deployment)).toBe("matched");
    expect(outcome(paths("charts/db/x.yaml", "shared2/x"), deployment)).toBe(
      "no changed path under shop/ or annotation towline.dev/paths",
    );
  });

  test("match a deployment whose project reads them from outside of its path", () => {
    const reading = (...reads: string[]) =>
      following({ path: "shop" }, { annotations: { [annotation.reads]: formatReads("shop", reads) } });
    expect(outcome(paths("base/a.yaml"), reading("base", "vars.yaml"))).toBe("matched");
    expect(outcome(paths("vars.yaml"), reading("base", "vars.yaml"))).toBe("matched");
    expect(outcome(paths("base2/a.yaml", "vars.yaml2"), reading("base", "vars.yaml"))).toBe(
      "no changed path under shop/, base, vars.yaml",
    );
  });

  test("match a deployment of which nobody knows what it reads, unless its annotation says what counts", () => {
    const unknown = aDeployment({
      spec: { source: { ...aSpec().source, url, path: "shop" } },
      repo: repoId(url)!,
      annotations: {},
    });
    expect(outcome(paths("docs/a"), unknown)).toBe("matched");
    const anything = { [annotation.reads]: formatReads("shop", undefined) };
    expect(outcome(paths("docs/a"), following({ path: "shop" }, { annotations: anything }))).toBe("matched");
    const told = { ...anything, [annotation.paths]: "base/**" };
    expect(outcome(paths("docs/a"), following({ path: "shop" }, { annotations: told }))).toBe(
      "no changed path under shop/ or annotation towline.dev/paths",
    );
  });

  test("are known to be read, or only may be", () => {
    const known = (names: string[], annotations: Record<string, string>) => {
      const spec = { source: { ...aSpec().source, path: "shop" } };
      return touchesKnown({ complete: true, paths: names }, aDeployment({ spec, annotations, repo: repoId(url)! }));
    };
    expect(known(["shop/a"], {})).toBe(true);
    expect(known(["base/a"], {})).toBe(false);
    expect(known(["base/a"], { [annotation.reads]: formatReads("shop", undefined) })).toBe(false);
    expect(known(["base/a"], { [annotation.reads]: formatReads("shop", ["base"]) })).toBe(true);
    expect(known(["base/a"], { [annotation.paths]: "base/**" })).toBe(true);
  });

  test("are not filtered by an invalid glob", () => {
    const deployment = following({ path: "shop" }, { annotations: { [annotation.paths]: "shared, !docs" } });
    expect(outcome(paths("docs/a"), deployment)).toBe("matched");
  });

  test("need no globs for a project at the root", () => {
    const deployment = following({ path: "" }, { annotations: { [annotation.paths]: "shared" } });
    expect(outcome(paths("docs/a"), deployment)).toBe("matched");
  });
});

describe("a deployment", () => {
  test("that is suspended is ignored as such, unless the push is to another branch anyway", () => {
    const suspended = aDeployment({ spec: { suspend: true } });
    expect(outcome(push(), suspended)).toBe("suspended");
    expect(outcome(push({ ref: "refs/heads/x" }), suspended)).toMatch(/^follows branch main/);
  });

  test.each(["false", "False", " false "])("that disables webhooks by its annotation is ignored: %j", (value) => {
    const opted = following({}, { annotations: { [annotation.webhooks]: value } });
    expect(outcome(push(), opted)).toBe("webhooks are disabled by annotation");
  });

  test("with any other value of the annotation is matched", () => {
    expect(outcome(push(), following({}, { annotations: { [annotation.webhooks]: "true" } }))).toBe("matched");
  });
});

test("a log line names twenty of the ignored deployments, and counts the others", () => {
  const ignored = (many: number) =>
    Array.from({ length: many }, (_, i) => ({ deployment: `shop/${i}`, reason: "suspended" }));
  expect(describeIgnored([])).toEqual({ ignored: undefined, ignoredMore: undefined });
  expect(describeIgnored(ignored(1))).toEqual({ ignored: { "shop/0": "suspended" }, ignoredMore: undefined });
  expect(describeIgnored(ignored(20)).ignoredMore).toBeUndefined();
  const { ignored: named, ignoredMore } = describeIgnored(ignored(22));
  expect([Object.keys(named ?? {}).length, ignoredMore]).toEqual([20, 2]);
});
