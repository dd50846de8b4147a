import { expect, test } from "vitest";
import { samplePreview, sampleReport, samples } from "../../../../dev/comment-pictures/samples.ts";
import { renderComment } from "../../../../src/comment/comment.ts";
import { describeReport } from "../../../../src/preview/summary.ts";
import type { Preview, PreviewObject, Report } from "../../../../src/model/report.ts";
import { readComment } from "./read.ts";

const render = (report: Report) => renderComment(report, { maxLength: 65_536, marker: "<!-- towline -->" });
const change = samples["change"] as Report;
const { objects: frontend = [] } = change.previews[0] ?? {};

function settings(index: number, fields: Partial<PreviewObject> = {}): PreviewObject {
  return {
    ref: { kind: "ConfigMap", name: `settings-${index}`, namespace: "shop" },
    action: "changed",
    risks: [],
    diff: ["  data.WORKERS", '- "2"', '+ "4"'].join("\n"),
    ...fields,
  };
}

function regions(count: number, fields: (index: number) => Partial<Preview>): Preview[] {
  return Array.from({ length: count }, (_, index) => samplePreview(`region-${index}`, fields(index)));
}

const different = (index: number) => ({ objects: [settings(index, { diff: `+ region ${index}` })] });

/** The rows of each table, without its head. */
function tablesOf(body: string): string[][] {
  return body
    .split("\n\n")
    .filter((block) => block.startsWith("| "))
    .map((block) => block.split("\n").slice(2));
}

test("the only deployment has no table: verdict and title say everything that its row would", () => {
  const only = samplePreview("prod", { objects: frontend, approval: "after-merge", drift: 2 });
  const body = render(sampleReport([only]));

  expect(tablesOf(body)).toEqual([]);
  expect(body).toContain("### Towline: merging changes 1 deployment: 3 objects changed, 1 new\n");
  expect(body).toContain(
    "<details open><summary>🟡 <b><code>shop/prod</code></b> · <code>prod</code> · <code>eu-1</code>: 3 changed, 1 new; " +
      "will need approval; existing drift in 2 objects</summary>",
  );
});

test("the details of the only deployment are folded if they take more than a screen", () => {
  const body = render(samples["200-objects"] as Report);

  expect(body).toContain("<details><summary>🟡 <b><code>shop/prod</code></b>");
});

test.each<[string, Partial<Preview>, string]>([
  ["it is still compared", { state: "working" }, "⏳ `shop/prod` · `prod` · `eu-1`: comparing …"],
  [
    "a change waits for approval",
    { approval: "pending" },
    "⚪ `shop/prod` · `prod` · `eu-1`: no change; waiting for approval",
  ],
  ["it has drifted", { drift: 1 }, "⚪ `shop/prod` · `prod` · `eu-1`: no change; existing drift in 1 object"],
])("the only deployment without details is named in one line if %s", (_, fields, line) => {
  const report = sampleReport([samplePreview("prod", fields)], {
    state: fields.state === "working" ? "working" : "done",
  });
  const lines = render(report).split("\n\n");

  expect(lines).toContain(line);
  expect(lines.join("")).not.toMatch(/<details|\| ---/);
});

test("up to twelve deployments have a row each, also if the same changes in them", () => {
  const [rows] = tablesOf(render(sampleReport(regions(12, () => ({ objects: [settings(0)] })))));

  expect(rows).toHaveLength(12);
});

test("of more deployments, those with the same result share a row", () => {
  const same = regions(14, (index) => ({ objects: [settings(0)], cluster: index < 7 ? "eu-1" : "us-1" }));
  const one = samplePreview("canary", { objects: [settings(1), settings(2, { diff: "+ other" })] });
  const [rows] = tablesOf(render(sampleReport([one, ...same])));

  expect(rows).toEqual([
    "| 🟡 | `shop/region-0` and 13 more, the same | `region` · `eu-1`, `us-1` | 1 |",
    "| 🟡 | `shop/canary` | `canary` · `eu-1` | 2 |",
  ]);
});

test("deployments that differ in what a reader has to know do not share a row", () => {
  const body = render(sampleReport(regions(14, (index) => ({ objects: [settings(0)], suspended: index === 3 }))));

  expect(tablesOf(body)[0]).toEqual([
    "| 🟡 | `shop/region-0` and 12 more, the same | `region` · `eu-1` | 1 |  |",
    "| ⏸️ | `shop/region-3` | `region` · `eu-1` | 1 | suspended: merging deploys nothing here |",
  ]);
});

test("twelve rows are visible, the most urgent first, then the largest; the rest is counted and folded", () => {
  const previews = regions(200, different);
  previews[150] = samplePreview("lost", { objects: [settings(0, { action: "deleted" })] });
  previews[151] = samplePreview("large", { objects: [1, 2, 3].map((n) => settings(n, { diff: `+ ${n}` })) });
  const body = render(sampleReport(previews));
  const [rows = [], more = []] = tablesOf(body);

  expect(rows).toHaveLength(12);
  expect(rows[0]).toMatch(/^\| 🔴 \| `shop\/lost`/);
  expect(rows[1]).toMatch(/^\| 🟡 \| `shop\/large`/);
  expect(more).toHaveLength(188);
  expect(body).toContain("<details><summary>188 more deployments: 188 changed (objects: 188 changed)</summary>\n\n|");
});

test("twelve sections are visible, the others are folded together", () => {
  const body = render(sampleReport(regions(40, different)));
  const [visible = "", folded = ""] = body.split("<details><summary>28 more sections</summary>\n\n");

  expect(visible.match(/<summary>🟡 <b><code>shop\/region/g)).toHaveLength(12);
  expect(folded.match(/<summary>🟡 <b><code>shop\/region/g)).toHaveLength(28);
  expect(readComment(body).blocks).toHaveLength(40);
});

test("the same change in many objects is shown once", () => {
  const objects = Array.from({ length: 200 }, (_, index) => settings(index));
  const body = render(sampleReport([samplePreview("prod", { objects }), samplePreview("staging")]));
  const { blocks } = readComment(body);

  expect(blocks).toHaveLength(1);
  expect(body).toMatch(
    /^\*\*The same change in 200 ConfigMaps\*\*: (?:`shop\/settings-\d+`, ){199}`shop\/settings-199`$/m,
  );
  expect(body).not.toContain("Not shown");
});

test.each([
  ["ConfigMap", "3 ConfigMaps"],
  ["Ingress", "3 Ingresses"],
  ["NetworkPolicy", "3 NetworkPolicies"],
  ["Gateway", "3 Gateways"],
  ["`@ada`", "3 of kind `` `@ada` ``"],
])("new objects of kind %s are listed in one line", (kind, text) => {
  const objects = [1, 2, 3].map((n) =>
    settings(n, { ref: { kind, name: `n-${n}`, namespace: "shop" }, action: "new", diff: undefined }),
  );

  expect(render(sampleReport([samplePreview("prod", { objects })]))).toContain(
    `- **new** ${text}: \`shop/n-1\`, \`shop/n-2\`, \`shop/n-3\``,
  );
});

test("Secrets and objects whose diff is incomplete are shown one by one", () => {
  const keys = { secretKeys: [{ key: "password", change: "changed" as const }], diff: undefined };
  const secrets = [1, 2, 3].map((n) => settings(n, { ref: { kind: "Secret", name: `login-${n}` }, ...keys }));
  const cut = [4, 5, 6].map((n) => settings(n, { linesLeftOut: n }));
  const body = render(sampleReport([samplePreview("prod", { objects: [...secrets, ...cut] })]));

  expect(body.match(/Secret `login-\d`: key `password` changed/g)).toHaveLength(3);
  expect(readComment(body).blocks).toHaveLength(3);
});

test("no deleted object loses its name to others while there is room, and those without are counted", () => {
  const objects = Array.from({ length: 1_500 }, (_, index) => settings(index, { action: "deleted", diff: undefined }));
  const report = sampleReport([samplePreview("prod", { objects }), samplePreview("staging")]);
  const names = (body: string) => new Set(body.match(/settings-\d+/g)).size;

  expect(names(render(report))).toBe(1_500);
  const small = renderComment(report, { maxLength: 8_000, marker: "" });
  expect(names(small)).toBeGreaterThan(150);
  expect(small).toContain(`… and ${(1_500 - names(small)).toLocaleString("fr").replace(/\s/, "\u00a0")} more objects`);
});

test("objects whose changes are incomplete, or of another API group, are not the same", () => {
  const omitted = settings(0, { diff: undefined, partial: true });
  const two = (one: PreviewObject, other: PreviewObject) =>
    render(sampleReport([samplePreview("a", { objects: [one] }), samplePreview("b", { objects: [other] })]));
  const cluster = (group: string) => settings(0, { ref: { group, kind: "Cluster", name: "db" }, action: "deleted" });

  expect(two(settings(0), settings(0))).toContain("the same in 2 deployments");
  expect(two(omitted, omitted)).not.toContain("the same in");
  expect(two(omitted, omitted)).toContain("ConfigMap `shop/settings-0` – its changes are too large to be shown");
  expect(two(cluster("one.example"), cluster("other.example"))).not.toContain("the same in");
  const alike = [0, 1, 2].map((index) => settings(index, { partial: true }));
  expect(render(sampleReport([samplePreview("a", { objects: alike })]))).not.toContain("The same change");
});

test("a section names all its deployments, with their places if these differ", () => {
  const same = regions(60, (index) => ({ objects: [settings(0)], cluster: index === 55 ? "production" : "test" }));
  const body = render(sampleReport(same));

  for (const { deployment } of same) expect(body).toContain(`\`shop/${deployment.name}\` (\`region\` · `);
  expect(body).toContain("`shop/region-55` (`region` · `production`)");
});

test("a danger of several deployments names the first, and no namespace that is not the same in all", () => {
  const lost = (namespace: string) =>
    settings(0, { ref: { kind: "Service", name: "api", namespace }, action: "deleted", diff: undefined });
  const previews = ["eu", "us"].map((name) => samplePreview(name, { objects: [lost(name)] }));

  expect(render(sampleReport(previews))).toContain("- **Deleted** in `shop/eu` and 1 more: Service `api`\n");
});

test("errors that were not kept are counted", () => {
  const counts = { new: 0, changed: 0, deleted: 0, orphan: 0, errors: 200, warnings: 0 };
  const body = render(sampleReport([samplePreview("prod", { errors: [{ message: "no such kind" }], counts })]));

  expect(body).toContain("**200 errors**\n```\nno such kind\n… and 199 more\n```");
});

test("only deploys that would fail are said to: not suspended ones, nor those with placeholders or without the cluster", () => {
  const errors = [{ message: "spec.replicas: Invalid value" }];
  const verdict = (fields: Partial<Preview>) => render(sampleReport([samplePreview("prod", { errors, ...fields })]));

  expect(verdict({})).toContain("merging **would fail**: 1 deployment has 1 error\n");
  expect(verdict({ suspended: true })).toContain("### Towline: 1 deployment has 1 error\n");
  expect(verdict({ isolated: true })).toContain("### Towline: 1 deployment has 1 error\n");
  expect(verdict({ encrypted: { files: 1, changed: [] } })).toContain("### Towline: 1 deployment has 1 error\n");
});

test("what a failing deploy would delete is not claimed to be deleted", () => {
  const objects = [settings(0, { action: "deleted", diff: undefined })];
  const body = render(sampleReport([samplePreview("prod", { objects, errors: [{ message: "no such kind" }] })]));

  expect(body).toContain("has 1 error; it **would delete 1 object** in 1 deployment");
});

test("the description of a status keeps to its length, and says that the cluster was not asked", () => {
  const fields = (index: number): Partial<Preview> => ({
    ...different(index),
    isolated: true,
    ...(index < 2 && { state: "failed" as const }),
    ...(index >= 2 && index < 5 && { errors: [{ message: "no" }] }),
    ...(index >= 5 && index < 7 && { state: "failed" as const, failed: "run" as const }),
    suspended: index === 7,
  });
  const text = describeReport(sampleReport(regions(20, fields)));

  expect(text.length).toBeLessThanOrEqual(140);
  expect(text).toContain("rendered without the cluster");
  const failing = regions(20, (index) => ({ ...fields(index), isolated: undefined }));
  const worded = describeReport(sampleReport(failing));
  expect(worded.length).toBeLessThanOrEqual(140);
  expect(worded).toMatch(/^would fail; 7 deployments with problems; would change/);
});

test("errors are open, whether rendering or an object failed", () => {
  const refused = { message: "spec.replicas: Invalid value: -1" };
  const previews = regions(8, (index) => ({ ...different(index), errors: [refused] }));
  const body = render(sampleReport([...previews, samplePreview("quiet", different(9))]));

  expect(body.match(/<details open>/g)).toHaveLength(8);
  expect(body).toContain("<details><summary>🟡 <b><code>shop/quiet</code></b>");
});

test("the footer says that something was compared with the cluster only if it was", () => {
  const failed = samplePreview("prod", { state: "failed", failure: "no such variable" });

  expect(render(sampleReport([failed]))).not.toContain("compared with");
  expect(render(sampleReport([]))).not.toContain("compared with");
  expect(render(sampleReport([failed, samplePreview("staging")]))).toContain("compared with the live cluster");
});
