import { expect, test } from "vitest";
import type { JsonObject } from "../../../../src/kit/json.ts";
import {
  aConfigMap,
  aFluxResource,
  fakeFluxPreviews,
  ownedBy,
  type PlayedRenders,
  substitute,
} from "../../../support/flux-previews.ts";
import { aPreviewWorld, base } from "../../../support/preview.ts";

const secret = "correct-horse-battery";
const substituteFrom = (...kinds: readonly string[]) => ({
  postBuild: { substituteFrom: kinds.map((kind) => ({ kind, name: "vars" })) },
});
const fromSecret = substituteFrom("Secret");

/** Kustomizations with variables, of which both commits render what is given. */
function aSecretiveWorld(resources: readonly JsonObject[], commits: Record<"base" | "merged", PlayedRenders["base"]>) {
  const flux = fakeFluxPreviews(resources, { base: {}, merged: {} });
  const sent = new Set<string>();
  flux.deps.renderer.render = ({ root, kustomizations }) => {
    for (const { variables } of kustomizations) for (const name of Object.keys(variables)) sent.add(name);
    const of = root.startsWith("/base") ? commits.base : commits.merged;
    return Promise.resolve(
      kustomizations.map(({ resource, variables }) => {
        const objects = of[(resource["metadata"] as { name: string }).name] ?? [];
        return typeof objects === "string" ? { error: objects } : substitute(objects, resource, variables);
      }),
    );
  };
  const world = aPreviewWorld([], { flux: flux.deps, settings: { serviceAccount: "dry-run" } });
  world.sources.nextMerge.inBase = true;
  world.sources.nextMerge.changed = { complete: true, paths: [] };
  return { ...world, flux, sent, text: () => JSON.stringify(world.told) };
}

const shop = (data: Readonly<Record<string, string>>) => aConfigMap("cfg", data);
const app = aFluxResource("app", { spec: fromSecret, applied: base });

test.each([
  ["that is there", {}, { other: [ownedBy("other", shop({ password: "x" }))] }],
  [
    "that is new",
    {},
    {
      other: [aFluxResource("new", { owner: "other" })],
      new: [ownedBy("new", shop({ password: "x" }))],
    },
  ],
  ["and takes it", { app: [] }, { other: [ownedBy("other", shop({ password: "x" }))] }],
])(
  "a branch that adds an object with secret values to another Kustomization %s does not see them",
  async (...given) => {
    const [, without, added] = given;
    const own = { app: [ownedBy("app", shop({ password: "${PASSWORD}" }))] };
    const world = aSecretiveWorld([app, aFluxResource("other", { applied: base })], {
      base: own,
      merged: { ...own, ...without, ...added },
    });
    world.flux.has(ownedBy("app", shop({ password: secret })));
    await world.run();
    expect(world.previews().length).toBeGreaterThan(0);
    expect(world.text()).toContain("+  password: x");
    expect(world.text()).not.toContain(secret);
  },
);

test("a new Kustomization with the name of one of another repository does not see its objects", async () => {
  const world = aSecretiveWorld([aFluxResource("root", { applied: base })], {
    base: {},
    merged: {
      root: [aFluxResource("foreign", { owner: "root" })],
      foreign: [ownedBy("foreign", shop({ password: "x" }))],
    },
  });
  world.flux.has(ownedBy("foreign", shop({ password: secret })));
  await world.run();
  expect(world.text()).toContain("+  password: x");
  expect(world.text()).not.toContain(secret);
});

test("an object that another Kustomization has with a secret value is not shown, whoever applied it last", async () => {
  const own = { app: [ownedBy("app", shop({ password: "${PASSWORD}" }))] };
  const world = aSecretiveWorld([app, aFluxResource("other", { applied: base })], {
    base: own,
    merged: { ...own, other: [ownedBy("other", shop({ password: "x" }))] },
  });
  world.flux.has(ownedBy("other", shop({ password: secret })));
  await world.run();
  expect(world.text()).toContain("+  password: x");
  expect(world.text()).not.toContain(secret);
});

test("an encrypted object is not shown where another Kustomization has it in plain text", async () => {
  const own = { app: [ownedBy("app", shop({ password: "ENC[AES256_GCM,data:x]" }))] };
  const plain = aFluxResource("app", { applied: base });
  const world = aSecretiveWorld([plain, aFluxResource("other", { applied: base })], {
    base: own,
    merged: { ...own, other: [ownedBy("other", shop({ password: "x" }))] },
  });
  world.flux.has(ownedBy("other", shop({ password: secret })));
  await world.run();
  expect(world.text()).toContain("+  password: x");
  expect(world.text()).not.toContain(secret);
});

test("while the base cannot be built, nothing live of a Kustomization with secrets is shown", async () => {
  const world = aSecretiveWorld([app], {
    base: { app: "broken" },
    merged: { app: [ownedBy("app", shop({ password: "x" }))] },
  });
  world.flux.has(ownedBy("app", shop({ password: secret })));
  await world.run();
  expect(world.text()).toContain("+  password: x");
  expect(world.text()).not.toContain(secret);
});

test("a variable that a ConfigMap and a Secret have shows the ConfigMap's value, and nothing live", async () => {
  const both = aFluxResource("app", { spec: substituteFrom("ConfigMap", "Secret"), applied: base });
  const of = (level: string) => ({ app: [ownedBy("app", shop({ password: "${PASSWORD}", level }))] });
  const world = aSecretiveWorld([both], { base: of("1"), merged: of("2") });
  world.flux.has(aConfigMap("vars", { PASSWORD: "public" }, { namespace: "flux-system" }));
  world.flux.has(ownedBy("app", shop({ password: secret, level: "1" })));
  await world.run();
  expect(world.previews()[0]?.objects[0]?.diff).toBe(" data.level:\n-  1\n+  2");
  expect(world.text()).not.toContain(secret);
});

test("which objects have secret values is known although substitution changes their order", async () => {
  const of = (level: string) => {
    const other = ownedBy("app", aConfigMap("${LAST}", { a: "b" }));
    const pin = ownedBy("app", shop({ pin: "${PIN:0:3}", level }));
    return { app: [other, pin] };
  };
  const spec = { postBuild: { substitute: { LAST: "zzz" }, ...fromSecret.postBuild } };
  const world = aSecretiveWorld([aFluxResource("app", { spec, applied: base })], { base: of("1"), merged: of("2") });
  world.flux.has(ownedBy("app", shop({ pin: "847", level: "1" })));
  await world.run();
  expect(world.previews()).toMatchObject([{ counts: { changed: 1 } }]);
  expect(world.text()).not.toContain("847");
});

test("if the variables in the objects cannot be found, each object may have one from a Secret", async () => {
  const of = (level: string): PlayedRenders["base"] => ({ app: [ownedBy("app", shop({ pin: "${PIN:0:3}", level }))] });
  const world = aSecretiveWorld([app], { base: of("1"), merged: of("2") });
  const { render } = world.flux.deps.renderer;
  world.flux.deps.renderer.render = async (input, signal) => {
    const isPlain = input.kustomizations.every(({ resource }) => !("postBuild" in (resource["spec"] as object)));
    return isPlain ? input.kustomizations.map(() => ({ error: "broken" })) : render(input, signal);
  };
  world.flux.has(ownedBy("app", shop({ pin: "847", level: "1" })));
  await world.run();
  expect(world.previews()).toMatchObject([{ counts: { changed: 1 } }]);
  expect(world.text()).not.toContain("847");
});

test("a variable in the plain text of a Secret is found, although the Secret is rendered with encoded values", async () => {
  const login = (user: string) => ({
    app: [
      ownedBy("app", {
        ...{ apiVersion: "v1", kind: "Secret", metadata: { name: "login", namespace: "shop" } },
        stringData: { password: "${PASSWORD}", user },
      }),
    ],
  });
  const world = aSecretiveWorld([app], { base: login("ann"), merged: login("bob") });
  world.flux.has(ownedBy("app", { apiVersion: "v1", kind: "Secret", metadata: { name: "login", namespace: "shop" } }));
  await world.run();
  const [preview] = world.previews();
  expect(world.sent).toContain("PASSWORD");
  expect(preview?.objects[0]?.secretKeys).toEqual([
    { key: "password", change: "unchanged" },
    { key: "user", change: "changed" },
  ]);
  // A placeholder is no value of a Secret.
  expect(preview?.warnings[0]?.message).toContain("not validated");
  expect(world.flux.asked.join()).not.toContain("dry run");
});
