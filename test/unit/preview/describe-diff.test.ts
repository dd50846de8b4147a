import fc from "fast-check";
import { expect, test } from "vitest";
import { UnreadableResultError } from "../../../src/errors.ts";
import type { CommandResult, ResultObject } from "../../../src/model.ts";
import { describeDiff, describeSafely } from "../../../src/preview/describe-diff.ts";
import { makeVisible } from "../../../src/preview/visible-text.ts";
import { redactText } from "../../../src/redact/redact-text.ts";
import { aResult, anObject } from "../../support/deployments.ts";
import { cpuMs } from "../../support/cpu-time.ts";

const describe = (
  objects: readonly ResultObject[],
  { prune = false, ...rest }: Partial<CommandResult> & { prune?: boolean } = {},
) => describeDiff(aResult({ objects, ...rest }), { knownSecrets: [], prune });

const changed = (oldValue: unknown, newValue: unknown, jsonPath = "data.a") =>
  anObject({ changes: [{ type: "update", jsonPath, oldValue, newValue }] });

const named = (kind: string, name: string, overrides: Partial<ResultObject> = {}) =>
  anObject({ ref: { version: "v1", kind, name, namespace: "shop" }, ...overrides });

const diffOf = (object: ResultObject) => describe([object]).objects[0]?.diff?.split("\n");

function aSecret(data: Record<string, string>, overrides: Partial<ResultObject> = {}): ResultObject {
  const encoded = Object.entries(data).map(([key, value]) => [key, Buffer.from(value).toString("base64")]);
  const json = JSON.stringify({ data: Object.fromEntries(encoded) as unknown });
  return named("Secret", "db", { rendered: json, remote: json, applied: json, ...overrides });
}

test("deeply nested values are compared, and not shown", () => {
  const nested = (value: string) => `${'{"a":'.repeat(900)}"${value}"${"}".repeat(900)}`;
  const rendered = `{"kind":"Odd","spec":${nested("new")}}`;
  const lines = diffOf(anObject({ new: true, rendered })) ?? [];
  expect(lines.length).toBeLessThan(80);
  expect(lines.at(-1)?.trim()).toMatch(/^\+ +\(nested too deeply to be shown\)$/);

  const change = diffOf(changed(JSON.parse(nested("old")), JSON.parse(nested("new"))));
  expect(change?.filter((line) => /^[-+]/.test(line)).map((line) => line[0])).toEqual(["-", "+"]);
});

test("new, changed, deleted and orphaned objects are shown, and unchanged objects and hooks are not", () => {
  const objects = [
    named("ConfigMap", "same"),
    named("ConfigMap", "new", { new: true, rendered: "{}" }),
    { ...changed(1, 2), ref: { kind: "ConfigMap", name: "changed" } },
    named("ConfigMap", "gone", { deleted: true }),
    named("ConfigMap", "orphan", { orphan: true }),
    named("Job", "hook", { hook: true, new: true }),
    named("Job", "hook-before", { hook: true, deleted: true }),
  ];
  const { objects: told, counts } = describe(objects);
  expect(told.map(({ ref, action }) => [ref.name, action])).toEqual([
    ["gone", "deleted"],
    ["changed", "changed"],
    ["new", "new"],
    ["orphan", "orphan"],
  ]);
  expect(counts).toEqual({ new: 1, changed: 1, deleted: 1, orphan: 1, errors: 0, warnings: 0 });
  expect(describe(objects, { prune: true }).counts).toMatchObject({ deleted: 2, orphan: 0 });
});

test("the riskiest objects come first, then kinds and names in order", () => {
  const objects = [
    named("Service", "b", { new: true }),
    named("Service", "a", { new: true }),
    named("Namespace", "n", { changes: [{ type: "insert", jsonPath: "metadata.labels.a", newValue: "b" }] }),
    named("ConfigMap", "z", { new: true }),
    named("Service", "ip", { changes: [{ type: "update", jsonPath: "spec.clusterIP", oldValue: "1", newValue: "2" }] }),
    named("Service", "gone", { deleted: true }),
    named("Pod", "host", { new: true, rendered: '{"spec":{"hostNetwork":true}}' }),
    named("Pod", "moving", { new: true, rendered: '{"spec":{"containers":[{"name":"web","image":"web"}]}}' }),
  ];
  const order = ["gone", "ip", "moving", "host", "n", "z", "a", "b"];
  expect(describe(objects).objects.map(({ ref }) => ref.name)).toEqual(order);
});

test("a disruption budget is compared with the workloads of the same result", () => {
  const selector = { matchLabels: { app: "web" } };
  const template = { metadata: { labels: selector.matchLabels }, spec: {} };
  const web = anObject({
    ref: { group: "apps", kind: "Deployment", name: "web" },
    rendered: JSON.stringify({ spec: { replicas: 2, template } }),
  });
  const ref = { group: "policy", kind: "PodDisruptionBudget", name: "web" };
  const budget = (minAvailable: number) =>
    anObject({ ref, new: true, rendered: JSON.stringify({ spec: { minAvailable, selector } }) });
  const kinds = (minAvailable: number) =>
    describe([budget(minAvailable), web]).objects.flatMap(({ risks }) => risks.map(({ kind }) => kind));
  expect(kinds(2)).toEqual(["availability"]);
  expect(kinds(1)).toEqual([]);
});

test("an object that the API server refuses to change is shown, though kluctl found no change", () => {
  const ref = { group: "apps", kind: "Deployment", name: "web" };
  const { objects, counts } = describe([anObject({ ref })], { errors: [{ ref, message: "x: field is immutable" }] });
  expect(objects).toEqual([{ ref, action: "changed", risks: [expect.objectContaining({ kind: "immutable" })] }]);
  expect(counts).toMatchObject({ changed: 1, errors: 1 });
});

test("a scalar shows its path and both values", () => {
  expect(diffOf(changed(1, 2, "spec.replicas"))).toEqual([" spec.replicas:", "-  1", "+  2"]);
});

test("a long text shows its changed lines with some context", () => {
  const lines = Array.from({ length: 30 }, (_, i) => `line ${i}`);
  const text = lines.join("\n");
  expect(diffOf(changed(text, text.replace("line 15\n", "other\nmore\n")))).toEqual([
    " data.a:",
    "   …",
    "   line 12",
    "   line 13",
    "   line 14",
    "-  line 15",
    "+  other",
    "+  more",
    "   line 16",
    "   line 17",
    "   line 18",
    "   …",
  ]);
});

test("a new object is shown as YAML, without what kluctl adds", () => {
  const rendered = JSON.stringify({
    apiVersion: "v1",
    data: { flag: "true", empty: "", list: "- a", text: "one\ntwo\n", "odd key!": "x: y" },
    kind: "ConfigMap",
    metadata: {
      annotations: { "kluctl.io/deployment-item-dir": "app" },
      labels: { "kluctl.io/discriminator": "d", app: "web" },
      name: "a",
      namespace: "eu-1", // shown in the title
    },
    spec: { none: [], nothing: {}, ports: [{ port: 80, names: ["a", "b"] }, { port: 81 }], on: true, nil: null },
  });
  expect(diffOf(anObject({ new: true, rendered }))).toEqual(
    [
      "apiVersion: v1",
      "kind: ConfigMap",
      "metadata:",
      "  labels:",
      "    app: web",
      "  name: a",
      "data:",
      '  flag: "true"',
      '  empty: ""',
      '  list: "- a"',
      "  text: |",
      "    one",
      "    two",
      '  "odd key!": "x: y"',
      "spec:",
      "  none: []",
      "  nothing: {}",
      "  ports:",
      "  - port: 80",
      "    names:",
      "    - a",
      "    - b",
      "  - port: 81",
      "  on: true",
      "  nil: null",
    ].map((line) => `+  ${line}`),
  );
});

test("invisible characters are escaped, and cut lines show that they are cut", () => {
  const [, , shown] = diffOf(changed("a", `user\u202e\u0007\r${"x".repeat(1_000)}`)) ?? [];
  expect(shown).toMatch(/^\+ {2}user\\u202e\\u0007\\u000dx+… \(\d+ more characters\)$/);
  expect(shown?.length).toBeLessThan(450);
});

test("one object's diff is limited, and the missing lines are counted", () => {
  const text = (mark: string) => Array.from({ length: 1_000 }, (_, i) => `${mark} ${i}`).join("\n");
  const [object] = describe([changed(text("old"), text("new"))]).objects;
  expect(object?.diff?.split("\n")).toHaveLength(200);
  expect(object?.linesLeftOut).toBe(2_001 - 200);
});

test("a deployment's diffs have a common limit: further objects are named without a diff, or counted", () => {
  const text = (mark: string) => Array.from({ length: 100 }, (_, i) => `${mark} ${i} ${"-".repeat(60)}`).join("\n");
  const objects = Array.from({ length: 700 }, (_, i) => ({
    ...changed(text("old"), text("new")),
    ref: { kind: "ConfigMap", name: `c${i}` },
  }));
  const description = describe(objects);
  expect(description.objects).toHaveLength(500);
  expect(description.objectsLeftOut).toBe(200);
  expect(description.counts.changed).toBe(700);
  expect(description.objects[0]?.diff).toBeDefined();
  expect(description.objects.at(-1)).not.toHaveProperty("diff");
  expect(JSON.stringify(description).length).toBeLessThan(400_000);
});

test("a Secret shows which keys change, and neither values nor annotations", () => {
  const json = (data: unknown, stringData?: unknown) => JSON.stringify({ data, stringData });
  const secret = named("Secret", "db", {
    remote: json({ gone: "Z29uZQ==", same: "c2FtZQ==", other: "b2xk" }),
    applied: json({ same: "c2FtZQ==", other: "bmV3" }, { fresh: "new" }),
    changes: [
      { type: "insert", jsonPath: 'metadata.annotations["note"]', newValue: "the-annotation" },
      { type: "delete", jsonPath: "data.gone", oldValue: "Z29uZQ==" },
    ],
  });
  const [object] = describe([secret]).objects;
  expect(object?.secretKeys).toEqual([
    { key: "fresh", change: "added" },
    { key: "gone", change: "removed" },
    { key: "other", change: "changed" },
    { key: "same", change: "unchanged" },
  ]);
  expect(object).not.toHaveProperty("diff");
  expect(JSON.stringify(object)).not.toContain("the-annotation");
});

test("a changed hidden value is shown as changed, once", () => {
  const secret = aSecret({ a: "first-canary", b: "second-canary" });
  const other = { ...changed("x=first-canary", "x=second-canary"), ref: { kind: "ConfigMap", name: "a" } };
  expect(describe([secret, other]).objects.map(({ diff }) => diff)).toEqual([" data.a:\n-  x=*****\n+  x=*****"]);
});

test.each([
  [
    "a registry's login",
    JSON.stringify({ auths: { "r.io": { auth: Buffer.from("bot:canary-x9").toString("base64") } } }),
  ],
  ["a field of JSON", JSON.stringify({ deep: [{ token: "canary-x9" }] })],
  ["a field of YAML", "deep:\n  password: canary-x9\n"],
  ["a word under a telling name", "database: orders\npassword: canary\n"],
  ["a setting", "# settings\nUSER=app\nexport TOKEN='canary-x9'\n"],
  ["a login in an address", "postgres://app:canary-x9@db:5432/shop"],
  ["an escaped login in an address", "postgres://app:canary%2Dx9@db:5432/shop"],
  ["base64 in base64", Buffer.from("canary-x9").toString("base64")],
  ["a line of a text", "-----BEGIN X-----\nabcdefgh\ncanary-x9\n-----END X-----\n"],
])("the secret part of a Secret's value is hidden by itself: %s", (_, value) => {
  const hidden = value.includes("password: canary\n") ? "canary" : "canary-x9";
  const object = { ...changed("a", `see ${hidden} here`), ref: { kind: "ConfigMap", name: "a" } };
  expect(describe([aSecret({ a: value }), object]).objects[0]?.diff).toBe(" data.a:\n-  a\n+  see ***** here");
});

test("a value that an earlier `kubectl apply` stored in a Secret's annotation is secret too", () => {
  const former = JSON.stringify({ stringData: { a: "canary-before" } });
  const annotations = { "kubectl.kubernetes.io/last-applied-configuration": former };
  const secret = aSecret({}, { remote: JSON.stringify({ metadata: { annotations } }) });
  expect(JSON.stringify(describe([secret, changed("canary-before", "x")]))).not.toContain("canary");
});

test("short and ordinary values are hidden only as a field's whole value, and do not break up other text", () => {
  const secret = aSecret({ pin: "7321", on: "true", one: "1", config: "mode: production\nlevel: debug" });
  const objects = [
    secret,
    changed({ a: "7321", b: "x7321y", c: true, d: 1, e: "production" }, "in production at 7321, debug"),
  ];
  expect(describe(objects).objects[0]?.diff?.split("\n")).toEqual([
    " data.a:",
    "-  a: *****",
    "-  b: x7321y",
    "-  c: true",
    "-  d: 1",
    "-  e: *****",
    "+  in production at 7321, debug",
  ]);
});

test("a name is hidden if it is a secret, and stays readable if it is an ordinary word", () => {
  const secret = aSecret({ token: "hunter2-canary", database: "orders-api" });
  const objects = ["hunter2-canary", "job-hunter2-canary-1", "orders-api"].map((name) =>
    named("ConfigMap", name, { orphan: true }),
  );
  expect(describe([secret, ...objects]).objects.map(({ ref }) => ref.name)).toEqual([
    "*****",
    "job-*****-1",
    "orders-api",
  ]);
});

test.each<[string, Partial<ResultObject>]>([
  ["is no JSON", { rendered: "{" }],
  ["holds something else than text", { rendered: JSON.stringify({ data: { a: 1 } }) }],
  ["changes from something unknown", { remote: undefined, changes: [{ type: "update", jsonPath: "data.a" }] }],
  ["is deleted unseen", { remote: undefined, deleted: true }],
  ["is empty-handed", { rendered: undefined, remote: undefined, applied: undefined }],
])("if a Secret %s, only names and counts are shown", (_, overrides) => {
  const errors = [{ ref: { kind: "Pod", name: "p" }, message: "the canary" }];
  const description = describe([aSecret({ a: "b" }, overrides), changed("canary-1", "canary-2")], {
    errors,
    warnings: errors,
  });
  expect(description.concealed).toMatch(/Secret/);
  expect(description.counts).toMatchObject({ changed: expect.any(Number) as number, errors: 1, warnings: 1 });
  for (const object of description.objects) expect(Object.keys(object)).toEqual(["ref", "action", "risks"]);
  expect(JSON.stringify(description)).not.toContain("canary");
});

test("a result that names Secrets without containing them is not trusted", () => {
  const deployment = {
    deployments: [{ renderedInclude: { deployments: [{ renderedObjects: [{ kind: "Secret" }] }] } }],
  };
  expect(describe([changed(1, 2)], { document: { deployment } }).concealed).toMatch(/does not contain them/);
});

test("too many secrets to search for hide everything", () => {
  const secret = aSecret({ a: "x".repeat(5_000_000) });
  expect(describe([secret, changed("a", "b")]).concealed).toMatch(/too many/);
  const alike = Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`k${i}`, "a".repeat(3_000 + i)]));
  const began = cpuMs();
  expect(describe([aSecret(alike), changed("b", "a".repeat(1_000_000))]).concealed).toMatch(/too much/);
  expect(cpuMs() - began).toBeLessThan(10_000);
});

test("errors and warnings keep their object, are readable and limited", () => {
  const errors = Array.from({ length: 80 }, (_, i) => ({
    ref: { kind: "", name: "" },
    message: `e${i} ${"x".repeat(5_000)}`,
  }));
  const warnings = [
    { ref: { version: "v1", kind: "Pod", name: "p" }, message: "at\u0000 https://bot:pw@host/?token=abc" },
  ];
  const description = describe([], { errors, warnings });
  expect(description.counts).toMatchObject({ errors: 80, warnings: 1 });
  expect(description.errors).toHaveLength(50);
  expect(description.errors[0]?.message.length).toBeLessThan(2_100);
  expect(description.errors[0]).not.toHaveProperty("ref");
  expect(description.warnings).toEqual([
    { ref: { version: "v1", kind: "Pod", name: "p" }, message: "at\\u0000 https://*****@host/?token=*****" },
  ]);
});

test("logins known from other sources are hidden as well, in results and in any text", async () => {
  const result = aResult({ objects: [changed("a", "git uses s3cr3t-login")] });
  expect(describeDiff(result, { knownSecrets: ["s3cr3t-login"], prune: false }).objects[0]?.diff).toContain(
    "uses *****",
  );
  const told = await redactText("fatal: s3cr3t%2Dlogin\nwas refused\u202e", ["s3cr3t-login"]);
  expect(makeVisible(told)).toBe("fatal: *****\nwas refused\\u202e");
});

test("a result that cannot be read is an error without content, and never looks like no change", async () => {
  const anything = fc.anything({ maxDepth: 4 });
  const object = fc.record(
    { ref: anything, changes: anything, rendered: anything, remote: anything },
    { requiredKeys: [] },
  );
  const plausible = fc.record({
    ref: fc.record({ kind: fc.constantFrom("Secret", "ConfigMap", ""), name: fc.string() }),
    changes: fc.array(
      fc.record({
        type: fc.constantFrom("insert", "update", "delete"),
        jsonPath: fc.string(),
        oldValue: anything,
        newValue: anything,
      }),
    ),
    new: fc.boolean(),
    rendered: fc.oneof(fc.json(), fc.string()),
    remote: fc.option(fc.json(), { nil: undefined }),
  });
  const garbage = fc.record({
    document: fc.constantFrom({}, undefined),
    objects: fc.oneof(fc.array(fc.oneof(object, plausible)), anything),
    errors: fc.oneof(fc.constant([]), anything),
    warnings: fc.constant([]),
  });
  const options = { knownSecrets: [], prune: true };
  await fc.assert(
    fc.asyncProperty(garbage, async (result) => {
      const described = describeSafely(result as unknown as CommandResult, options, new AbortController().signal);
      const error = await described.then(
        () => undefined,
        (why: unknown) => why,
      );
      if (error !== undefined) expect(error).toEqual(new UnreadableResultError("kluctl's result could not be read"));
    }),
  );
  const broken = aResult({ errors: [{ message: "without a ref" }] as unknown as CommandResult["errors"] });
  await expect(describeSafely(broken, options, new AbortController().signal)).rejects.toThrow(UnreadableResultError);
});

const manifestsOf = (objects: readonly ResultObject[], more: Partial<CommandResult> = {}) =>
  describeDiff(aResult({ objects, ...more }), { knownSecrets: ["canary-5f0e"], prune: true, manifests: true })
    .manifests;
const replicas = { type: "update", jsonPath: "spec.replicas", oldValue: 1, newValue: 2 } as const;

test("the manifests are those that the merge renders, of what is new or changed, whole and without secrets", () => {
  const rendered = JSON.stringify({
    kind: "Deployment",
    metadata: { name: "api", namespace: "shop" },
    spec: { replicas: 2, token: "canary-5f0e", note: "\u202ereversed" },
  });
  const objects = [
    named("Deployment", "api", {
      changes: [replicas],
      rendered,
      remote: "{}",
      applied: '{"status":{"from":"the cluster"}}',
    }),
    named("ConfigMap", "new", { new: true, rendered: '{"data":{"a":"1"}}' }),
    named("ConfigMap", "same", { rendered: "{}" }),
    named("ConfigMap", "gone", { deleted: true }),
    aSecret({ password: "swordfish" }, { new: true }),
  ];
  expect(manifestsOf(objects)).toEqual({
    objects: [
      { ref: expect.objectContaining({ name: "new" }) as object, text: 'data:\n  a: "1"', linesLeftOut: 0 },
      {
        ref: expect.objectContaining({ kind: "Deployment", name: "api", namespace: "shop" }) as object,
        text: [
          "kind: Deployment",
          "metadata:",
          "  name: api",
          "  namespace: shop",
          "spec:",
          "  replicas: 2",
          "  token: *****",
          "  note: \\u202ereversed",
        ].join("\n"),
        linesLeftOut: 0,
      },
    ],
    leftOut: 0,
  });
  expect(describeDiff(aResult({ objects }), { knownSecrets: [], prune: true }).manifests).toBeUndefined();
});

test("long manifests are cut, and those that are too much together are left out and counted", () => {
  const long = JSON.stringify({ lines: Array.from({ length: 3_000 }, (_, i) => `line-${i}`) });
  const [first] = manifestsOf([named("ConfigMap", "a", { new: true, rendered: long })])?.objects ?? [];
  expect(first?.text.split("\n")).toHaveLength(2_000);
  expect(first?.linesLeftOut).toBe(1_001);

  const large = JSON.stringify({ text: "word ".repeat(20_000) });
  const many = ["a", "b", "c", "d"].map((name) => named("ConfigMap", name, { new: true, rendered: large }));
  const found = manifestsOf(many);
  expect([found?.objects.length, found?.leftOut]).toEqual([2, 2]);
});

test("if secrets may be missed, there are no manifests", () => {
  const incomplete = named("Secret", "db", { changes: [replicas] });
  const changedToo = named("ConfigMap", "a", { new: true, rendered: '{"data":{"a":"1"}}' });
  const result = aResult({ objects: [incomplete, changedToo] });
  const found = describeDiff(result, { knownSecrets: [], prune: true, manifests: true });
  expect(found.concealed).toBeDefined();
  expect(found.manifests).toBeUndefined();
});
