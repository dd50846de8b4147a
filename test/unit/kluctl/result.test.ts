import { createHash } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { applyDelta } from "../../../src/kluctl/delta.ts";
import { objectsHash } from "../../../src/kluctl/objects-hash.ts";
import { parseCommandResult, parseValidateResult } from "../../../src/kluctl/result.ts";
import { parseYamlInSlices } from "../../../src/kluctl/yaml-slices.ts";
import { cpuMs } from "../../support/cpu-time.ts";

const a = { version: "v1", kind: "ConfigMap", name: "a" };
const b = { version: "v1", kind: "ConfigMap", name: "b" };
const json = (name: string) => `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"${name}"}}`;

test("what Go leaves unquoted because it is no number to Go is a text", async () => {
  const text = `
compactedObjects:
- changes:
  - jsonPath: metadata.labels["commit"]
    newValue: 12e4567
    oldValue: 0xdeadbeefdeadbeefdeadbeef
    type: update
    unifiedDiff: -12e45678
  - jsonPath: data
    newValue: 1.5e3
    oldValue: 0xff
    type: update
  ref: { kind: ConfigMap, name: a, version: v1 }
`;
  const { objects } = await parseCommandResult(text);
  expect(objects[0]?.changes).toMatchObject([
    { newValue: "12e4567", oldValue: "0xdeadbeefdeadbeefdeadbeef", unifiedDiff: "-12e45678" },
    { newValue: 1500, oldValue: 255 },
  ]);
});

describe("the objects hash", () => {
  const known = "73fef37aed344d3a120902eb2bed3c7e1ebabef05ccb3d79e8dd5a4ccb9edee6";

  test("equals kluctl's for two known objects", () => {
    const deployments = [{ renderedObjects: [a, b] }];
    expect(objectsHash({ deployments }, [json("b"), json("a")])).toBe(known);
  });

  test("follows the order of the deployment, into its includes", () => {
    const nested = [{}, { renderedInclude: { deployments: [{ renderedObjects: [a] }, { renderedObjects: null }] } }];
    const rendered = [json("a"), json("b")];

    expect(objectsHash({ deployments: [...nested, { renderedObjects: [b] }] }, rendered)).toBe(known);
    expect(objectsHash({ deployments: [{ renderedObjects: [b] }, ...nested] }, rendered)).not.toBe(known);
  });

  test("of no objects is the hash of empty input", () => {
    const empty = createHash("sha256").digest("hex");
    expect(objectsHash({}, [])).toBe(empty);
    expect(objectsHash({ deployments: null }, [json("a")])).toBe(empty);
  });

  test("distinguishes groups and namespaces", () => {
    const deployment = { group: "apps", version: "v1", kind: "Deployment", name: "x", namespace: "one" };
    const one = '{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x","namespace":"one"}}';
    const two = '{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x","namespace":"two"}}';
    const deployments = [{ renderedObjects: [deployment] }];

    expect(objectsHash({ deployments }, [one, two])).toBe(objectsHash({ deployments }, [one]));
    expect(objectsHash({ deployments }, [two])).not.toBe(objectsHash({ deployments }, [one]));
  });
});

describe("a delta", () => {
  test("keeps, skips and inserts", () => {
    expect(applyDelta("jumps over the lazy", "=4\t-1\t+ed\t=6\t-3\t+a\t=5\t+%20old%20%2Bdog")).toBe(
      "jumped over a lazy old +dog",
    );
    expect(applyDelta("", "")).toBe("");
    expect(applyDelta("", "+%F0%9F%8C%B1")).toBe("🌱");
  });

  test("counts code points", () => {
    expect(applyDelta("🌱ab🌱c", "=2\t-1\t=1\t+d")).toBe("🌱a🌱d");
  });

  test.for(["=9", "?1", "=x", "-", "=-1"])("%s is refused", (delta) => {
    expect(() => applyDelta("abc", delta)).toThrow(/delta/);
  });

  test("can turn any text into any other", () => {
    const text = fc.string({ unit: "grapheme" });
    fc.assert(
      fc.property(text, text, text, text, (start, gone, added, end) => {
        const points = (part: string) => Array.from(part).length;
        const delta = `=${points(start)}\t-${points(gone)}\t+${encodeURIComponent(added)}\t=${points(end)}`;
        expect(applyDelta(start + gone + end, delta)).toBe(start + added + end);
      }),
    );
  });
});

describe("a result", () => {
  test("contains each object's states as full texts, one after the other", async () => {
    const place = json("a").indexOf('"a"') + 1;
    const text = stringify({
      id: "one",
      compactedObjects: [
        { ref: a, rendered: `full: ${json("a")}`, remote: "", applied: `delta: =${place}\t+b\t-1\t=3` },
        {
          ref: b,
          remote: "full: {}",
          deleted: true,
          changes: [{ type: "update", jsonPath: "x", oldValue: 1, newValue: { y: 2 } }],
        },
      ],
      deployment: { deployments: [{ path: "p", renderedObjects: [a] }] },
      errors: null,
      warnings: [{ ref: { kind: "", name: "" }, message: "careful" }],
    });

    const result = await parseCommandResult(text);

    expect(result.objects).toEqual([
      {
        ...{ ref: a, changes: [], new: false, orphan: false, deleted: false, hook: false },
        ...{ rendered: json("a"), remote: undefined, applied: json("a").replace('"a"', '"b"') },
      },
      {
        ...{ ref: b, new: false, orphan: false, deleted: true, hook: false },
        changes: [{ type: "update", jsonPath: "x", oldValue: 1, newValue: { y: 2 } }],
        ...{ rendered: undefined, remote: "{}", applied: undefined },
      },
    ]);
    expect(result.errors).toEqual([]);
    expect(result.warnings).toEqual([{ ref: { kind: "", name: "" }, message: "careful" }]);
    expect(result.document).toEqual(parse(text));
  });

  test("contains changes that only add or only remove", async () => {
    const changes = [
      { type: "insert", jsonPath: "data.x", newValue: "1" },
      { type: "delete", jsonPath: "data.y", oldValue: "2" },
      { type: "update", jsonPath: "data.z", oldValue: null, newValue: "3" },
    ];

    const { objects } = await parseCommandResult(stringify({ compactedObjects: [{ ref: a, changes }] }));

    expect(objects.map((object) => object.changes)).toEqual([changes]);
  });

  test("without objects or a deployment is empty", async () => {
    await expect(parseCommandResult("id: one")).resolves.toMatchObject({ objects: [], errors: [], warnings: [] });
  });

  test.for(["", "[]", "text", "errors: nonsense", "compactedObjects: [{ref: 1}]", "a: [", "id: one\nid: two"])(
    "%j is refused without quoting it",
    async (text) => {
      await expect(parseCommandResult(text)).rejects.toThrow();
    },
  );

  test("of validate contains whether everything is ready, and what is not", async () => {
    const text = "ready: false\nerrors:\n- {ref: {kind: Pod, name: x}, message: not ready}\nresults: []\n";
    await expect(parseValidateResult(text)).resolves.toEqual({
      document: parse(text) as unknown,
      ready: false,
      errors: [{ ref: { kind: "Pod", name: "x" }, message: "not ready" }],
      warnings: [],
    });
  });
});

test("a mapping of tens of thousands of names, which a project may write, is parsed in linear time", async () => {
  const names = Array.from({ length: 40_000 }, (_, at) => `  name${at}: x\n`);
  const before = cpuMs();
  const { values } = await parseYamlInSlices(`values:\n${names.join("")}`);
  expect(cpuMs() - before).toBeLessThan(6_000);
  expect(Object.keys(values as object)).toHaveLength(40_000);
});

describe("a large document", () => {
  const entry = (index: number) =>
    `- ref:\n    kind: ConfigMap\n    name: c${index}\n  rendered: 'full: {"a":"${"x".repeat(500)}"}'\n  text: |-\n    - not an entry\n    key: not a key\n`;
  const text = `a: 1\ncompactedObjects:\n${Array.from({ length: 1_200 }, (_, index) => entry(index)).join("")}deployment:\n  deployments: []\nz: "last"\n`;

  test("gives the same value in slices as at once", async () => {
    expect(await parseYamlInSlices(text)).toEqual(parse(text));
  });

  test("leaves the event loop free while it is parsed", async () => {
    let turns = 0;
    let done = false;
    const parsing = parseYamlInSlices(text).finally(() => (done = true));
    while (!done) {
      await setImmediate();
      turns++;
    }
    await parsing;
    expect(turns).toBeGreaterThan(text.length / (128 * 1024) / 2);
  });

  test("in another style is parsed as well", async () => {
    const indented = text
      .replaceAll("\n- ", "\n  - ")
      .replaceAll("\n    ", "\n      ")
      .replaceAll("\n  rendered", "\n    rendered")
      .replaceAll("\n  text", "\n    text");
    expect(await parseYamlInSlices(indented)).toEqual(parse(indented));
  });
});
