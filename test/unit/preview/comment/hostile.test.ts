import fc from "fast-check";
import { expect, test } from "vitest";
import { renderComment } from "../../../../src/comment/comment.ts";
import { hostileReport, marker } from "./hostile-report.ts";
import { readComment } from "./read.ts";

const maxLength = fc.constantFrom(8_000, 32_768, 65_536, 1_000_000);

const ours = new Set([
  "root", "heading", "paragraph", "text", "inlineCode", "code", "strong", "emphasis", "list", "listItem", "table",
  "tableRow", "tableCell", "html",
]); // prettier-ignore
const codeInHtml = /<code>[^<>]*<\/code>/g;
const ourHtml = /^(?:<!-- towline:signed -->|<details(?: open)?><summary>[^<>]*<\/summary>|<\/details>|<\/?sub>)$/;

test("text from users is shown as code and has no other effect", () => {
  fc.assert(
    fc.property(hostileReport, maxLength, (sample, most) => {
      const body = renderComment(sample, { maxLength: most, marker });
      const { nodes, prose, html, blocks } = readComment(body);

      // No link, image, footnote or break-out into other blocks.
      expect(nodes.map(({ type }) => type).filter((type) => !ours.has(type))).toEqual([]);
      expect(prose).not.toMatch(/zqx/i);
      // These characters outside of code could make a host see a mention, a reference, an emoji or mathematics.
      expect(prose).not.toMatch(/[@#!~%&$^<>[\]{}|\\/]|:[a-z+]|\w@|\bGH-|www\.|[\da-f]{7}/i);
      for (const tag of html) {
        expect(tag.replace(codeInHtml, "").replaceAll(/<\/?b>/g, "")).toMatch(ourHtml);
      }
      expect(html.filter((tag) => tag.startsWith("<details"))).toHaveLength(
        html.filter((tag) => tag === "</details>").length,
      );
      expect(blocks.filter(({ language }) => language !== "" && language !== "diff")).toEqual([]);
    }),
    { numRuns: 100 },
  );
}, 60_000);

test("the marker comes first, and text from users cannot contain one", () => {
  fc.assert(
    fc.property(hostileReport, maxLength, (sample, most) => {
      const body = renderComment(sample, { maxLength: most, marker });
      expect(body.startsWith(`${marker}\n`)).toBe(true);
      expect(body.lastIndexOf("<!--")).toBe(0);
    }),
    { numRuns: 100 },
  );
});

test("nothing in a comment is hidden or shown in another order than it is written", () => {
  fc.assert(
    fc.property(hostileReport, maxLength, (sample, most) => {
      const body = renderComment(sample, { maxLength: most, marker }).replaceAll("⏸️", "");
      expect(body).not.toMatch(/(?!\n|\t)[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u);
    }),
    { numRuns: 100 },
  );
});

test("no line starts with a GitLab quick action, an include or a quote", () => {
  fc.assert(
    fc.property(hostileReport, maxLength, (sample, most) => {
      expect(renderComment(sample, { maxLength: most, marker })).not.toMatch(/^(?:\/|::|>>>)/m);
    }),
    { numRuns: 100 },
  );
});

test("a comment is never longer than the forge allows", () => {
  fc.assert(
    fc.property(hostileReport, maxLength, (sample, most) => {
      expect([...renderComment(sample, { maxLength: most, marker })].length).toBeLessThanOrEqual(most * 0.99);
    }),
    { numRuns: 100 },
  );
});
