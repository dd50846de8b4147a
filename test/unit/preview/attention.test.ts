import { expect, test } from "vitest";
import { attentionOf } from "../../../src/preview/attention.ts";
import type { Preview, Report } from "../../../src/model/report.ts";
import { aPreview, aReport } from "../../support/fake-reports.ts";

const none = { new: 0, changed: 0, deleted: 0, orphan: 0, errors: 0, warnings: 0 };
const of = (preview: Partial<Preview>, report: Partial<Report> = {}) =>
  attentionOf(
    aReport({ previews: [aPreview({ counts: { ...none, changed: 1 }, objects: [], ...preview })], ...report }),
  );
const risk = { kind: "security", text: "runs as root" } as const;
const object = { ref: { kind: "Pod", name: "a" }, action: "changed" as const };

test.each<[string, ReturnType<typeof attentionOf>, ReturnType<typeof attentionOf>]>([
  ["changes objects", of({}), "changing"],
  ["changes nothing", of({ counts: none }), "quiet"],
  ["affects no deployment", attentionOf(aReport({ previews: [] })), "quiet"],
  ["deletes an object", of({ counts: { ...none, deleted: 1 } }), "risky"],
  ["has a risk", of({ objects: [{ ...object, risks: [risk] }] }), "risky"],
  ["waits for an approval", of({ approval: "pending" }), "risky"],
  ["would have a prune wait", of({ pruneWaits: { doomed: 9, deployed: 9, empty: true } }), "risky"],
  ["comes from a fork", of({}, { obstacle: { kind: "fork" } }), "risky"],
  ["has errors", of({ counts: { ...none, errors: 1 } }), "failing"],
  ["cannot be rendered", of({ state: "failed" }), "failing"],
  ["has a conflict", attentionOf(aReport({ previews: [], obstacle: { kind: "conflict", paths: [] } })), "failing"],
  ["is being compared", of({ state: "working" }, { state: "working" }), "working"],
])("a pull request that %s", (_, found, wanted) => expect(found).toBe(wanted));

test("what was found already counts while the rest is compared", () => {
  const previews = [aPreview({ state: "failed" }), aPreview({ state: "working" })];
  expect(attentionOf(aReport({ state: "working", previews }))).toBe("failing");
});
