import { expect, test } from "vitest";
import type { PreviewObject } from "../../../src/model/report.ts";
import { latestResult } from "../../../src/preview/previous.ts";
import { fitReport } from "../../../src/preview/fit-report.ts";
import { showReport } from "../../../src/views/show-report.ts";
import { aPreview, aReport } from "../../support/fake-reports.ts";

const none = { new: 0, changed: 0, deleted: 0, orphan: 0, errors: 0, warnings: 0 };

function object(name: string, fields: Partial<PreviewObject> = {}): PreviewObject {
  return { ref: { kind: "ConfigMap", name, namespace: "shop" }, action: "changed", risks: [], ...fields };
}

function deployment(name: string, objects: PreviewObject[], fields: Parameters<typeof aPreview>[0] = {}) {
  const counts = { ...none, changed: objects.length };
  return aPreview({ deployment: { namespace: "shop", name }, objects, counts, ...fields });
}

test("a diff is split into the changes of its fields; a new object is one change", () => {
  const diff = ' data.color:\n-  red\n+  blue\n data["a b"]:\n   …\n   same\n+   new: 1';
  const added = object("added", { action: "new", diff: "+  kind: ConfigMap\n+  data: {}" });
  const [shown] = showReport(aReport({ previews: [deployment("a", [object("one", { diff }), added])] })).previews;
  expect(shown?.changes.objects.map(({ object: name, changes }) => [name, changes])).toEqual([
    [
      "ConfigMap shop/one",
      [
        { path: "data.color", diff: "-  red\n+  blue" },
        { path: 'data["a b"]', diff: "   …\n   same\n+   new: 1" },
      ],
    ],
    ["ConfigMap shop/added", [{ path: "", diff: "+  kind: ConfigMap\n+  data: {}" }]],
  ]);
});

test("while a pull request is compared again, the page shows what was found last, and says so first", () => {
  const found = aReport({ previews: [deployment("a", [object("one")])] });
  const newer = { head: "2".repeat(40), state: "working", finishedAt: undefined, startedAt: 9_000 } as const;
  const latest = latestResult(found, "pull-request");
  const shown = showReport(aReport({ ...newer, previews: [aPreview({ state: "working" })], latest }));
  const before = showReport(found);
  expect(shown.staleness).toBe(
    "⏳ Comparing again, because there is a newer commit `2222222`. Until that is done, this is the result for `1111111`.",
  );
  expect(before.staleness).toBeUndefined();
  expect(shown.notes).toEqual(before.notes);
  expect(shown).toMatchObject({ head: newer.head, state: "working", attention: "working" });
  const { previews, verdict, compared } = before;
  expect(shown).toMatchObject({ previews, verdict, compared });
});

test("the most urgent deployment comes first, and those with the same change name the first one", () => {
  const same = [object("settings", { diff: " data.x:\n-  1\n+  2" })];
  const failed = aPreview({ deployment: { namespace: "shop", name: "d" }, state: "failed", failure: "deploy.yml:14" });
  const previews = [deployment("a", []), deployment("b", same), deployment("c", same), failed];
  const shown = showReport(aReport({ previews })).previews;
  expect(shown.map(({ deployment: name, attention, verdict, sameAs }) => [name, attention, verdict, sameAs])).toEqual([
    ["shop/d", "failing", "cannot be rendered", undefined],
    ["shop/b", "changing", "1 changed", undefined],
    ["shop/c", "changing", "1 changed", "shop/b"],
    ["shop/a", "quiet", "no change", undefined],
  ]);
  expect(shown[0]?.failure).toBe("deploy.yml:14");
});

test("of a Secret, only the keys are shown, and nothing is shown that the report does not contain", () => {
  const secretKeys = [{ key: "password", change: "changed" as const }];
  const [shown] = showReport(aReport({ previews: [deployment("a", [object("login", { secretKeys })])] })).previews;
  expect(shown?.changes.objects).toEqual([
    { object: "ConfigMap shop/login", action: "changed", changes: [], changesLeftOut: 0, keys: secretKeys },
  ]);
});

test("what a report does not store is named", () => {
  expect(showReport(aReport()).leftOut).toBeUndefined();
  const lines = Array.from({ length: 100 }, (_, line) => `+  line ${line}`).join("\n");
  const whole = aReport({
    previews: [deployment("a", [object("one", { diff: lines }), object("two", { diff: `${lines}0` })])],
  });
  expect(showReport(fitReport(whole, 2_500)).leftOut).toBe(
    "Not shown, because a report has a limited size: 100 lines of the diffs of 1 object. `kluctl diff` shows everything.",
  );
  const noise = { objects: [], objectsLeftOut: 3 };
  const [shown] = showReport(aReport({ previews: [deployment("a", [], { objectsLeftOut: 2, noise })] })).previews;
  expect([shown?.changes.objectsLeftOut, shown?.uncounted.noise?.objectsLeftOut]).toEqual([2, 3]);
});

test("text of authors is neither hidden nor a link, and the host's URL is never a program", () => {
  const report = aReport({ url: "javascript:hit()", baseBranch: "a`b\u202e", title: "t" });
  const { url, verdict, uncounted } = showReport({
    ...report,
    previews: [deployment("a", [], { noise: { objects: [object("x\u202ey")], objectsLeftOut: 0 } })],
  });
  expect(url).toBeUndefined();
  expect(JSON.stringify([verdict, uncounted])).not.toContain("\u202e");
});
