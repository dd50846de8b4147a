import { expect, test } from "vitest";
import { annotation, type RepoId } from "../../../src/model.ts";
import { librariesOf, matchConsumers } from "../../../src/preview/match-consumers.ts";
import type { RepositoryFacts } from "../../../src/preview/match.ts";
import { repoId } from "../../../src/model/repo-url.ts";
import { aDeployment, aSpec } from "../../support/deployments.ts";

const library = "https://git.example.com/org/library";
const pullRequest = { baseBranch: "main", repoUrls: [`${library}.git`, "git@git.example.com:org/library.git"] };
const commit = "1".repeat(40);

interface Options {
  includes?: string;
  previewIn?: string;
  url?: string;
  name?: string;
  more?: Record<string, string>;
}

function consumer({
  includes = `${library} refs/heads/main`,
  previewIn = library,
  url = "https://git.example.com/org/shop",
  name = "prod",
  more,
}: Options = {}) {
  return aDeployment({
    key: { namespace: "shop", name },
    spec: { source: { ...aSpec().source, url } },
    repo: repoId(url)!,
    annotations: { [annotation.includes]: includes, [annotation.previewIn]: previewIn, ...more },
  });
}

/** "concerned", or why not, as readers of the comment or only operators see it. */
function outcome(options: Options, known?: RepositoryFacts): string {
  const { concerned, unshown, ignored } = matchConsumers(pullRequest, [consumer(options)], known);
  if (concerned.length > 0) return "concerned";
  return unshown[0] ? `for readers: ${unshown[0].reason}` : `for operators: ${ignored[0]?.reason}`;
}

test.each([
  ["a URL", library],
  ["another spelling", "git@git.example.com:org/library.git"],
  ["host and path", "git.example.com/Org/library"],
  ["one of several", "git.example.com/org/other,\n git.example.com/org/library"],
])("a deployment whose annotation names the library by %s is shown", (_how, previewIn) => {
  expect(outcome({ previewIn })).toBe("concerned");
});

test.each([
  ["", "nothing"],
  ["true", "a word"],
  ["git.example.com/org", "its owner"],
  ["git.example.com/org/library-2", "a similar name"],
  ["git.example.com/org/shop", "its own repository"],
])("a deployment whose annotation says %j is not shown: %s is not the library", (previewIn) => {
  expect(outcome({ previewIn })).toMatch(/^for operators: .*preview-in does not name this repository/);
});

test("a deployment of the library's own repository needs no annotation, because the readers are the same", () => {
  expect(outcome({ previewIn: "", url: library })).toBe("concerned");
});

test.each<[string, Options, RepositoryFacts | undefined]>([
  ["includes release, the pull request is into branch main", { includes: `${library} refs/heads/release` }, undefined],
  ["includes v1, the pull request is into branch main", { includes: `${library} refs/tags/v1` }, undefined],
  ["includes the default branch, the pull request is into branch main", { includes: library }, { defaultRef: "refs/heads/next" }], // prettier-ignore
  ["previews are disabled by annotation", { more: { [annotation.preview]: "false" } }, undefined],
  ["the merge changes no file", {}, { changed: { complete: true, paths: [] } }],
])("operators read why another is ignored: %s", (reason, options, known) => {
  expect(outcome(options, known)).toBe(`for operators: ${reason}`);
});

test("an include without a ref follows the default branch, which may be any branch until it is known", () => {
  expect(outcome({ includes: library })).toBe("concerned");
  expect(outcome({ includes: library }, { defaultRef: "refs/heads/main" })).toBe("concerned");
});

test.each([
  ["`v1.2`", `${library} refs/heads/main\n${library}.git refs/tags/v1.2`],
  [`\`${commit}\``, `${library} refs/heads/main\n${library} ${commit}`],
  ["`?script?`", `${library} refs/heads/main\n${library} refs/tags/<script>`],
  ["the default branch", `${library} refs/heads/main\nssh://git@git.example.com/org/library`],
])(
  "a deployment that also includes the library at %s is not rendered, because kluctl would replace both",
  (ref, includes) => {
    const known = { defaultRef: "refs/heads/next" };
    expect(outcome({ includes }, known)).toBe(
      `for readers: it also includes this repository at ${ref}, and kluctl cannot replace one without the other`,
    );
    expect(outcome({ includes, previewIn: "" }, known)).toMatch(/^for operators/);
  },
);

test("a record of includes that may be cut is not relied on", () => {
  const others = Array.from({ length: 120 }, (_, at) => `https://git.example.com/org/a${at}`);
  expect(outcome({ includes: [`${library} refs/heads/main`, ...others].join("\n") })).toMatch(
    /^for readers: .*too many/,
  );
});

test("the branches whose pull requests may show a deployment are those that it includes and names", () => {
  const includes = [`${library} refs/heads/main refs/tags/main`, `${library} refs/tags/v1`, library, "https://git.example.com/org/other"]; // prettier-ignore
  const repo = "git.example.com/org/library" as RepoId;
  expect(librariesOf(consumer({ includes: includes.join("\n") }))).toEqual([{ repo, branch: "main" }, { repo }]);
  expect(librariesOf(consumer({ previewIn: "" }))).toEqual([]);
  expect(librariesOf(consumer({ more: { [annotation.preview]: "false" } }))).toEqual([]);
});
