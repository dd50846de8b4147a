/** Forks rendered without the cluster. */
import { expect, test } from "vitest";
import { parseManifest } from "../../../src/apis/kluctl/manifest.ts";
import { KilledError, NeedsMoreError, PrepareError, SourceError } from "../../../src/errors.ts";
import { annotation, type CommandResult, type PullRequest, type RenderOptions, type Run } from "../../../src/model.ts";
import type { AllowedFork } from "../../../src/preview/open.ts";
import { fakeReadIdentity, fakeSecrets } from "../../support/fakes.ts";
import { aPreviewWorld, aRender, base, head, inFolder, named, startedAt } from "../../support/preview.ts";

const settings = (value: string) =>
  aRender({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "settings", namespace: "shop" }, data: { value } });

const kubernetesVersion = () => Promise.resolve("v1.36.3");

interface Options {
  pullRequest?: Partial<PullRequest>;
  refusal?: string;
  /** The results of rendering, by the beginning of the project's path. */
  renders?: Partial<Record<"/base" | "/stubbed", CommandResult | Error>>;
}

function aForkWorld(deployments: ReturnType<typeof named>[], { pullRequest, refusal, renders = {} }: Options = {}) {
  const audit: AllowedFork[] = [];
  const rendered: { run: Run; options: RenderOptions }[] = [];
  const answers = { "/base": settings("red"), "/stubbed": settings("blue"), ...renders };
  const read: unknown[] = [];
  const world = aPreviewWorld(deployments, {
    pullRequest: { fork: true, ...pullRequest },
    audit: (line) => void audit.push(line),
    settings: {
      confined: true,
      forks: { refusal, kubernetesVersion },
      children: { kubernetesVersion, parse: parseManifest },
    },
    secrets: fakeSecrets({ "shop/login": { username: "bot", password: "correct-horse-battery" } }),
    readIdentity: (deployment) => {
      read.push(deployment.key.name);
      return fakeReadIdentity({ secrets: fakeSecrets() })(deployment);
    },
    kluctl: {
      diff: (run, ...rest) => world.kluctl.diff(run, ...rest),
      render(run, options) {
        rendered.push({ run, options });
        const answer = run.projectDir.startsWith("/base") ? answers["/base"] : answers["/stubbed"];
        return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
      },
    },
  });
  delete world.sources.refs["refs/heads/feature"];
  world.sources.refs["refs/pull/7/head"] = head;
  return { ...world, audit, rendered, answers, read };
}

test("the merge of a fork and its base are rendered alike, without login, identity, key or host, and compared", async () => {
  const credentials = { gitCredentials: [{ host: "git.example.com", secretName: "login" }] };
  const spec = {
    ...inFolder("app"),
    ...credentials,
    context: "prod-cluster",
    serviceAccountName: "deployer",
    prune: true,
  };
  const { run, rendered, kluctl, told, audit, sources, read } = aForkWorld([
    named("prod", { spec, status: { lastDriftDetectionResult: { document: { objects: [{}] } } as never } }),
  ]);
  expect(await run()).toEqual({ kind: "done" });

  expect(sources.merges).toMatchObject([{ head, base }]);
  expect(rendered.map(({ run }) => run.projectDir)).toEqual(["/base/app", "/stubbed/app"]);
  for (const { run, options } of rendered) {
    expect(options).toEqual({ kubernetesVersion: "v1.36.3" });
    expect(run).toMatchObject({ cold: true, credentials: { git: [], oci: [], helm: [] }, secrets: [] });
    const { impersonate, cluster, decryption, hosts, context, held } = run;
    expect([impersonate, cluster, decryption, hosts, held]).toEqual(Array(5).fill(undefined));
    expect(context).toBeUndefined();
    expect(run.slot).toBeDefined();
    expect(run.timeoutMs).toBeLessThanOrEqual(120_000);
  }
  expect([kluctl.runs, audit, read]).toEqual([[], [], []]);
  const [preview] = told.at(-1)?.previews ?? [];
  expect(preview).toMatchObject({ state: "done", isolated: true, counts: { changed: 1 }, drift: 0 });
  expect(preview?.objects[0]?.diff).toContain("+  blue");
});

test("deployments that allow the commit compare it with the cluster, and the others render it without the cluster", async () => {
  const prod = named("prod");
  const allowance = { pullRequest: "gitea:org/shop#7", repo: prod.repo, head };
  const until = new Date(startedAt + 3_600_000).toISOString();
  const annotations = { [annotation.allowPreview]: JSON.stringify([{ ...allowance, until }]) };
  const { run, rendered, kluctl, told, audit } = aForkWorld([named("prod", { annotations }), named("staging")]);
  await run();
  expect(new Set(kluctl.runs.map(({ run }) => run.deployment?.name))).toEqual(new Set(["prod"]));
  expect(new Set(rendered.map(({ run }) => run.deployment.name))).toEqual(new Set(["staging"]));
  expect(audit).toMatchObject([{ deployments: ["shop/prod"] }]);
  expect(told.at(-1)?.previews.map(({ deployment, isolated }) => [deployment.name, isolated])).toEqual([
    ["prod", undefined],
    ["staging", true],
  ]);
});

test("if isolation is not in force nothing is fetched, and the report gives the reason", async () => {
  const { run, rendered, kluctl, told, sources } = aForkWorld([named("prod")], { refusal: "it cannot be isolated" });
  expect(await run()).toEqual({ kind: "done" });
  expect(told).toMatchObject([{ obstacle: { kind: "fork", why: "it cannot be isolated" }, previews: [] }]);
  expect([sources.merges, kluctl.runs, rendered]).toEqual([[], [], []]);
});

test.each([
  ["has another one", { "refs/pull/7/head": "2".repeat(40) }],
  ["has none", { "refs/pull/7/head": undefined }],
])("a head that the host claims is not rendered while git %s", async (_what, refs) => {
  const { run, rendered, sources, told } = aForkWorld([named("prod")]);
  for (const [ref, commit] of Object.entries(refs)) {
    if (commit === undefined) delete sources.refs[ref];
    else sources.refs[ref] = commit;
  }
  expect(await run({ attempt: 5, lastAttempt: true })).toEqual({ kind: "done" });
  expect(told.at(-1)).toMatchObject({ obstacle: { kind: "fork" }, previews: [] });
  expect([sources.merges, rendered]).toEqual([[], []]);
});

test("a branch of the repository is compared with the cluster as usual", async () => {
  const { run, rendered, kluctl, sources, told } = aForkWorld([named("prod")], { pullRequest: { fork: false } });
  sources.refs["refs/heads/feature"] = head;
  await run();
  expect([kluctl.commands(), rendered]).toEqual([["diff", "diff"], []]); // of the merge, and of its base
  expect(told.at(-1)?.previews[0]?.isolated).toBeUndefined();
});

test("a project that the fork adds is entirely new", async () => {
  const { run, sources, told } = aForkWorld([named("prod", { spec: inFolder("app") })]);
  sources.nextMerge.stubbed = (of) => {
    if (of !== undefined) throw new SourceError("path-not-found", "there is no directory app");
  };
  await run();
  expect(told.at(-1)?.previews).toMatchObject([{ state: "done", counts: { new: 1, changed: 0 } }]);
});

test.each<[string, Options["renders"], string, "render" | "run"]>([
  [
    "needs the cluster",
    { "/base": new NeedsMoreError("cluster", "loading vars from cluster is disabled") },
    "cannot be rendered without the cluster, because it reads variables from the cluster",
    "run",
  ],
  [
    "needs the network",
    { "/stubbed": new NeedsMoreError("network", "dial tcp: connect: permission denied") },
    "cannot be rendered without the cluster, because it fetches something over the network",
    "run",
  ],
  [
    "is not rendered on the base branch either",
    { "/base": new PrepareError("undefined variable") },
    "there is nothing to compare with.\n\nundefined variable",
    "run",
  ],
  ["is broken by the fork", { "/stubbed": new PrepareError("undefined variable") }, "undefined variable", "render"],
])("a project that %s fails, and the report says who has to fix it", async (_what, renders, words, failed) => {
  const { run, told } = aForkWorld([named("prod")], { renders });
  expect(await run()).toEqual({ kind: "done" });
  const [preview] = told.at(-1)?.previews ?? [];
  expect(preview).toMatchObject({ state: "failed", isolated: true, failed });
  expect(preview?.failure).toContain(words);
});

test("children of a fork are compared with the base's render as well, and no cluster is read for them", async () => {
  const child = (size: number) => ({
    apiVersion: "gitops.kluctl.io/v1beta1",
    kind: "KluctlDeployment",
    metadata: { name: "team", namespace: "shop" },
    spec: {
      interval: "5m",
      source: { git: { url: "https://git.example.com/org/shop", path: "team" } },
      args: { size },
    },
  });
  const { run, rendered, kluctl, told, read } = aForkWorld([named("prod", { spec: inFolder("app") })], {
    renders: { "/base": aRender(child(1)), "/stubbed": aRender(child(2)) },
  });
  await run();
  expect(rendered.map(({ run }) => [run.projectDir, run.args])).toEqual([
    ["/base/app", undefined],
    ["/stubbed/app", undefined],
    ["/base/team", { size: 1 }],
    ["/stubbed/team", { size: 2 }],
  ]);
  expect(told.at(-1)?.children?.previews).toMatchObject([{ action: "changed", preview: { isolated: true } }]);
  expect([kluctl.runs, read]).toEqual([[], []]);
});

test("a transient failure is retried", async () => {
  const renders = { "/base": new KilledError("signal", "kluctl was killed") };
  const { run } = aForkWorld([named("prod")], { renders });
  expect(await run()).toMatchObject({ kind: "failed", retry: "soon" });
});

test("the placeholders before and after the merge are compared, and changed encrypted files are named", async () => {
  const { run, sources, told } = aForkWorld([named("prod")]);
  sources.nextMerge.encrypted = new Map([["secret.yaml", "2"]]);
  sources.nextMerge.encryptedBefore = new Map([["secret.yaml", "1"]]);
  await run();
  expect(told.at(-1)?.previews[0]?.encrypted).toEqual({ files: 1, changed: ["secret.yaml"] });
});
