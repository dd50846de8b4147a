import fc from "fast-check";
import { expect, test } from "vitest";
import { samplePreview, sampleReport } from "../../../../dev/comment-pictures/samples.ts";
import { renderComment } from "../../../../src/comment/comment.ts";
import type { PreviewObject, Report } from "../../../../src/model/report.ts";
import { readComment } from "./read.ts";

const marker = "<!-- towline -->";
const github = 65_536;

function changedObject(index: number, lines: number, salt = ""): PreviewObject {
  const diff = Array.from({ length: lines }, (_, line) => `+ line ${line} of object ${index} ${salt}`);
  return {
    ref: { kind: "Deployment", name: `service-${index}`, namespace: "shop" },
    action: "changed",
    risks: [],
    diff: diff.join("\n"),
  };
}

function manyObjects(objects: number, lines: number, salt = ""): PreviewObject[] {
  return Array.from({ length: objects }, (_, index) => changedObject(index, lines, salt));
}

/** Deployments whose changes all differ. */
function manyDeployments(count: number, objects: number, lines: number): Report {
  const previews = Array.from({ length: count }, (_, index) =>
    samplePreview(`region-${index}`, { objects: manyObjects(objects, lines, `in region ${index}`) }),
  );
  return sampleReport(previews);
}

const rowsOf = (body: string) => body.match(/^\| \S+ \| `shop\/.*/gm)?.length ?? 0;

function expectSound(body: string, maxLength: number): void {
  expect([...body].length).toBeLessThanOrEqual(maxLength * 0.99);
  const { html, nodes } = readComment(body);
  expect(html.filter((tag) => tag === "</details>")).toHaveLength(
    html.filter((tag) => tag.startsWith("<details")).length,
  );
  expect(body.match(/^```+/gm)?.length ?? 0).toBe(nodes.filter(({ type }) => type === "code").length * 2);
  expect(body.endsWith("</sub>")).toBe(true);
}

test("for any number of deployments and objects, the comment uses the length that the forge allows", () => {
  const sizes = fc.record({
    deployments: fc.constantFrom(1, 2, 7, 40, 300, 1_000),
    objects: fc.constantFrom(0, 1, 6, 60, 200),
    lines: fc.constantFrom(0, 1, 8, 90),
    maxLength: fc.constantFrom(8_000, 32_768, github),
  });
  fc.assert(
    fc.property(sizes, ({ deployments, objects, lines, maxLength }) => {
      fc.pre(deployments * objects * lines <= 100_000);
      expectSound(renderComment(manyDeployments(deployments, objects, lines), { maxLength, marker }), maxLength);
    }),
    { numRuns: 8 },
  );
}, 60_000);

test("a report that fits is shown completely", () => {
  const body = renderComment(manyDeployments(20, 5, 8), { maxLength: github, marker });

  expect(readComment(body).blocks).toHaveLength(100);
  expect(body).not.toContain("Not shown");
});

test("diffs are shortened before an object is omitted, and all to the same length", () => {
  const report = sampleReport([samplePreview("prod", { objects: manyObjects(200, 50) })]);
  const { blocks, prose } = readComment(renderComment(report, { maxLength: github, marker }));

  expect(blocks).toHaveLength(200);
  expect(new Set(blocks.map(({ text }) => text.split("\n").length))).toEqual(new Set([11]));
  expect(blocks[0]?.text).toContain("… 40 more lines");
  expect(prose).toContain("Not shown for lack of space: 8\u00a0000 lines.");
});

test("if no diff fits any more objects are listed, and the rest are counted", () => {
  const report = sampleReport([samplePreview("prod", { objects: manyObjects(200, 50) })]);
  const body = renderComment(report, { maxLength: 8_000, marker });

  const listed = body.match(/^- \*\*changed\*\*/gm)?.length ?? 0;
  expect(listed).toBeGreaterThan(120);
  expect(body).toContain(`… and ${200 - listed} more objects: ${200 - listed} changed`);
});

test("objects and lines that the report omitted are counted too", () => {
  const objects = [{ ...changedObject(1, 3), linesLeftOut: 30 }];
  const body = renderComment(sampleReport([samplePreview("prod", { objects, objectsLeftOut: 12 })]), {
    maxLength: github,
    marker,
  });

  expect(body).toContain("… 30 more lines");
  expect(body).toContain("… and 12 more objects");
  expect(body).toContain("Not shown for lack of space: 12 objects, 30 lines.");
});

test("every deployment keeps its row as long as there is room for rows", () => {
  const body = renderComment(manyDeployments(500, 20, 20), { maxLength: github, marker });

  expect(rowsOf(body)).toBe(500);
  expect(body).toMatch(/Not shown for lack of space: the details of \d+ sections/);
});

test("deployments without a row are counted by result", () => {
  const body = renderComment(manyDeployments(1_000, 2, 2), { maxLength: 16_000, marker });

  const rows = rowsOf(body);
  expect(rows).toBeGreaterThan(100);
  const more = 1_000 - rows;
  expect(body).toContain(
    `… and ${more} more deployments: ${more} changed (objects: ${(more * 2).toLocaleString("fr").replace(/\s/, "\u00a0")} changed).`,
  );
});

test("a small section is not shortened because of a large one", () => {
  const small = samplePreview("small", { objects: [changedObject(0, 10)] });
  const large = samplePreview("large", { objects: manyObjects(200, 100) });
  const body = renderComment(sampleReport([large, small]), { maxLength: github, marker });

  expect(body).toContain("+ line 9 of object 0\n```");
  expect(body.indexOf("<code>shop/large</code>")).toBeLessThan(body.indexOf("<code>shop/small</code>"));
});

test("dangerous changes are named even in the smallest comment", () => {
  const lost: PreviewObject = {
    ref: { kind: "PersistentVolumeClaim", name: "data", namespace: "shop" },
    action: "deleted",
    risks: [{ kind: "deletion", text: "its volume may go with it" }],
  };
  const dangerous = samplePreview("dangerous", { objects: [...manyObjects(150, 20), lost] });
  const { previews } = manyDeployments(999, 5, 5);
  const body = renderComment(sampleReport([...previews, dangerous]), { maxLength: 8_000, marker });

  expect(body).toContain(
    "- **Deleted** in `shop/dangerous`: PersistentVolumeClaim `shop/data` (its volume may go with it)",
  );
  expect(body.indexOf("| 🔴 | `shop/dangerous`")).toBeLessThan(body.indexOf("| 🟡 |"));
});

test("the same changes in many deployments are shown once", () => {
  const previews = Array.from({ length: 14 }, (_, index) => {
    const objects = manyObjects(2, 3).map((object) => ({
      ...object,
      ref: { ...object.ref, namespace: `shop-${index}` },
    }));
    return samplePreview(`region-${index}`, { objects });
  });
  const { html, blocks, spans } = readComment(renderComment(sampleReport(previews), { maxLength: github, marker }));

  expect(html.filter((tag) => tag.startsWith("<details"))).toEqual([
    "<details><summary>🟡 <b>the same in 14 deployments</b>: 2 changed</summary>",
  ]);
  expect(blocks).toHaveLength(2);
  expect(spans).toContain("service-0"); // without a namespace, because it stands for the same object in each
});

test("a long line is cut and shows how many characters are missing", () => {
  const objects = [{ ...changedObject(0, 1), diff: `+ ${"x".repeat(10_000)}` }];
  const body = renderComment(sampleReport([samplePreview("prod", { objects })]), { maxLength: github, marker });

  expect(body).toContain("… (9502 more characters)");
});

test("the link to the full diff is in the footer, and where something is not shown", () => {
  const pageUrl = `https://towline.example.com/#/pull-requests/gitea/org/shop/7?link=${"x".repeat(60)}`;
  const report = manyDeployments(40, 6, 20);
  const whole = renderComment(sampleReport([samplePreview("prod")]), { maxLength: github, marker, pageUrl });
  expect(whole).toMatch(/ · <a href="[^"]+">full diff<\/a><\/sub>$/);
  expect(whole).toContain(pageUrl);
  const cut = renderComment(report, { maxLength: 8_000, marker, pageUrl });
  expectSound(cut, 8_000);
  expect(cut).toMatch(/_Not shown for lack of space: .*\. <a href="[^"]+">The full diff<\/a> has more\. `kluctl diff`/);
  expect(renderComment(report, { maxLength: 8_000, marker })).not.toContain("<a ");
});
