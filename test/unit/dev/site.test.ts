/** The documentation site is complete and loads nothing from other hosts. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { buildSite } from "../../../dev/site/build.ts";
import { checkLinks } from "../../../dev/site/links.ts";
import { readMarkdown } from "../../../dev/site/markdown.ts";

const root = join(import.meta.dirname, "../../..");

test("every link of the documentation works, in the repository and on the site", () => {
  expect(checkLinks(root)).toEqual([]);
  const out = mkdtempSync(join(tmpdir(), "towline-site-"));
  onTestFinished(() => rmSync(out, { recursive: true }));
  const { pages } = buildSite(root, out);
  expect(pages).toBeGreaterThan(30);

  const files = readdirSync(out, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".html"));
  const html = new Map(files.map((name) => [name, readFileSync(join(out, name), "utf8")]));
  const lost = [...html].flatMap(([name, text]) =>
    [...text.matchAll(/(?:href|src)="([^"]+)"/g)].flatMap(([, link = ""]) => {
      if (/^(?:https?|mailto|data):/.test(link)) return [];
      const [path = "", anchor] = link.split("#");
      const target = path === "" ? name : relative(out, join(out, dirname(name), path));
      const isThere = existsSync(join(out, target)) && !target.startsWith("..");
      const hasAnchor = anchor === undefined || html.get(target)?.includes(` id="${anchor}"`);
      return isThere && hasAnchor ? [] : [`${name}: ${link}`];
    }),
  );
  expect(lost).toEqual([]);
  const loaded = [...html.values()].flatMap((text) => text.match(/<(?:script|link|img)\b[^>]*"https?:[^>]*>/g) ?? []);
  expect(loaded).toEqual([]);
});

test("anchors are the same as at the git hosts, and code is shown unchanged", () => {
  const text = "# `Ready` is `False`, why?\n\n## Twice\n\n## Twice\n\n```sh\necho '<b>' # as *it* is\n```\n";
  const { headings, html, parts } = readMarkdown(text);
  expect(headings.map(({ anchor }) => anchor)).toEqual(["ready-is-false-why", "twice", "twice-1"]);
  expect(html).toContain(`echo '&lt;b&gt;' <span class="comment"># as *it* is</span>`);
  expect(parts.at(-1)?.words).toBe("echo '<b>' # as *it* is ");
});

test("a sequence diagram is drawn in the colours of the page, and an unsupported diagram is refused", () => {
  const draw = (...lines: string[]) => readMarkdown(["```mermaid", "sequenceDiagram", ...lines, "```"].join("\n")).html;
  const two = ["autonumber", "participant host as git <host>", "participant routes"];
  const html = draw(...two, "host->>routes: signed POST", "routes->>routes: genuine?", "routes-->>host: 202");
  expect(html.match(/<tspan[^>]*>[^<]*/g)?.map((text) => text.replace(/.*>/, ""))).toEqual([
    "git &lt;host&gt;",
    "routes",
    "signed POST",
    "genuine?",
    "202",
  ]);
  expect(html.match(/class="number"[^>]*>\d/g)).toHaveLength(3);
  expect(html.match(/class="answer"/g)).toHaveLength(1);
  expect(html).not.toMatch(/style=|#[0-9a-f]{6}/);
  expect(() => draw(...two, "loop every minute", "end")).toThrow(
    "cannot draw this line of a diagram: loop every minute",
  );
  expect(() => draw(...two, "host->>nobody: hello")).toThrow("nobody is not a participant");
});
