import { expect, test } from "vitest";
import type { CommandResult, ResultObject } from "../../../src/model.ts";
import { maskStored } from "../../../src/redact/mask-result.ts";
import { showDrift, showResult, showStatusProblems } from "../../../src/views/show-result.ts";

const value = "hunter2-is-the-password";

function object(kind: string, more: Partial<ResultObject> = {}): ResultObject {
  const ref = { kind, name: "settings", namespace: "shop" };
  return { ref, changes: [], new: false, orphan: false, deleted: false, hook: false, ...more };
}

function result(more: Partial<CommandResult>): CommandResult {
  return { document: {}, objects: [], errors: [], warnings: [], objectsHash: "", ...more };
}

const change = { type: "update", jsonPath: "data.url", oldValue: "a", newValue: `x:${value}` } as const;

test("differences are shown by object, and values of Secrets nowhere", () => {
  const secret = JSON.stringify({ kind: "Secret", stringData: { password: value } });
  const shown = showResult(
    maskStored(
      result({
        objects: [
          object("ConfigMap", { changes: [change] }),
          object("Secret", { rendered: secret }),
          object("Service", { new: true }),
          object("Job", { orphan: true }),
        ],
        errors: [{ ref: { kind: "", name: "" }, message: `cannot use ${value}` }],
      }),
    ).result,
  );
  expect(shown.objects.map(({ object: name, action }) => [name, action])).toEqual([
    ["ConfigMap shop/settings", "changed"],
    ["Service shop/settings", "new"],
    ["Job shop/settings", "orphan"],
  ]);
  expect(shown.objects[0]?.changes[0]).toMatchObject({
    path: "data.url",
    diff: expect.stringContaining("-a\n+x:") as string,
  });
  expect(JSON.stringify(shown)).not.toContain(value);
});

test("for a result stored with fewer details only the changed paths are shown", () => {
  const message =
    "The result was too large to be stored completely: objects are listed by name only, with their changes.";
  const warnings = [{ ref: { kind: "", name: "" }, message }];
  const shown = showResult(
    maskStored(result({ objects: [object("ConfigMap", { changes: [change] })], warnings })).result,
  );
  expect(shown.objects[0]?.changes[0]?.path).toBe("data.url");
  expect(JSON.stringify(shown)).not.toContain(value);
});

test("lists are cut, and the omitted entries are counted", () => {
  const changes = Array.from(
    { length: 60 },
    (_, i) => ({ type: "update", jsonPath: `data.${i}`, newValue: "x" }) as const,
  );
  const objects = Array.from({ length: 310 }, () => object("ConfigMap", { changes }));
  const shown = showResult(maskStored(result({ objects })).result);
  expect([shown.objects.length, shown.objectsLeftOut]).toEqual([300, 10]);
  expect([shown.objects[0]?.changes.length, shown.objects[0]?.changesLeftOut]).toEqual([50, 10]);
});

test("the readable parts of a status are shown, whatever its shape", () => {
  expect(showDrift(undefined)).toEqual({ objects: [], objectsLeftOut: 0 });
  const objects = [{ ref: { kind: "Job", name: "a" }, new: true }, { ref: 7 }, "x"];
  expect(showDrift({ objects }).objects).toEqual([{ object: "Job a", action: "new", changes: [], changesLeftOut: 0 }]);
  expect(showStatusProblems({ errors: [{ message: "no" }, 7] }, "errors")).toEqual([{ message: "no" }]);
});
