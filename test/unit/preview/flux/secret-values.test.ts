import { expect, test } from "vitest";
import type { JsonObject } from "../../../../src/kit/json.ts";
import type { FluxRendered } from "../../../../src/ports.ts";
import { aPreviewWorld, base } from "../../../support/preview.ts";
import { aConfigMap, aFluxResource, fakeFluxPreviews, ownedBy, substitute } from "../../../support/flux-previews.ts";

const secret = "correct-horse-battery";
const other = "e".repeat(40);
const fromSecret = { postBuild: { substituteFrom: [{ kind: "Secret", name: "vars" }] } };
const fromBoth = {
  postBuild: {
    substitute: { OWN: "own" },
    substituteFrom: [
      { kind: "ConfigMap", name: "vars" },
      { kind: "Secret", name: "vars" },
    ],
  },
};

interface Commits {
  readonly base: readonly JsonObject[];
  readonly merged: readonly JsonObject[];
}

function aSecretiveWorld(spec: JsonObject, commits: Commits, applied = base) {
  const played = { base: {}, merged: {} };
  const flux = fakeFluxPreviews([aFluxResource("apps", { spec, applied })], played);
  const sent: unknown[] = [];
  flux.deps.renderer.render = ({ root, kustomizations }) => {
    const objects = root.startsWith("/base") ? commits.base : commits.merged;
    sent.push(...kustomizations.map(({ variables }) => variables));
    return Promise.resolve(
      kustomizations.map(({ resource, variables }): FluxRendered => substitute(objects, resource, variables)),
    );
  };
  const world = aPreviewWorld([], { flux: flux.deps, settings: { serviceAccount: "dry-run" } });
  world.sources.nextMerge.inBase = true;
  world.sources.nextMerge.changed = { complete: true, paths: [] };
  return { ...world, flux, sent, text: () => JSON.stringify(world.told) };
}

const settings = (data: Readonly<Record<string, string>>) => ownedBy("apps", aConfigMap("settings", data));

test("no Secret is read for variables, and what the pull request changes is shown with their names", async () => {
  const world = aSecretiveWorld(fromSecret, {
    base: [settings({ url: "user ${USER} of one" })],
    merged: [settings({ url: "user ${USER} of two" })],
  });
  world.flux.has(settings({ url: `user ${secret} of one` }));
  await world.run();
  const [preview] = world.previews();
  expect(preview?.objects[0]?.diff).toBe(" data.url:\n-  user ${USER} of one\n+  user ${USER} of two");
  expect(world.text()).not.toContain(secret);
  expect(world.flux.asked.join()).not.toContain('"Secret"');
});

test("an unchanged value with a variable from a Secret is no change", async () => {
  const world = aSecretiveWorld(fromSecret, {
    base: [settings({ user: "${USER}", level: "1" })],
    merged: [settings({ user: "${USER}", level: "2" })],
  });
  world.flux.has(settings({ user: secret, level: "1" }));
  await world.run();
  expect(world.previews()[0]?.objects[0]?.diff).toBe(" data.level:\n-  1\n+  2");
  expect(
    world
      .previews()[0]
      ?.warnings.map(({ message }) => message)
      .join(),
  ).toContain("compared with the base branch");
  expect(world.text()).not.toContain(secret);
});

test("what another commit may have put elsewhere is not shown either", async () => {
  const commits = { base: [settings({ level: "1" })], merged: [settings({ level: "2" })] };
  const world = aSecretiveWorld(fromSecret, commits, other);
  world.flux.has(settings({ user: secret, level: "1" }));
  await world.run();
  expect(world.previews()).toMatchObject([{ counts: { changed: 1 } }]);
  expect(world.text()).not.toContain(secret);
});

test("an object without such values is compared with the cluster if that has the base", async () => {
  const commits = { base: [settings({ level: "1", a: "b" })], merged: [settings({ level: "2", a: "b" })] };
  const world = aSecretiveWorld(fromSecret, commits);
  world.flux.has(settings({ level: "1", a: "by hand" }));
  await world.run();
  expect(world.previews()[0]?.drifted?.objects).toHaveLength(1);
});

test("ConfigMaps are read; their variables and those of the spec get no placeholder", async () => {
  const world = aSecretiveWorld(fromBoth, {
    base: [settings({ a: "${PLAIN} ${OWN}" })],
    merged: [settings({ a: "${PLAIN} ${OWN} ${HIDDEN}" })],
  });
  world.flux.has(aConfigMap("vars", { PLAIN: "pla\nin" }, { namespace: "flux-system" }));
  await world.run();
  expect(world.sent).toContainEqual(expect.objectContaining({ PLAIN: "plain" }));
  expect(world.text()).toContain("plain own ${HIDDEN}");
});

test.each([
  [
    "of a Kustomization of another repository",
    ownedBy("other", aConfigMap("vars", { LEVEL: secret }, { namespace: "flux-system" })),
  ],
  [
    "of a release",
    aConfigMap(
      "vars",
      { LEVEL: secret },
      { namespace: "flux-system", annotations: { "meta.helm.sh/release-name": "web" } },
    ),
  ],
])("variables in a ConfigMap %s are shown by name", async (_, vars) => {
  const spec = { postBuild: { substituteFrom: [{ kind: "ConfigMap", name: "vars" }] } };
  const of = (text: string) => settings({ level: `${text} \${LEVEL}`, short: "${LEVEL:0:7}", other: "${OTHER}" });
  const world = aSecretiveWorld(spec, { base: [of("1")], merged: [of("2")] });
  world.flux.has(vars);
  world.flux.has({ ...of("1"), data: { level: `1 ${secret}`, short: secret.slice(0, 7), other: "live" } });
  await world.run();
  expect(world.text()).toContain("2 ${LEVEL}");
  expect(world.text()).not.toContain(secret.slice(0, 7));
  // Only a Secret could have variables that are not known.
  expect(world.sent).not.toContainEqual(expect.objectContaining({ OTHER: expect.anything() as unknown }));
});

test("a ConfigMap that does not exist fails in Flux's words, unless it is optional", async () => {
  const of = (optional: boolean) => ({
    postBuild: { substituteFrom: [{ kind: "ConfigMap", name: "vars", optional }] },
  });
  const commits = { base: [settings({ a: "1" })], merged: [settings({ a: "2" })] };
  const [fails, works] = [aSecretiveWorld(of(false), commits), aSecretiveWorld(of(true), commits)];
  await Promise.all([fails.run(), works.run()]);
  expect(fails.previews()).toEqual([]); // the pull request is not to blame, and changes nothing of it
  expect(works.previews()).toMatchObject([{ state: "done", counts: { new: 1 } }]);
});

test("variables in a ConfigMap that the pull request changes are said to be the present ones", async () => {
  const spec = { postBuild: { substituteFrom: [{ kind: "ConfigMap", name: "vars" }] } };
  const vars = (level: string) => ownedBy("apps", aConfigMap("vars", { LEVEL: level }, { namespace: "flux-system" }));
  const world = aSecretiveWorld(spec, { base: [vars("1")], merged: [vars("2")] });
  world.flux.has(vars("1"));
  await world.run();
  expect(world.previews()[0]?.warnings[0]?.message).toContain("present values");
});

test("an object whose name depends on a Secret is not compared, and that is said", async () => {
  const named = (data: Readonly<Record<string, string>>) => ownedBy("apps", aConfigMap("app-${NAME}", data));
  const world = aSecretiveWorld(fromSecret, { base: [named({ a: "1" })], merged: [named({ a: "2" })] });
  await world.run();
  const [preview] = world.previews();
  expect(preview).toMatchObject({ counts: { changed: 0, new: 0 } });
  expect(preview?.warnings[0]?.message).toContain("a variable from a Secret is part of the name");
});

const encrypted = (password: string, user: string) =>
  ownedBy("apps", {
    ...{ apiVersion: "v1", kind: "Secret", metadata: { name: "login", namespace: "shop" } },
    stringData: { password: `ENC[AES256_GCM,data:${password}]`, user: `ENC[AES256_GCM,data:${user}]` },
    sops: { mac: `ENC[AES256_GCM,data:${password}${user}]` },
  });

test("an encrypted Secret shows which keys change, and is not sent", async () => {
  const world = aSecretiveWorld({}, { base: [encrypted("one", "ann")], merged: [encrypted("two", "ann")] });
  world.flux.has(ownedBy("apps", { apiVersion: "v1", kind: "Secret", metadata: { name: "login", namespace: "shop" } }));
  await world.run();
  const [preview] = world.previews();
  expect(preview?.objects[0]?.secretKeys).toEqual([
    { key: "password", change: "changed" },
    { key: "user", change: "unchanged" },
  ]);
  expect(preview?.warnings[0]?.message).toContain("not validated");
  expect(world.flux.asked.join()).not.toContain("dry run");
});

test("a Secret that is generated from an encrypted file says that its name differs", async () => {
  const data = { file: Buffer.from('{"a":"ENC[x]","sops":{"mac": "ENC[y]"}}').toString("base64") };
  const generated = ownedBy("apps", {
    ...{ apiVersion: "v1", kind: "Secret", metadata: { name: "login-abc", namespace: "shop" }, data },
  });
  const world = aSecretiveWorld({}, { base: [], merged: [generated] });
  await world.run();
  expect(
    world
      .previews()[0]
      ?.warnings.map(({ message }) => message)
      .join(),
  ).toContain("a name that ends differently");
});

test("objects in another cluster are not compared, because only a Secret names it", async () => {
  const spec = { kubeConfig: { secretRef: { name: "remote" } } };
  const world = aSecretiveWorld(spec, { base: [settings({ a: "1" })], merged: [settings({ a: "2" })] });
  await world.run();
  expect(world.previews()).toMatchObject([{ state: "failed", failed: "run" }]);
  expect(world.flux.asked).toEqual([]);
});
