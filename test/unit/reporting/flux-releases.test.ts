/** The commit statuses of HelmReleases, which record no commit. */
import { expect, test } from "vitest";
import { aFluxSource, aHelmRelease, aKustomization } from "../../support/flux.ts";
import { applied, before, inProgress, later, old, pushed, useFluxStatuses } from "../../support/flux-statuses.ts";

const release = "towline/helmrelease/web/web";
const ready = ["True", "UpgradeSucceeded"] as const;
const git = {
  chart: { spec: { chart: "./chart", sourceRef: { kind: "GitRepository", name: "shop", namespace: "flux-system" } } },
};
const own = (lines: string[]) => lines.filter((line) => line.startsWith(release));

test("a HelmRelease has the commit that its Kustomization has applied, once its own spec is released", async () => {
  const { flux, write, news } = useFluxStatuses();
  flux.set(aFluxSource({ commit: old }), aKustomization("apps", before), aHelmRelease("web", { ready }));
  await write();
  expect(own(news())).toEqual([`${release} pending waits for Kustomization flux-system/apps`]);
  flux.set(aFluxSource({ commit: pushed }));
  flux.set(aKustomization("apps", { ...before, attempting: pushed, ready: inProgress }));
  await write();
  expect(own(news())).toEqual([]);

  // The Kustomization changed it, which the watch of HelmReleases does not show yet.
  flux.set(aKustomization("apps", applied));
  flux.ahead.set("web/web", aHelmRelease("web", { generation: 2, observedGeneration: 1, seenGeneration: 1, ready }));
  await write();
  expect(own(news())).toEqual([`${release} pending being applied by Flux`]);
  // It has been read; the watch is believed once it shows what was read.
  flux.ahead.clear();
  await write();
  expect(own(news())).toEqual([]);
  flux.set(aHelmRelease("web", { generation: 2, ready: ["False", "UpgradeFailed", "timed out\nlogs"] }));
  await write();
  expect(own(news())).toEqual([`${release} failure timed out`]);
  flux.set(aHelmRelease("web", { generation: 2, ready }));
  await write();
  expect(own(news())).toEqual([`${release} success applied`]);
});

test("a HelmRelease that cannot be read has no result yet", async () => {
  const { flux, write, news } = useFluxStatuses();
  flux.set(aFluxSource({ commit: pushed }), aKustomization("apps", applied), aHelmRelease("web", { ready }));
  flux.ahead.set("web/web", new Error("the API server is away"));
  expect(await write(), "Flux reports nothing new").toMatchObject({
    ...{ kind: "later", why: "HelmRelease web/web could not be read" },
    afterMs: 15_000,
  });
  expect(own(news())).toEqual([`${release} pending being applied by Flux`]);
  flux.ahead.clear();
  expect(await write()).toEqual({ kind: "done" });
  expect(own(news())).toEqual([`${release} success applied`]);
});

test("a HelmRelease that the commit resumes is not believed to be what it was before", async () => {
  const { flux, write, news } = useFluxStatuses();
  const off = aHelmRelease("web", { ready, spec: { suspend: true } });
  flux.set(aFluxSource({ commit: pushed }), aKustomization("apps", before), off);
  await write();
  expect(own(news())).toEqual([`${release} success suspended: Flux applies nothing`]);
  flux.set(aKustomization("apps", applied));
  flux.ahead.set("web/web", aHelmRelease("web", { generation: 2, observedGeneration: 1, seenGeneration: 1, ready }));
  await write();
  expect(own(news())).toEqual([`${release} pending being applied by Flux`]);
});

test("a HelmRelease stays as it is while its Kustomization is checked again, and when it goes on to the next commit", async () => {
  const { flux, write, news, sources } = useFluxStatuses();
  flux.set(aFluxSource({ commit: pushed }), aKustomization("apps", applied), aHelmRelease("web", { ready }));
  await write();
  expect(own(news())).toEqual([`${release} success applied`]);
  flux.set(aKustomization("apps", { ...applied, attempting: pushed, ready: inProgress }));
  await write();
  sources.refs["refs/heads/main"] = later;
  flux.set(
    aFluxSource({ commit: later }),
    aKustomization("apps", { ...applied, attempting: later, ready: inProgress }),
  );
  flux.set(aHelmRelease("web", { generation: 2, ready: ["False", "UpgradeFailed", "timed out"] }));
  await write();
  expect(own(news())).toEqual([]);
});

test.each<[string, Parameters<typeof aHelmRelease>[1], string]>([
  ["suspended", { spec: { suspend: true } }, "success suspended: Flux applies nothing"],
  [
    "waiting for another one",
    { ready: ["False", "DependencyNotReady", "dependency 'web/db' is not ready"] },
    "pending waits for web/db",
  ],
  [
    "waiting for its chart",
    { ready: ["False", "SourceNotReady", "HelmChart 'web/web' is not ready"] },
    "pending waits: HelmChart 'web/web' is not ready",
  ],
  [
    "of the old spec",
    { generation: 2, observedGeneration: 1, seenGeneration: 1, ready },
    "pending being applied by Flux",
  ],
  ["stalled", { isStalled: true, ready: ["False", "RetriesExceeded", "gave up"] }, "failure gave up"],
])("a HelmRelease that is %s says so", async (_, played, expected) => {
  const { flux, write, news } = useFluxStatuses();
  flux.set(aFluxSource({ commit: pushed }), aKustomization("apps", applied), aHelmRelease("web", played));
  await write();
  expect(own(news())).toEqual([`${release} ${expected}`]);
});

test("a HelmRelease with a chart in the repository has the commit that the released chart was built from", async () => {
  const { flux, write, news } = useFluxStatuses();
  const built = (commit: string | undefined, version: string | undefined) => ({ chart: { commit, version } });
  flux.set(aFluxSource({ commit: old }));
  const states: [Parameters<typeof aHelmRelease>[1], string[]][] = [
    [{ ...built(old, "1.0.0"), version: "1.0.0", ready }, ["pending queued"]],
    // Being built.
    [{ ...built(undefined, undefined), version: "1.0.0", ready }, []],
    // Built, and not released yet: the condition is that of the release before.
    [{ ...built(pushed, "1.0.1"), version: "1.0.0", ready }, []],
    [
      { ...built(pushed, "1.0.1"), version: "1.0.1", ready: ["Unknown", "Progressing"] },
      ["pending being applied by Flux"],
    ],
    [{ ...built(pushed, "1.0.1"), version: "1.0.1", ready }, ["success applied"]],
  ];
  for (const [played, expected] of states) {
    flux.set(aHelmRelease("web", { ...played, spec: git, owner: "" }));
    await write();
    expect(own(news())).toEqual(expected.map((line) => `${release} ${line}`));
  }
});

test("a HelmRelease with a chart in the repository and in a Kustomization of it waits for both", async () => {
  const { flux, write, news } = useFluxStatuses();
  const both = { spec: git, chart: { commit: pushed, version: "1.0.1" }, version: "1.0.1", ready };
  flux.set(aFluxSource({ commit: pushed }), aKustomization("apps", before), aHelmRelease("web", both));
  await write();
  expect(own(news())).toEqual([`${release} pending waits for Kustomization flux-system/apps`]);
  flux.set(aKustomization("apps", applied), aHelmRelease("web", { ...both, chart: { commit: old, version: "1.0.1" } }));
  await write();
  expect(own(news())).toEqual([`${release} pending queued`]);
  flux.set(aHelmRelease("web", both));
  await write();
  expect(own(news())).toEqual([`${release} success applied`]);
});

test("a HelmRelease that nothing of this repository contains has no status", async () => {
  const { flux, write, news } = useFluxStatuses();
  flux.set(aFluxSource({ commit: pushed }), aFluxSource({ name: "other", url: "https://git.example.com/org/other" }));
  flux.set(aKustomization("infra", { ...applied, spec: { sourceRef: { kind: "GitRepository", name: "other" } } }));
  const elsewhere = {
    chart: { spec: { sourceRef: { kind: "GitRepository", name: "other", namespace: "flux-system" } } },
  };
  flux.set(aHelmRelease("a", { owner: "infra", ready }), aHelmRelease("b", { owner: "lost", ready }));
  flux.set(aHelmRelease("c", { owner: "", ready }), aHelmRelease("d", { spec: elsewhere, ready }));
  await write();
  expect(news()).toEqual([]);
});
