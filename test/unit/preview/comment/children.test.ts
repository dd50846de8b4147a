import { expect, test } from "vitest";
import { samples } from "../../../../dev/comment-pictures/samples.ts";
import { renderReportText } from "../../../../src/cli/report-text/report-text.ts";
import { renderComment } from "../../../../src/comment/comment.ts";
import { fitReport } from "../../../../src/preview/fit-report.ts";
import { Report } from "../../../../src/model/report.ts";
import { showReport } from "../../../../src/views/show-report.ts";
import { limitReport } from "../../../../src/web/sight.ts";

const report = samples["children"] as Report;
const render = (shown: Report, maxLength = 65_536) => renderComment(shown, { maxLength, marker: "<!-- towline -->" });
const title =
  "Child deployments, rendered without the cluster: 1 new, 1 changed, 1 deleted, 5 not rendered (would delete 4 objects)";

test("children have one folded section of their own, and count nowhere else", () => {
  const body = render(report);
  const { children: _, ...without } = report;
  const verdict = (text: string) => text.split("\n").find((line) => line.startsWith("### "));
  expect(verdict(body)).toBe(verdict(render(without)));
  const [, section = ""] = body.split(`<details><summary>${title}</summary>`);
  expect(section).toContain("**new** `shop/team-a` in `shop/root`: 2 new");
  expect(section).toContain("`spec.credentials`: nothing that this field names was read.");
  expect(section).toMatch(
    /\*\*changed\*\* `shop\/team-b` in `shop\/root`: 1 changed[^]*\+ {2}registry\.example\/frontend:1\.5\.0/,
  );
  expect(section).toContain("**deleted** `shop/team-c` in `shop/root`: 4 deleted");
  expect(section).toContain("- `shop/team-d`: not rendered, because its source is another repository.");
  expect(section).toContain("because its `spec.delete` is not true.");
  expect(section).toContain("3 more deployments are not shown.");
});

test("the terminal shows the same", () => {
  const text = renderReportText(report, { color: false });
  expect(text).toContain(title);
  expect(text).toContain("new shop/team-a in shop/root: 2 new");
  expect(text).toContain("+  registry.example/frontend:1.5.0");
  expect(text).toContain(
    "shop/team-e: deleted, but its objects stay in the cluster, because its spec.delete is not true.",
  );
});

test("a child that failed shows its error, and one that is not rendered yet says so", () => {
  const [first, second] = report.children?.previews ?? [];
  if (first === undefined || second === undefined) throw new Error("the sample has children");
  const failed = { ...first.preview, state: "failed", failed: "render", failure: "deploy.yml:14: undefined" } as const;
  const working = { ...second.preview, state: "working" } as const;
  const previews = [
    { ...first, preview: failed },
    { ...second, preview: working },
  ];
  const shown = { ...report, children: { previews, unshown: [], beyond: 0 } };
  expect(render(shown)).toMatch(
    /`shop\/team-a` in `shop\/root`: cannot be rendered[^]*\n```\ndeploy\.yml:14: undefined\n```/,
  );
  expect(render(shown)).toContain("`shop/team-b` in `shop/root`: not rendered yet");
});

test("without room, only the title is left", () => {
  const body = render(report, 3_000);
  expect(body).toContain(`${title}.`);
  expect(body).not.toContain("**new** `shop/team-a`");
  expect(body.length).toBeLessThan(3_000);
});

test("the contents of children are removed before those of the deployments, and the counts stay", () => {
  const diff = Array.from({ length: 300 }, (_, at) => `+line ${at}`).join("\n");
  const [child] = report.children?.previews ?? [];
  if (child === undefined) throw new Error("the sample has children");
  const objects = child.preview.objects.map((object) => ({ ...object, diff }));
  const previews = [{ ...child, preview: { ...child.preview, objects } }];
  const large = { ...report, children: { previews, unshown: [], beyond: 0 } };
  const fitted = fitReport(large, 4_000);
  expect(fitted.previews).toEqual(report.previews);
  expect(fitted.children?.previews[0]?.preview.objects.map((object) => object.diff)).toEqual([undefined, undefined]);
  expect(fitted.children?.previews[0]?.preview.counts.new).toBe(2);
  expect(Report.parse(JSON.parse(JSON.stringify(fitted)))).toEqual(JSON.parse(JSON.stringify(fitted)));
});

test("the page shows children to users who see both the child and its parent", () => {
  const children = report.children;
  if (children === undefined) throw new Error("the sample has children");
  const theirs = { namespace: "theirs", name: "secret-name" };
  const [first] = children.previews;
  if (first === undefined) throw new Error("the sample has children");
  const previews = [
    first,
    { ...first, preview: { ...first.preview, deployment: theirs } },
    {
      ...first,
      parent: theirs,
      preview: { ...first.preview, deployment: { namespace: "shop", name: "hidden-parent" } },
    },
  ];
  const unshown = [{ parent: theirs, deployment: "shop/hidden-line", reason: "x" }];
  const shown = showReport({ ...report, children: { previews, unshown, beyond: 2 } });
  expect(shown.children?.previews.map(({ deployment }) => deployment)).toEqual([
    "shop/team-a",
    "theirs/secret-name",
    "shop/hidden-parent",
  ]);
  expect(shown.children?.previews[0]?.remarks).toEqual(["new in shop/root"]);
  const limited = limitReport(shown, (namespace) => namespace === "shop");
  expect(limited?.children?.previews.map(({ deployment }) => deployment)).toEqual(["shop/team-a"]);
  expect(limited?.children).toMatchObject({ unshown: [], beyond: 0, title: "" });
  expect(JSON.stringify(limited)).not.toMatch(/secret-name|hidden/);
});
