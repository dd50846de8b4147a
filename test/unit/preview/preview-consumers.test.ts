/** Pull requests in a repository that deployments include. */
import { expect, test } from "vitest";
import { PrepareError } from "../../../src/errors.ts";
import { annotation, type CommandResult, type Deployment, type PullRequest, type Run } from "../../../src/model.ts";
import type { PreviewDeps } from "../../../src/preview/preview.ts";
import { repoId } from "../../../src/model/repo-url.ts";
import { anObject, aResult, aSummary } from "../../support/deployments.ts";
import { fakeReadIdentity } from "../../support/fakes.ts";
import { aChange, aPreviewWorld, aRender, base, head, inFolder, named } from "../../support/preview.ts";

/** The repository of the pull request, see aPreviewWorld. */
const library = "https://git.example.com/org/shop";
const own = "c".repeat(40);

function consumer(name: string, { previewIn = library, includes = `${library} refs/heads/main` } = {}) {
  const url = "https://git.example.com/org/consumer";
  return named(name, {
    spec: inFolder("app", { url, ref: { branch: "stable" } }),
    repo: repoId(url)!,
    annotations: { [annotation.includes]: includes, [annotation.previewIn]: previewIn },
  });
}

interface Options extends Partial<Pick<PreviewDeps, "settings" | "manifests">> {
  pullRequest?: Partial<PullRequest>;
  diff?: (run: Run) => CommandResult | Error;
}

function aLibraryWorld(deployments: Deployment[], { diff = () => aChange, ...options }: Options = {}) {
  const runs: Run[] = [];
  const decrypts: unknown[] = [];
  const world = aPreviewWorld(deployments, {
    ...options,
    readIdentity: (deployment, how) => {
      decrypts.push(how?.decrypts);
      return fakeReadIdentity()(deployment);
    },
    kluctl: {
      diff(run) {
        runs.push(run);
        const answer = diff(run);
        return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
      },
      render(run) {
        runs.push(run);
        const value = (run.localOverrides?.[0]?.path ?? "").startsWith("/base") ? "red" : "blue";
        return Promise.resolve(
          aRender({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "a", namespace: "shop" }, data: { value } }),
        );
      },
    },
  });
  world.sources.refs["refs/heads/stable"] = own;
  world.sources.nextMerge.inBase = true;
  return { ...world, runs, decrypts };
}

const sideOf = ({ localOverrides = [] }: Run) => (localOverrides[0]?.path.startsWith("/base") ? "base" : "merge");

test("a consumer is rendered at the commit that it follows, with the merge and then the base in place of the include", async () => {
  const { run, runs, sources, previews, told } = aLibraryWorld([consumer("prod")]);
  expect(await run()).toEqual({ kind: "done" });
  expect(sources.merges).toMatchObject([
    { url: library, head, base },
    { url: "https://git.example.com/org/consumer", head: own, base: own, isMerged: true },
  ]);
  expect(runs.map(sideOf)).toEqual(["merge", "base"]);
  for (const { projectDir, localOverrides } of runs) {
    expect(projectDir).toBe("/merge/app");
    expect(localOverrides).toMatchObject([
      { repoKey: { type: "git", host: "git.example.com", path: "org/shop" }, isGroup: false },
    ]);
  }
  expect(told.at(-1)).toMatchObject({ repo: "git.example.com/org/shop", base, head });
  expect(previews()).toMatchObject([{ deployment: { name: "prod" }, state: "done", includes: true }]);
  expect(sources.released).toHaveLength(2);
});

test("a consumer that has not been opened to the library's readers is neither rendered nor named", async () => {
  const { run, runs, sources, told } = aLibraryWorld([consumer("prod", { previewIn: "" })]);
  expect(await run()).toEqual({ kind: "done" });
  expect([runs, sources.merges]).toEqual([[], []]);
  expect(JSON.stringify(told)).not.toContain("prod");
});

test("a consumer that includes the library at another ref as well is not rendered, and the report says why", async () => {
  const includes = `${library} refs/heads/main\n${library} refs/tags/v1.2`;
  const { run, runs, told } = aLibraryWorld([consumer("prod", { includes })]);
  await run();
  expect(runs).toEqual([]);
  expect(told.at(-1)).toMatchObject({
    previews: [],
    unshown: [{ deployment: "shop/prod", reason: expect.stringContaining("at `v1.2`") as string }],
  });
});

test("an include at another ref that only the render reveals is not shown either", async () => {
  const deployments = [
    { git: { url: library, ref: { branch: "main" } } },
    { git: { url: library, ref: { tag: "v2" } } },
  ];
  const result = { ...aChange, document: { deployment: { deployments } } };
  const { run, previews } = aLibraryWorld([consumer("prod")], { diff: () => result });
  await run();
  expect(previews()).toMatchObject([{ state: "failed", failed: "run", objects: [] }]);
  expect(previews()[0]?.failure).toContain("v2");
});

test("followers and consumers are previewed together, and a follower that includes its own branch only once", async () => {
  const both = named("both", { annotations: { [annotation.includes]: `${library} refs/heads/main` } });
  const { run, runs, previews } = aLibraryWorld([consumer("prod"), named("follower"), both]);
  await run();
  expect(previews().map(({ deployment, includes }) => [deployment.name, includes])).toEqual([
    ["both", undefined],
    ["follower", undefined],
    ["prod", true],
  ]);
  expect(runs.filter(({ deployment }) => deployment.name === "both").every((one) => !one.localOverrides)).toBe(true);
});

test("at most 50 consumers are rendered, and the others are counted", async () => {
  const deployments = Array.from({ length: 53 }, (_, at) => consumer(`prod-${String(at).padStart(2, "0")}`));
  const { run, previews, told, sources } = aLibraryWorld(deployments);
  await run();
  expect(previews()).toHaveLength(50);
  expect(told.at(-1)).toMatchObject({ beyond: 3 });
  expect(sources.merges).toHaveLength(2); // one clone of the library, one of what they share
});

test("a consumer that cannot be rendered with the base either is not the pull request's failure", async () => {
  const { run, previews } = aLibraryWorld([consumer("prod")], { diff: () => new PrepareError("no such target") });
  await run();
  expect(previews()).toMatchObject([{ state: "failed", failed: "run" }]);
});

test("a consumer whose own project is gone is not the pull request's failure", async () => {
  const { run, previews, sources } = aLibraryWorld([consumer("prod")]);
  sources.nextMerge.paths = ["", "elsewhere"];
  await run();
  expect(previews()).toMatchObject([{ state: "failed", failed: "run" }]);
});

test("a consumer that only the merge breaks is", async () => {
  const { run, previews } = aLibraryWorld([consumer("prod")], {
    diff: (one) => (sideOf(one) === "base" ? aResult({}) : new PrepareError("'replicas' is undefined")),
  });
  await run();
  expect(previews()).toMatchObject([{ state: "failed", failed: "render" }]);
});

test("the annotation that lets users of its own repository decrypt does not let those of a library", async () => {
  const opted = consumer("prod");
  const annotations = { ...opted.annotations, [annotation.previewDecrypt]: "true" };
  const { run, decrypts } = aLibraryWorld([{ ...opted, annotations }], { settings: { confined: true } });
  await run();
  expect(decrypts).toEqual([false]);
});

test("a fork of the library is rendered without the cluster, with its merge and then its base in place of the include", async () => {
  const { run, runs, sources, previews } = aLibraryWorld([consumer("prod")], {
    pullRequest: { fork: true },
    settings: { confined: true, forks: { kubernetesVersion: () => Promise.resolve(undefined) } },
  });
  sources.refs["refs/pull/7/head"] = head;
  await run();
  expect(runs.map(({ localOverrides = [] }) => localOverrides.map(({ path }) => path))).toEqual([["/base/"], ["/stubbed/"]]); // prettier-ignore
  expect(runs.map(({ credentials }) => credentials.git)).toEqual([[], []]);
  expect(previews()).toMatchObject([{ state: "done", isolated: true, includes: true, counts: { changed: 1 } }]);
});

test("without isolated forks, nothing of a fork is rendered for a consumer", async () => {
  const { run, runs, told } = aLibraryWorld([consumer("prod")], { pullRequest: { fork: true } });
  await run();
  expect(runs).toEqual([]);
  expect(told.at(-1)).toMatchObject({ obstacle: { kind: "fork" }, previews: [] });
});

test.each<[string, { included?: string; hash: string }, object]>([
  ["is recorded", { included: "d".repeat(40), hash: "hash-of-deployed" }, { drift: 1, undeployed: ["moved"] }],
  ["is recorded, but not what was deployed", { included: "d".repeat(40), hash: "other" }, { drift: 0 }],
  ["is not recorded", { hash: "hash-of-deployed" }, { drift: 0 }],
])(
  "drift and commits of a library that are not deployed are told apart if its commit %s",
  async (_, { included, hash }, expected) => {
    const ref = (name: string) => ({ kind: "ConfigMap", namespace: "shop", name });
    const aMap = (name: string, live: string, value: string) =>
      anObject({
        ref: ref(name),
        changes: live === value ? [] : [{ type: "update", jsonPath: "data.a", oldValue: live, newValue: value }],
        rendered: JSON.stringify({ metadata: { name }, data: { a: value } }),
        remote: JSON.stringify({ data: { a: live } }),
      });
    const document = { gitInfo: { commit: own }, renderedObjectsHash: hash };
    const prod = consumer("prod");
    const annotations = {
      ...prod.annotations,
      ...(included !== undefined && { [annotation.includedCommits]: `${library} refs/heads/main ${included}` }),
    };
    const deployment = { ...prod, annotations, status: { ...prod.status, lastDeployResult: aSummary({ document }) } };
    const { run, runs, previews } = aLibraryWorld([deployment], {
      diff({ localOverrides = [] }) {
        const isDeployed = included !== undefined && localOverrides[0]?.path.startsWith(`/${included}`) === true;
        const objects = [aMap("edited", "by hand", "1"), aMap("moved", "0", isDeployed ? "0" : "1")];
        return aResult({ objects, objectsHash: isDeployed ? "hash-of-deployed" : "hash-now" });
      },
    });
    await run();
    const names = previews()[0]?.undeployed?.objects.map(({ ref }) => ref.name);
    expect({ drift: previews()[0]?.drift, undeployed: names }).toEqual({
      undeployed: ["edited", "moved"],
      ...expected,
    });
    expect(runs).toHaveLength(included === undefined ? 2 : 3);
  },
);

test("readers of a library see what changes in a consumer, and not the rest of its manifests", async () => {
  const saved: unknown[] = [];
  const manifests = { save: (...stored: unknown[]) => Promise.resolve(void saved.push(stored)) };
  const rendered = { ...aChange, objects: aChange.objects.map((object) => ({ ...object, rendered: "{}" })) };
  const diff = (of: Run) => (sideOf(of) === "base" ? aResult() : rendered);
  const { run, previews } = aLibraryWorld([consumer("prod")], { manifests, diff });
  expect(await run()).toEqual({ kind: "done" });
  expect(previews()).toMatchObject([{ objects: [{ action: "changed" }] }]);
  expect(saved).toEqual([]);
});
