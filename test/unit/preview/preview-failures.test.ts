import { describe, expect, test } from "vitest";
import {
  KilledError,
  PrepareError,
  PreviewRefusedError,
  QueueUnavailableError,
  SourceError,
} from "../../../src/errors.ts";
import { annotation } from "../../../src/model.ts";
import type { PreviewDeps } from "../../../src/preview/preview.ts";
import { anObject, aResult } from "../../support/deployments.ts";
import { fakeSecrets } from "../../support/fakes.ts";
import { aChange, aPreviewWorld, base, inFolder, named } from "../../support/preview.ts";

describe("a failure", () => {
  test("of one deployment is reported, and the others are compared", async () => {
    const kluctl: PreviewDeps["kluctl"] = {
      render: () => Promise.reject(new Error("nothing is rendered here")),
      diff: ({ deployment: { name } }) =>
        name === "b" ? Promise.reject(new PrepareError("template failed: app.yaml:3")) : Promise.resolve(aChange),
    };
    const { run, previews, sources } = aPreviewWorld(
      [named("c", { spec: inFolder("gone") }), named("b"), named("a"), named("d", { spec: inFolder("") })],
      { kluctl },
    );
    sources.nextMerge.paths = [""];
    expect(await run()).toEqual({ kind: "done" });
    expect(previews().map(({ deployment, state, failure }) => [deployment.name, state, failure])).toEqual([
      ["a", "done", undefined],
      ["b", "failed", "template failed: app.yaml:3"],
      ["c", "failed", "there is no directory gone"],
      ["d", "done", undefined],
    ]);
  });

  test.each([
    ["may not read what changes, and fails without the merge too", undefined, "run"],
    ["is known to read what changes", "app/\nlibs", "render"],
  ] as const)("of a deployment that %s", async (_, reads, failed) => {
    const annotations: Record<string, string> = reads === undefined ? {} : { [annotation.reads]: reads };
    const spec = inFolder("app");
    const { run, previews, kluctl, sources } = aPreviewWorld([named("a", { spec, annotations })]);
    sources.nextMerge.changed = { complete: true, paths: ["libs/base.yaml"] };
    sources.nextMerge.inBase = true;
    kluctl.answers.diff = new PrepareError("template failed: app.yaml:3");
    await run();
    expect(previews()).toMatchObject([{ state: "failed", failed, ...(failed === "run" && { unsure: true }) }]);
    expect(previews()[0]?.unsure).toBe(failed === "run" ? true : undefined);
    expect(previews()[0]?.failure?.includes("without the pull request either")).toBe(failed === "run");
  });

  test("is reported without the logins", async () => {
    const password = "a-password-of-git";
    const { run, previews, kluctl } = aPreviewWorld(
      [named("a", { spec: { gitCredentials: [{ secretName: "git" }] } })],
      {
        secrets: fakeSecrets({ "shop/git": { username: "bot", password } }),
      },
    );
    kluctl.answers.diff = new PrepareError(`cannot clone https://bot:${password}@git.example.com/x`);
    await run();
    expect(previews()[0]).toMatchObject({ state: "failed", failure: expect.stringContaining("cannot clone") });
    expect(JSON.stringify(previews())).not.toContain(password);
  });

  test("is reported without the values that were masked for kluctl", async () => {
    const { run, previews, kluctl } = aPreviewWorld([named("a")]);
    const changes = [
      { type: "update" as const, jsonPath: "data.url", oldValue: "db:correct-horse", newValue: "db:new" },
    ];
    const object = anObject({ changes });
    kluctl.answers.diff = aResult({ objects: [object], maskedValues: ["correct-horse"] });
    await run();
    expect(previews()[0]).toMatchObject({ state: "done", counts: { changed: 1 } });
    expect(JSON.stringify(previews())).not.toContain("correct-horse");
    expect(JSON.stringify(previews())).toContain("db:new");
  });

  test("because of a missing login of the project is reported for the deployments that lack it", async () => {
    const helmCredentials = [{ host: "charts.test", secretName: "helm" }];
    const secrets = fakeSecrets({ "shop/helm": { username: "bot", password: "a-password-of-charts" } });
    const { run, previews, kluctl } = aPreviewWorld(
      [
        named("a", { spec: { helmCredentials } }),
        named("b"),
        named("c", { spec: { ociCredentials: [{ secretName: "gone" }] } }),
      ],
      { secrets },
    );
    kluctl.answers.diff = new PrepareError("charts.test refused bot:a-password-of-charts");
    await run();
    expect(
      kluctl.runs.map(({ run: { deployment, credentials } }) => [deployment?.name, credentials?.helm.length]),
    ).toEqual([
      ["a", 1],
      ["b", 0],
    ]);
    expect(previews().map(({ failure }) => failure)).toEqual([
      expect.stringContaining("charts.test refused bot:"),
      expect.stringContaining("charts.test refused bot:"),
      expect.stringContaining("failed to get secret 'gone'"),
    ]);
    expect(JSON.stringify(previews()[0])).not.toContain("a-password-of-charts");
  });

  test("because of a missing Secret fails for the deployments that refer to it", async () => {
    const { run, previews, sources } = aPreviewWorld([
      named("a", { spec: { gitCredentials: [{ secretName: "git" }] } }),
      named("b"),
      named("c", {
        spec: { ...inFolder("elsewhere"), gitCredentials: [{ secretName: "git" }] },
        annotations: { [annotation.reads]: "elsewhere/" },
      }),
    ]);
    sources.nextMerge.changed = { complete: true, paths: ["app/a.yaml"] };
    expect(await run()).toEqual({ kind: "done" });
    expect(previews()).toMatchObject([
      {
        deployment: { name: "a" },
        state: "failed",
        failure: expect.stringContaining("failed to get secret 'git'"),
      },
      { deployment: { name: "b" }, state: "done" },
    ]);
  });

  test("that is transient is reported and retried", async () => {
    const { run, told, kluctl } = aPreviewWorld([named("a")]);
    kluctl.answers.diff = new KilledError("signal", "kluctl broke off");
    expect(await run()).toEqual({ kind: "failed", retry: "soon", message: "1 of 1 previews failed" });
    const previews = [{ state: "failed", failure: "kluctl broke off" }];
    expect(told).toMatchObject([{ state: "done", mendable: true, previews }]);
  });

  test("that an operator has to fix is reported at once, and checked again later", async () => {
    const { run, told, kluctl } = aPreviewWorld([named("a")]);
    kluctl.answers.diff = new PreviewRefusedError("a preview needs a service account");
    expect(await run()).toEqual({ kind: "done" });
    const previews = [{ state: "failed", failure: "a preview needs a service account" }];
    expect(told).toMatchObject([{ state: "done", mendable: true, previews }]);
  });

  test("before the comparison is retried, and reported at the last attempt", async () => {
    const { run, told, sources } = aPreviewWorld([named("a")]);
    sources.failing.error = new SourceError("unreachable", "git.example.com does not answer");
    const failed = { kind: "failed", retry: "soon", message: "git.example.com does not answer" };
    expect(await run()).toEqual(failed);
    expect(told).toEqual([]);
    expect(await run({ attempt: 5, lastAttempt: true })).toEqual(failed);
    const obstacle = { kind: "failed", message: "git.example.com does not answer" };
    expect(told).toMatchObject([{ state: "done", obstacle, mendable: true, previews: [] }]);
  });

  test("because the base branch is missing, maybe only for now, is retried", async () => {
    const { run, told, sources } = aPreviewWorld([named("a")]);
    delete sources.refs["refs/heads/main"];
    expect(await run()).toMatchObject({ kind: "failed", retry: "soon" });
    await run({ lastAttempt: true });
    expect(told).toMatchObject([{ obstacle: { message: "there is no branch main to merge into" } }]);
  });

  test("of one of several logins does not block the others for ever", async () => {
    const { run, told, sources } = aPreviewWorld([
      named("a"),
      named("b", { spec: inFolder("", { url: "git@git.example.com:org/shop" }) }),
    ]);
    const { heads } = sources;
    sources.heads = (repository, ...rest) =>
      repository.url.startsWith("git@")
        ? Promise.reject(new SourceError("unreachable", "port 22 does not answer"))
        : heads(repository, ...rest);
    expect(await run()).toMatchObject({ kind: "failed", retry: "soon" });
    expect(told).toEqual([]);
    await run({ lastAttempt: true });
    expect(told).toMatchObject([
      { base, previews: [{ state: "done" }, { state: "failed", failure: "port 22 does not answer" }] },
    ]);
    expect(sources.released).toHaveLength(2);
  });
});

describe("a forge", () => {
  test.each([
    ["unreachable", undefined, { kind: "later", afterMs: 15_000 }],
    ["rate-limited", 7_000, { kind: "later", afterMs: 7_000 }],
    ["rate-limited", undefined, { kind: "later", afterMs: 60_000 }],
    ["unauthorized", undefined, { kind: "failed", retry: "person" }],
  ] as const)("that is %s (%s ms): %o", async (problem, retryAfterMs, outcome) => {
    const { run, forge, told, reports } = aPreviewWorld([named("a")]);
    forge.fail(problem, retryAfterMs);
    expect(await run()).toMatchObject(outcome);
    expect(told).toEqual([]);
    expect(await reports.refused("gitea")).toHaveLength(outcome.kind === "failed" ? 1 : 0);
  });
});

test("a report that was saved is to be published, even if no job could be queued for it", async () => {
  const { run, reports, queue } = aPreviewWorld([named("a")]);
  queue.enqueue = () => Promise.reject(new QueueUnavailableError("Redis is away"));
  expect(await run({ lastAttempt: true })).toMatchObject({ kind: "failed", retry: "soon" });
  expect(await reports.unpublished("gitea", -60_000)).toMatchObject([{ number: 7 }]);
});

test("a preview is retried if Redis is unavailable", async () => {
  const { run, reports } = aPreviewWorld([named("a")]);
  reports.save = () => Promise.reject(new QueueUnavailableError("Redis is away"));
  expect(await run({ lastAttempt: true })).toEqual({ kind: "failed", retry: "soon", message: "Redis is away" });
});

describe("a failed preview", () => {
  test.each<[string, Error, "render" | "run"]>([
    ["a template that fails", new PrepareError("template failed: app.yaml:3"), "render"],
    ["a directory that the merge has not", new SourceError("path-not-found", "there is no directory app"), "render"],
    ["a template that reads what does not answer", new PrepareError("dial tcp: i/o timeout"), "run"],
    ["a login that is refused", new SourceError("unauthorized", "authentication failed"), "run"],
    ["a server that refuses it", new PreviewRefusedError("a preview needs a service account"), "run"],
    ["a kluctl that took too long", new KilledError("timeout", "kluctl took longer than 2m"), "run"],
    ["an answer of kluctl that cannot be read", new Error("kluctl's result cannot be read"), "run"],
  ])("is blamed on the pull request only if the pull request may be the cause: %s", async (_, error, failed) => {
    const { run, previews, kluctl } = aPreviewWorld([named("a")]);
    kluctl.answers.diff = error;
    await run();
    expect(previews()).toMatchObject([{ state: "failed", failure: error.message, failed }]);
  });

  test("names the line of the repository that cannot be rendered, if the merge has it", async () => {
    const { run, previews, kluctl, sources } = aPreviewWorld([named("a", { spec: inFolder("app") })]);
    const reason = `File "deploy.yml", line 2, in template\n    replicas: {{ count }}\nUndefinedError: 'count' is undefined`;
    kluctl.answers.diff = new PrepareError(`failed rendering template 'deploy.yml': ${reason}`);
    await run();
    expect(previews()[0]?.at).toBeUndefined();
    sources.nextMerge.files = { "app/deploy.yml": "kind: Deployment\n  replicas: {{ count }}\n" };
    await run();
    expect(previews()[0]?.at).toEqual({ path: "app/deploy.yml", line: 2 });
  });
});
