import { expect, test } from "vitest";
import { shorterAndShorter } from "../../../src/kube/result-shortening.ts";
import type { CommandResult, ResultObject } from "../../../src/model.ts";

function object(name: string, over: Partial<ResultObject> = {}): ResultObject {
  const ref = { version: "v1", kind: "ConfigMap", name, namespace: "apps" };
  const content = { apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace: "apps" }, data: { a: "secret" } };
  const json = JSON.stringify(content);
  const flags = { new: false, orphan: false, deleted: false, hook: false };
  return { ref, changes: [], ...flags, rendered: json, remote: json, applied: json, ...over };
}

function result(objects: readonly ResultObject[]): CommandResult {
  const compactedObjects = objects.map(({ ref, rendered }) => ({
    ref,
    rendered: `full: ${rendered}`,
    remote: "delta: =9",
    applied: "delta: =9",
  }));
  const document = { id: "1", deployment: { deployments: [{}] }, warnings: null, compactedObjects };
  return { document, objects, errors: [], warnings: [], objectsHash: "" };
}

const change = { type: "update" as const, jsonPath: "data.a", oldValue: "x", newValue: "y", unifiedDiff: "-x\n+y" };

test("the first version is the whole result, and each further one lists what it leaves out", () => {
  const versions = [
    ...shorterAndShorter(result([object("a", { changes: [change] }), object("b")]), { id: "1", warnings: [] }),
  ];
  const [whole, ...shorter] = versions;
  expect(whole?.summary).toEqual({ id: "1", warnings: [] });
  expect(whole?.reducedResult).not.toHaveProperty("compactedObjects");
  expect(shorter.length).toBeGreaterThan(3);
  for (const { summary, reducedResult } of shorter) {
    const warning = {
      ref: { kind: "", name: "" },
      message: expect.stringMatching(/^The result was too large/) as string,
    };
    expect([summary["warnings"], reducedResult["warnings"]]).toEqual([[warning], [warning]]);
  }
  const sizes = versions.map(
    ({ reducedResult, compactedObjects }) => JSON.stringify([reducedResult, compactedObjects]).length,
  );
  expect(sizes.at(-1)).toBeLessThan(sizes[0] ?? 0);
});

test("changed objects keep their content longer than others, their changes longer still, and their names to the end", () => {
  const objects = [object("same"), object("changed", { changes: [change] })];
  const [, news, named, places, last] = [...shorterAndShorter(result(objects), {})];
  expect(news?.compactedObjects).toEqual([
    expect.not.objectContaining({ rendered: expect.stringContaining("secret") as string }),
    expect.objectContaining({ remote: "delta: =9" }),
  ]);
  expect(JSON.stringify(named?.compactedObjects)).not.toContain("secret");
  expect(named?.compactedObjects[1]).toMatchObject({ changes: [change] });
  expect(named?.reducedResult["deployment"]).toEqual({ deployments: [{}] });
  expect(places?.compactedObjects[1]).toMatchObject({ changes: [{ type: "update", jsonPath: "data.a" }] });
  expect(places?.reducedResult["deployment"]).toEqual({});
  expect(last?.compactedObjects).toMatchObject([{ ref: { name: "changed" } }]);
  expect(last?.reducedResult["objects"]).toMatchObject([{ ref: { name: "changed" } }]);
});
