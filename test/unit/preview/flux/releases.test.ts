/** Charts of HelmReleases in previews; test/integration renders them with Helm's own code. */
import { expect, test } from "vitest";
import { ApiError, FluxRenderError, KilledError } from "../../../../src/errors.ts";
import type { JsonObject } from "../../../../src/kit/json.ts";
import type { RenderedRelease, ReleaseToRender } from "../../../../src/ports.ts";
import { renderComment } from "../../../../src/comment/comment.ts";
import { type ObjectRef, refId } from "../../../../src/model.ts";
import { refOf } from "../../../../src/preview/flux/manifests.ts";
import { aPreviewWorld, base } from "../../../support/preview.ts";
import { aConfigMap, aFluxResource, fakeFluxPreviews, ownedBy } from "../../../support/flux-previews.ts";

interface ReleaseOptions {
  readonly spec?: JsonObject;
  readonly chart?: JsonObject;
  readonly annotations?: JsonObject;
}

function aRelease({ spec = {}, chart = {}, annotations }: ReleaseOptions = {}): JsonObject {
  const sourceRef = { kind: "GitRepository", name: "shop", namespace: "flux-system" };
  return ownedBy("apps", {
    ...{ apiVersion: "helm.toolkit.fluxcd.io/v2", kind: "HelmRelease" },
    metadata: { name: "web", namespace: "shop", ...(annotations && { annotations }) },
    spec: { interval: "1m", chart: { spec: { chart: "./charts/web", sourceRef, ...chart } }, ...spec },
  });
}

const ready = (release: JsonObject) => ({
  ...release,
  metadata: { ...(release["metadata"] as object), generation: 1 },
  status: {
    ...{ observedGeneration: 1, conditions: [{ type: "Ready", status: "True" }] },
    history: [{ chartVersion: "0.1.0", status: "deployed" }],
  },
});

/** As Helm has applied it on the server. */
function asLive(object: JsonObject): JsonObject {
  const metadata = object["metadata"] as JsonObject;
  return {
    ...object,
    metadata: {
      ...metadata,
      managedFields: [{ manager: "helm-controller", operation: "Apply" }],
      labels: { "app.kubernetes.io/managed-by": "Helm", "helm.toolkit.fluxcd.io/name": "web", "helm.toolkit.fluxcd.io/namespace": "shop" }, // prettier-ignore
      annotations: { ...(metadata["annotations"] as object), "meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "shop" }, // prettier-ignore
    },
  };
}

const rendered = (...objects: readonly JsonObject[]): Extract<RenderedRelease, { objects: unknown }> => ({
  objects: objects.map((object) => ({
    ...object,
    metadata: {
      ...(object["metadata"] as object),
      labels: { "helm.toolkit.fluxcd.io/name": "web", "helm.toolkit.fluxcd.io/namespace": "shop" },
    },
  })),
  ...{ hooks: [], crds: [], files: ["charts/web/Chart.yaml", "charts/web/templates/all.yaml"] },
  chart: { name: "web", version: "0.1.0" },
});

const settings = (level: string) => aConfigMap("settings", { level });

interface WorldOptions {
  readonly base?: readonly JsonObject[];
  readonly merged?: readonly JsonObject[];
  readonly live?: readonly JsonObject[];
  readonly changed?: readonly string[];
}

/** A pull request into a repository with the Kustomization `apps`, which contains the HelmRelease `shop/web`. */
function aWorld(render: (side: "base" | "merged", release: ReleaseToRender) => RenderedRelease, options: WorldOptions) {
  const { base: before = [aRelease()], merged = before, live = before.map(ready), changed = [] } = options;
  const releases: { side: string; release: ReleaseToRender }[] = [];
  const flux = fakeFluxPreviews([aFluxResource("apps", { applied: base })], {
    ...{ base: { apps: before }, merged: { apps: merged } },
    release(root, release) {
      const side = root.startsWith("/base") ? "base" : "merged";
      releases.push({ side, release });
      return render(side, release);
    },
  });
  const world = aPreviewWorld([], { flux: flux.deps, settings: { serviceAccount: "dry-run" } });
  world.sources.nextMerge.inBase = true;
  world.sources.nextMerge.changed = { complete: true, paths: [...changed] };
  for (const object of live) flux.live.set(idOf(object), object);
  const commentOf = () => {
    const report = world.told.at(-1);
    return report === undefined ? "" : renderComment(report, { maxLength: 60_000, marker: "" });
  };
  const previewOf = (kind: string) => world.previews().find((preview) => preview.kind === kind);
  return { ...world, flux, releases, commentOf, release: () => previewOf("HelmRelease"), previewOf };
}

function idOf(object: JsonObject): string {
  return refId(refOf(object) as ObjectRef);
}

const values = (level: string) => aRelease({ spec: { values: { level } } });
const levelOf = ({ resource }: ReleaseToRender) =>
  String(((resource["spec"] as JsonObject)["values"] as JsonObject | undefined)?.["level"] ?? "1");
const byValues = (_: string, release: ReleaseToRender) => rendered(settings(levelOf(release)));

test("a HelmRelease with other values shows what the upgrade would change in the cluster", async () => {
  const world = aWorld(byValues, { base: [values("1")], merged: [values("2")] });
  world.flux.has(asLive(settings("1")));
  expect(await world.run()).toEqual({ kind: "done" });
  const preview = world.release();
  expect(preview).toMatchObject({
    ...{ deployment: { namespace: "shop", name: "web" }, state: "done", drift: 0 },
    counts: { changed: 1, new: 0, deleted: 0, errors: 0, warnings: 0 },
  });
  expect(preview?.objects[0]?.diff).toBe(" data.level:\n-  1\n+  2");
  expect(world.previewOf("Kustomization")?.warnings).toEqual([]);
  expect(world.commentOf()).toContain("HelmRelease shop/web");
  expect(new Set(world.flux.accounts)).toEqual(new Set(["system:serviceaccount:flux-system:dry-run"]));
});

test("what is not the pull request's change is shown as drift", async () => {
  const world = aWorld(byValues, { base: [values("1")], merged: [values("2")] });
  world.flux.has({ ...asLive(settings("1")), data: { level: "by hand" } });
  await world.run();
  expect(world.release()?.counts.changed).toBe(1);
  expect(world.release()?.objects[0]?.diff).toContain("+  2");
});

test("a chart whose files change is rendered, although its HelmRelease stays the same", async () => {
  const next = { ...rendered(settings("2")), chart: { name: "web", version: "0.2.0" } };
  const world = aWorld((side) => (side === "base" ? rendered(settings("1")) : next), {
    changed: ["charts/web/templates/all.yaml"],
  });
  world.flux.has(asLive(settings("1")));
  await world.run();
  expect(world.previewOf("Kustomization")).toBeUndefined();
  expect(world.release()?.objects[0]?.diff).toBe(" data.level:\n-  1\n+  2");
});

test("a dependency elsewhere in the repository is part of the chart", async () => {
  const files = ["charts/web/Chart.yaml", "charts/common/values.yaml"];
  const world = aWorld(
    (side) => ({ ...rendered(settings(side === "base" ? "1" : "2")), files, chart: { name: "web", version: side } }),
    { changed: ["charts/common/values.yaml"] },
  );
  world.flux.has(asLive(settings("1")));
  await world.run();
  expect(world.release()?.counts.changed).toBe(1);
});

test("a file of a chart that a Kustomization reads as well is part of the chart", async () => {
  // The Kustomization of the fake has read this file.
  const files = ["charts/web/Chart.yaml", "apps/a.yaml"];
  const world = aWorld(
    (side) => ({ ...rendered(settings(side === "base" ? "1" : "2")), files, chart: { name: "web", version: side } }),
    { changed: ["apps/a.yaml"] },
  );
  world.flux.has(asLive(settings("1")));
  await world.run();
  expect(world.release()?.objects[0]?.diff).toBe(" data.level:\n-  1\n+  2");
});

test("what is not part of a chart renders none", async () => {
  const world = aWorld(byValues, { changed: ["README.md"] });
  await world.run();
  expect(world.previews()).toEqual([]);
  expect(world.releases.every(({ release }) => release.onlyFiles)).toBe(true);
});

test("without a new version, Flux keeps the chart that it has: the preview shows the next one, and says so", async () => {
  const of = (side: string, release: ReleaseToRender) =>
    rendered(settings(`${levelOf(release)} by the chart of the ${side}`));
  const world = aWorld(of, { base: [values("1")], merged: [values("2")], changed: ["charts/web/templates/all.yaml"] });
  world.flux.has(asLive(settings("1 by the chart of the base")));
  await world.run();
  expect(world.release()?.objects[0]?.diff).toContain("2 by the chart of the merged");
  expect(world.release()?.noUpgrade).toBeUndefined();
  expect(world.commentOf()).toContain("Flux keeps the chart that it has built");
});

test("a new version releases what earlier commits have changed in the chart without one", async () => {
  const world = aWorld(
    (side) => ({ ...rendered(settings("2"), aConfigMap("same", {})), chart: { name: "web", version: side } }),
    { changed: ["charts/web/Chart.yaml"] },
  );
  for (const object of [settings("1"), aConfigMap("same", {})]) world.flux.has(asLive(object));
  await world.run();
  expect(world.release()).toMatchObject({ counts: { changed: 1 }, objects: [{ ref: { name: "settings" } }] });
  expect(world.release()?.objects[0]?.diff).toBe(" data.level:\n-  1\n+  2");
  expect(world.release()?.drifted).toBeUndefined();
});

test("with the strategy Revision, Flux builds it for each commit", async () => {
  const release = aRelease({ chart: { reconcileStrategy: "Revision" } });
  const live = { ...ready(release), status: { ...ready(release).status, history: [{ chartVersion: "0.1.0+abc" }] } };
  const world = aWorld((side) => rendered(settings(side)), {
    ...{ base: [release], live: [live] },
    changed: ["charts/web/templates/all.yaml"],
  });
  world.flux.has(asLive(settings("base")));
  await world.run();
  expect(world.release()?.counts.changed).toBe(1);
  const whole = world.releases.filter(({ release: { onlyFiles } }) => !onlyFiles);
  // Otherwise the version in labels would differ from the one in the cluster.
  expect(new Set(whole.map(({ release: { versionMetadata } }) => versionMetadata))).toEqual(new Set(["abc"]));
});

test("only the cluster and the base say which changes are ignored", async () => {
  const of = (level: string, ignored: boolean) =>
    aRelease({ spec: { values: { level } }, ...(ignored && { annotations: { "towline.dev/ignore-changes": "/data/level" } }) }); // prettier-ignore
  const own = aWorld(byValues, { base: [of("1", false)], merged: [of("2", true)] });
  const live = aWorld(byValues, { base: [of("1", false)], merged: [of("2", false)], live: [ready(of("1", true))] });
  const old = aWorld(byValues, { base: [of("1", true)], merged: [of("2", false)], live: [] });
  for (const world of [own, live, old]) world.flux.has(asLive(settings("1")));
  await Promise.all([own.run(), live.run(), old.run()]);
  expect([own, live, old].map((world) => world.release()?.counts.changed)).toEqual([1, 0, 0]);
});

test("if nothing that is released changes, there is no upgrade", async () => {
  const merged = aRelease({ spec: { interval: "5m" } });
  const world = aWorld(byValues, { base: [aRelease()], merged: [merged] });
  await world.run();
  expect(world.release()).toMatchObject({ state: "done", counts: { changed: 0 }, noUpgrade: true });
  expect(world.commentOf()).toContain("no upgrade");
});

const reinstalls: readonly (readonly [string, JsonObject])[] = [
  ["name", { releaseName: "other" }],
  ["namespace", { targetNamespace: "other" }],
  ["storage namespace", { storageNamespace: "other" }],
];

test.each(reinstalls)("with another %s, Flux uninstalls the release and installs it again", async (_, spec) => {
  const world = aWorld((_side, release) => {
    const { targetNamespace: namespace, releaseName: name } = release.resource["spec"] as Record<string, string>;
    return rendered(aConfigMap(name ?? "settings", {}, namespace === undefined ? {} : { namespace }));
  }, { base: [aRelease()], merged: [aRelease({ spec })] }); // prettier-ignore
  world.flux.has(asLive(aConfigMap("settings", {})));
  await world.run();
  expect(world.release()?.noUpgrade).toBeUndefined();
  const moved = "storageNamespace" in spec ? 0 : 1;
  expect(world.release()?.counts).toMatchObject({ deleted: moved, new: moved, changed: 0 });
  expect(world.commentOf()).toContain("uninstalls the release shop/web and installs it again");
});

test("the same objects in a release of another name are changed", async () => {
  const merged = aRelease({ spec: { releaseName: "other" } });
  const world = aWorld(() => rendered(settings("1")), { base: [aRelease()], merged: [merged] });
  world.flux.has(asLive(settings("1")));
  await world.run();
  expect(world.release()?.objects[0]?.diff).toContain("+  other");
});

test("with another name of the chart, Flux uninstalls the release and installs it again", async () => {
  const of = (_: string, release: ReleaseToRender) => ({
    ...rendered(settings("1")),
    chart: { name: levelOf(release), version: "1.0.0" },
  });
  const world = aWorld(of, { base: [values("1")], merged: [values("2")] });
  await world.run();
  expect(world.commentOf()).toContain("uninstalls the release shop/web and installs it again");
});

test("values that the chart makes anew each time are folded", async () => {
  let times = 0;
  const world = aWorld((_, release) => rendered(aConfigMap("settings", { level: levelOf(release), password: `random${times++}` })), { base: [values("1")], merged: [values("2")] }); // prettier-ignore
  world.flux.has(asLive(aConfigMap("settings", { level: "1", password: "live" })));
  await world.run();
  const [object, ...others] = world.release()?.objects ?? [];
  expect(others).toEqual([]);
  expect(object?.diff).toBe(" data.level:\n-  1\n+  2");
  expect(world.commentOf()).toContain("changes of data.password are not shown");
});

test("a random value that becomes a fixed one is shown", async () => {
  let times = 0;
  const of = (side: string) => rendered(aConfigMap("settings", { password: side === "base" ? `random${times++}` : "fixed" })); // prettier-ignore
  const world = aWorld(of, { base: [values("1")], merged: [values("2")] });
  world.flux.has(asLive(aConfigMap("settings", { password: "live" })));
  await world.run();
  expect(world.release()?.objects[0]?.diff).toContain("+  fixed");
});

test("a random value hides no other line of its text, also of a hook", async () => {
  let times = 0;
  const text = (release: ReleaseToRender) =>
    `run: ${levelOf(release)}\ntoken: random${times++} for ${levelOf(release)}\n`;
  const of = (_: string, release: ReleaseToRender) => ({
    ...rendered(aConfigMap("settings", { script: text(release) })),
    hooks: [asHook(aConfigMap("seed", { script: text(release) }))],
  });
  const world = aWorld(of, { base: [values("1")], merged: [values("2")] });
  world.flux.has(asLive(aConfigMap("settings", { script: "live" })));
  await world.run();
  for (const name of ["settings", "seed"]) {
    const diff = world.release()?.objects.find(({ ref }) => ref.name === name)?.diff;
    expect(diff).toContain("+  run: 2");
    expect(diff).toMatch(/-  token: (random\d+) for 1\n(?:.*\n)*\+  token: \1 for 2/);
  }
});

test("a value from a Secret is shown by name, and nothing live beside it", async () => {
  const from = [{ kind: "Secret", name: "login", valuesKey: "password", targetPath: "password" }];
  const of = (level: string) => aRelease({ spec: { values: { level }, valuesFrom: from } });
  const world = aWorld(
    (_, release) => {
      const password = release.objects[0]?.data["password"] ?? "";
      return rendered(aConfigMap("settings", { level: levelOf(release), url: `https://ann:${password}@db` }));
    },
    { base: [of("1")], merged: [of("2")] },
  );
  world.flux.has(asLive(aConfigMap("settings", { level: "1", url: "https://ann:horse-battery@db" })));
  world.flux.has({ apiVersion: "v1", kind: "Secret", metadata: { name: "login", namespace: "shop" } });
  await world.run();
  expect(world.release()?.objects[0]?.diff).toBe(" data.level:\n-  1\n+  2");
  expect(JSON.stringify(world.told)).not.toContain("horse-battery");
  expect(world.flux.asked.join()).not.toContain("Secret");
  expect(world.commentOf()).toContain("some of its values come from a Secret");
  expect(world.commentOf()).toContain("templates that decide by a value from a Secret may render something else");
});

test("nothing live is shown if the cluster may still have values from a Secret", async () => {
  const earlier = aRelease({ spec: { valuesFrom: [{ kind: "Secret", name: "login", targetPath: "password" }] } });
  const world = aWorld(byValues, { base: [values("1")], merged: [values("2")], live: [ready(earlier)] });
  world.flux.has({ ...asLive(settings("1")), data: { level: "horse-battery" } });
  await world.run();
  expect(world.release()?.objects[0]?.diff).toBe(" data.level:\n-  1\n+  2");
  expect(JSON.stringify(world.told)).not.toContain("horse-battery");
});

test("if Flux does not apply on the server, the two commits are compared with each other", async () => {
  const of = (_: string, release: ReleaseToRender) =>
    rendered(aConfigMap("settings", levelOf(release) === "1" ? { level: "1", gone: "x" } : { level: "1" }));
  const live = asLive(aConfigMap("settings", { level: "by hand", gone: "x" }));
  const byClient = { manager: "helm-controller", operation: "Update" };
  const before = aWorld(of, { base: [values("1")], merged: [values("2")] });
  before.flux.has({ ...live, metadata: { ...(live["metadata"] as JsonObject), managedFields: [byClient] } });
  const disabled = (level: string) => aRelease({ spec: { values: { level }, upgrade: { serverSideApply: "disabled" } } }); // prettier-ignore
  const never = aWorld(of, { base: [disabled("1")], merged: [disabled("2")] });
  never.flux.has(live);
  await Promise.all([before.run(), never.run()]);
  for (const world of [before, never]) expect(world.release()?.objects[0]?.diff).toBe(" data.gone:\n-  x");
  expect(before.commentOf()).toContain("Flux did not use server-side apply there");
  expect(never.commentOf()).toContain("the HelmRelease disables server-side apply");
});

test("an object of another release is not shown as it is in the cluster", async () => {
  const world = aWorld(byValues, { base: [values("1")], merged: [values("2")] });
  const foreign = asLive({ ...settings("1"), data: { level: "horse-battery" } });
  const metadata = foreign["metadata"] as JsonObject;
  world.flux.has({ ...foreign, metadata: { ...metadata, labels: { "helm.toolkit.fluxcd.io/name": "other" } } });
  await world.run();
  expect(JSON.stringify(world.told)).not.toContain("horse-battery");
  expect(world.release()?.objects[0]?.diff).toBe(" data.level:\n-  1\n+  2");
});

test("a ConfigMap with values is the one that each commit renders", async () => {
  const map = (level: string) => ownedBy("apps", aConfigMap("web-values", { "values.yaml": `level: ${level}` }));
  const release = aRelease({ spec: { valuesFrom: [{ kind: "ConfigMap", name: "web-values" }] } });
  const world = aWorld((_, { objects }) => rendered(settings(objects[0]?.data["values.yaml"] ?? "none")), {
    ...{ base: [release, map("1")], merged: [release, map("2")] },
  });
  world.flux.has(asLive(settings("level: 1")));
  await world.run();
  expect(world.release()?.objects[0]?.diff).toBe(" data.level:\n-  level: 1\n+  level: 2");
});

test.each([
  ["another Kustomization", ownedBy("other", aConfigMap("theirs", { "values.yaml": "level: horse-battery" }))],
  ["another release", asLive(aConfigMap("theirs", { "values.yaml": "level: horse-battery" }))],
])("values in a ConfigMap of %s are not shown", async (_, theirs) => {
  const from = aRelease({ spec: { valuesFrom: [{ kind: "ConfigMap", name: "theirs" }] } });
  const world = aWorld((_, { objects }) => rendered(settings(objects[0]?.data["values.yaml"] ?? "none")), {
    ...{ base: [aRelease()], merged: [from] },
  });
  world.flux.has(asLive(settings("none")));
  world.flux.has(theirs);
  await world.run();
  expect(world.release()).toBeUndefined();
  expect(JSON.stringify(world.told)).not.toContain("horse-battery");
  expect(world.commentOf()).toContain("the ConfigMap theirs with values for it belongs to something else");
});

test("values in a ConfigMap of a Kustomization whose values are all in the repository are shown", async () => {
  const from = aRelease({ spec: { valuesFrom: [{ kind: "ConfigMap", name: "ours" }] } });
  const world = aWorld((_, { objects }) => rendered(settings(objects[0]?.data["values.yaml"] ?? "none")), {
    ...{ base: [aRelease()], merged: [from] },
  });
  world.flux.has(asLive(settings("none")));
  world.flux.has(ownedBy("apps", aConfigMap("ours", { "values.yaml": "level: 2" })));
  await world.run();
  expect(world.release()?.objects[0]?.diff).toBe(" data.level:\n-  none\n+  level: 2");
});

const unrendered: readonly (readonly [string, ReleaseOptions, string])[] = [
  [
    "of a HelmRepository",
    { chart: { sourceRef: { kind: "HelmRepository", name: "charts" } } },
    "it comes from the HelmRepository charts, and previews only read charts that are files of the repository",
  ],
  [
    "with values from a whole Secret",
    { spec: { valuesFrom: [{ kind: "Secret", name: "login" }] } },
    "the Secret login has values for it",
  ],
  [
    "in another cluster",
    { spec: { kubeConfig: { secretRef: { name: "other" } } } },
    "its objects are in a cluster that only a Secret names",
  ],
  ["with values of the previous release", { spec: { upgrade: { preserveValues: true } } }, "with preserveValues"],
  ["with encrypted values", { spec: { values: { password: "ENC[AES256_GCM,data:x]" } } }, "its values are encrypted"],
  [
    "with a name that Kubernetes does not accept",
    { chart: { sourceRef: { kind: "GitRepository", name: "**x**\n\n# y" } } },
    "the HelmRelease cannot be read",
  ],
  ["that is switched off", { annotations: { "towline.dev/preview": "false" } }, "previews are disabled by annotation"],
];

test.each(unrendered)("a chart %s is not rendered, in words", async (_, options, words) => {
  const of = (interval: string) => aRelease({ ...options, spec: { ...options.spec, interval } });
  const world = aWorld(byValues, { base: [of("1m")], merged: [of("2m")] });
  await world.run();
  expect(world.release()).toBeUndefined();
  const warnings = world.previewOf("Kustomization")?.warnings.map(({ message }) => message) ?? [];
  expect(warnings.join()).toContain(`its chart is not rendered: ${words}`);
});

test("a chart that cannot be rendered fails, and is not the pull request's fault if the base's cannot either", async () => {
  const failure = { error: "template: web/templates/all.yaml:3: boom", isUnsupported: false, files: [] };
  const options = { base: [values("1")], merged: [values("2")] };
  const own = aWorld((side) => (side === "base" ? rendered(settings("1")) : failure), options);
  const old = aWorld(() => failure, options);
  await Promise.all([own.run(), old.run()]);
  expect(own.release()).toMatchObject({ state: "failed", failed: "render" });
  expect(own.release()?.failure).toContain("all.yaml:3: boom");
  expect(old.release()).toMatchObject({ state: "failed", failed: "run" });
});

test("why the base's chart cannot be rendered is shown without hidden characters and values of Secrets", async () => {
  const from = [{ kind: "Secret", name: "login", valuesKey: "password", targetPath: "password" }];
  const of = (level: string) => aRelease({ spec: { values: { level }, valuesFrom: from } });
  let placeholder = "";
  const world = aWorld(
    (side, { objects }) => {
      placeholder = objects[0]?.data["password"] ?? "";
      if (side === "merged") return rendered(settings("2"));
      return { error: `boom\u202e at ${placeholder}`, isUnsupported: false, files: [] };
    },
    { base: [of("1")], merged: [of("2")] },
  );
  await world.run();
  expect(placeholder).not.toBe("");
  expect(world.release()?.unattributed).toBe("boom\\u202e at ${login.password}");
});

test("a renderer that exceeds its limits fails the HelmReleases, and not the Kustomizations", async () => {
  const world = aWorld(
    () => {
      throw new FluxRenderError("towline-flux needs more than 1024 MiB of memory (while rendering shop/web)");
    },
    { base: [values("1")], merged: [values("2")] },
  );
  await world.run();
  expect(world.release()?.failure).toContain("1024 MiB of memory");
  expect(world.previewOf("Kustomization")?.state).toBe("done");
});

const other = (level: string) => {
  const metadata = { ...(values(level)["metadata"] as JsonObject), name: "other" };
  return { ...values(level), metadata };
};

function endsAt(side: string, message = "towline-flux was ended after 60 s") {
  return (root: string, release: ReleaseToRender): RenderedRelease => {
    const isWeb = (release.resource["metadata"] as JsonObject)["name"] === "web";
    if (isWeb && root === side) throw Object.assign(new KilledError("timeout", message), { rendering: "shop/web" });
    return rendered(settings(levelOf(release)));
  };
}

test.each(["base", "merged"])("a chart of the %s that never ends fails, and the others are shown", async (side) => {
  const options = { base: [values("1"), other("1")], merged: [values("2"), other("2")] };
  const world = aWorld(endsAt(side), { ...options, live: options.base.map(ready) });
  await world.run();
  const [failed, ...rest] = world.previews().filter(({ kind }) => kind === "HelmRelease").toSorted((one) => one.deployment.name === "web" ? -1 : 1); // prettier-ignore
  expect(failed).toMatchObject({ deployment: { name: "web" }, state: "failed", failed: "run" });
  expect(failed?.failure).toContain("was ended after 60 s");
  expect(rest).toMatchObject([{ deployment: { name: "other" }, state: "done" }]);
  expect(world.previewOf("Kustomization")?.state).toBe("done");
});

test("a chart whose files cannot be listed in time is rendered", async () => {
  const world = aWorld(
    (side, release) => {
      if (release.onlyFiles) throw new KilledError("timeout", "towline-flux was ended after 60 s");
      return { ...rendered(settings(side)), chart: { name: "web", version: side } };
    },
    { changed: ["charts/common/values.yaml"] },
  );
  world.flux.has(asLive(settings("base")));
  await world.run();
  expect(world.release()?.objects[0]?.diff).toBe(" data.level:\n-  base\n+  merged");
});

test("a new release is installed, and one that is removed is uninstalled, except for what it keeps", async () => {
  const kept = aConfigMap("kept", {}, { annotations: { "helm.sh/resource-policy": "keep" } });
  const render = () => rendered(settings("1"), kept);
  const added = aWorld(render, { base: [], merged: [aRelease()] });
  const removed = aWorld(render, { base: [aRelease()], merged: [] });
  removed.flux.has(asLive(settings("1")));
  removed.flux.has(asLive(kept));
  const suspended = aRelease({ spec: { suspend: true } });
  const stays = aWorld(render, { base: [suspended], merged: [] });
  stays.flux.has(asLive(settings("1")));
  await Promise.all([added.run(), removed.run(), stays.run()]);
  expect(added.release()?.counts).toMatchObject({ new: 2, changed: 0 });
  expect(added.releases[0]?.release.isUpgrade).toBe(false);
  expect(removed.release()?.counts).toMatchObject({ deleted: 1, new: 0 });
  // Flux leaves the objects of a suspended one.
  expect(stays.release()).toBeUndefined();
});

test("a release may be installed into a namespace that it creates", async () => {
  const object = aConfigMap("settings", {}, { namespace: "new" });
  const refusal = { status: 404, message: 'namespaces "new" not found' };
  const namespace = { apiVersion: "v1", kind: "Namespace", metadata: { name: "new" } };
  const spec = { targetNamespace: "new", install: { createNamespace: true } };
  const byFlux = aWorld(() => rendered(object), { base: [], merged: [aRelease({ spec })] });
  const byChart = aWorld(() => rendered(namespace, object), { base: [], merged: [aRelease()] });
  const missing = aWorld(() => rendered(object), { base: [], merged: [aRelease()] });
  const worlds = [byFlux, byChart, missing];
  for (const world of worlds) world.flux.refuse(object, refusal);
  await Promise.all(worlds.map((world) => world.run()));
  expect(worlds.map((world) => world.release()?.counts.errors)).toEqual([0, 0, 1]);
});

test("what leaves the chart is deleted, and definitions of its directory crds are only created", async () => {
  const crd = (version: string) => ({
    ...{
      apiVersion: "apiextensions.k8s.io/v1",
      kind: "CustomResourceDefinition",
      metadata: { name: "things.example.com" },
    },
    spec: { group: "example.com", names: { kind: "Thing" }, scope: "Namespaced", version },
  });
  const of = (_: string, release: ReleaseToRender) =>
    levelOf(release) === "1"
      ? { ...rendered(settings("1"), aConfigMap("old", {})), crds: [crd("v1")] }
      : { ...rendered(settings("1")), crds: [crd("v2")] };
  const world = aWorld(of, { base: [values("1")], merged: [values("2")] });
  for (const object of [settings("1"), aConfigMap("old", {})]) world.flux.has(asLive(object));
  world.flux.has(crd("v1"));
  await world.run();
  expect(world.release()?.counts).toMatchObject({ deleted: 1, changed: 0, new: 0 });
});

test.each([
  ["never", undefined, false],
  ["once, and uninstalled", [{ chartVersion: "0.1.0", status: "uninstalled" }], false],
  ["with success", [{ chartVersion: "0.1.0", status: "deployed" }], true],
])("a release that was installed %s is upgraded only if there is one", async (_, history, isUpgrade) => {
  const crd = (version: string) => ({
    ...{ apiVersion: "apiextensions.k8s.io/v1", kind: "CustomResourceDefinition" },
    ...{ metadata: { name: "things.example.com" }, spec: { version } },
  });
  const of = (level: string) => aRelease({ spec: { values: { level }, install: { crds: "CreateReplace" } } });
  const live = { ...ready(of("1")), status: { ...ready(of("1")).status, history } };
  const world = aWorld((_, release) => ({ ...rendered(), crds: [crd(levelOf(release))] }), {
    ...{ base: [of("1")], merged: [of("2")], live: [live] },
  });
  world.flux.has(crd("1"));
  await world.run();
  expect(new Set(world.releases.map(({ release }) => release.isUpgrade))).toEqual(new Set([isUpgrade]));
  expect(world.release()?.counts.changed).toBe(isUpgrade ? 0 : 1);
});

test("hooks are compared between the two commits, and only those that change are shown", async () => {
  const job = (image: string) => ({
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name: "migrate", namespace: "shop", annotations: { "helm.sh/hook": "pre-upgrade" } },
    spec: { image },
  });
  const world = aWorld((_, release) => ({ ...rendered(settings("1")), hooks: [{ object: job(levelOf(release)), events: ["pre-upgrade"] }] }), { base: [values("1")], merged: [values("2")] }); // prettier-ignore
  world.flux.has(asLive(settings("1")));
  await world.run();
  expect(world.release()?.objects).toMatchObject([{ ref: { kind: "Job", name: "migrate" }, action: "changed" }]);
});

const asHook = (object: JsonObject, events = "pre-upgrade") => ({
  object: {
    ...object,
    metadata: { ...(object["metadata"] as object), annotations: { "helm.sh/hook": events } } as JsonObject,
  },
  events: [events],
});
const admins = {
  ...{ apiVersion: "rbac.authorization.k8s.io/v1", kind: "ClusterRoleBinding", metadata: { name: "all" } },
  roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "cluster-admin" },
  subjects: [{ kind: "User", name: "eve" }],
};

test("a hook that only the merge has is new, with its risks, and one that leaves the chart stays", async () => {
  const of = (_: string, release: ReleaseToRender) =>
    levelOf(release) === "1"
      ? { ...rendered(settings("1")), hooks: [asHook(aConfigMap("old", {}), "pre-delete")] }
      : { ...rendered(settings("1")), hooks: [asHook(admins)] };
  const world = aWorld(of, { base: [values("1")], merged: [values("2")] });
  world.flux.has(asLive(settings("1")));
  await world.run();
  const [added, gone, ...others] = world.release()?.objects ?? [];
  expect(others).toEqual([]);
  expect(added).toMatchObject({ ref: { kind: "ClusterRoleBinding" }, action: "new" });
  expect(added?.risks).not.toEqual([]);
  expect(gone).toMatchObject({ ref: { kind: "ConfigMap", name: "old" }, action: "orphan" });
});

test("a new release shows its hooks", async () => {
  const world = aWorld(() => ({ ...rendered(settings("1")), hooks: [asHook(admins)] }), { base: [], merged: [aRelease()] }); // prettier-ignore
  await world.run();
  expect(world.release()?.counts).toMatchObject({ new: 2 });
});

test("an object that becomes a hook is created when the hook runs", async () => {
  const of = (_: string, release: ReleaseToRender) =>
    levelOf(release) === "1"
      ? rendered(settings("1"), aConfigMap("seed", {}))
      : { ...rendered(settings("1")), hooks: [asHook(aConfigMap("seed", {}))] };
  const world = aWorld(of, { base: [values("1")], merged: [values("2")] });
  for (const object of [settings("1"), aConfigMap("seed", {})]) world.flux.has(asLive(object));
  await world.run();
  expect(world.release()?.counts).toMatchObject({ new: 1, deleted: 1 });
  expect(world.commentOf()).toContain("it becomes a hook");
});

test("of an object that the account may not read, the two commits are compared with each other", async () => {
  const of = (_: string, release: ReleaseToRender) =>
    rendered(settings(levelOf(release)), aConfigMap("readable", { level: levelOf(release) }));
  const world = aWorld(of, { base: [values("1")], merged: [values("2")] });
  world.flux.has(asLive({ ...settings("1"), data: { level: "secret" } }));
  world.flux.has(asLive(aConfigMap("readable", { level: "by hand" })));
  const { open } = world.flux.deps.clusters;
  world.flux.deps.clusters.open = async (run) => {
    const cluster = await open(run);
    return {
      ...cluster,
      find: (object, signal) =>
        refOf(object)?.name === "settings"
          ? Promise.reject(new ApiError(403, 'configmaps "settings" is forbidden'))
          : cluster.find(object, signal),
    };
  };
  await world.run();
  expect(world.release()).toMatchObject({ state: "done", counts: { changed: 2 } });
  expect(world.release()?.objects.map(({ diff }) => diff)).toEqual([
    " data.level:\n-  by hand\n+  2",
    " data.level:\n-  1\n+  2",
  ]);
  expect(world.commentOf()).toContain("is forbidden");
  expect(world.commentOf()).toContain("1 object was compared with the base branch");
  expect(world.told.at(-1)?.mendable).toBe(true);
});
