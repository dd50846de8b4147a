import fc from "fast-check";
import { expect, test } from "vitest";
import { samplePreview, sampleReport } from "../../../../dev/comment-pictures/samples.ts";
import { renderReportText } from "../../../../src/cli/report-text/report-text.ts";
import type { PreviewObject, Report } from "../../../../src/model/report.ts";
import { hostileReport } from "../../preview/comment/hostile-report.ts";

/** What a terminal may act on, or what hides or reorders text. */
const active = /(?!\n|\t)[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u;
const ourColours = /\u001b\[(?:1|2|22|31|32|33|39)m/g;

const attacks = {
  "an escape": "\u001b",
  "a colour": "\u001b[32m",
  "clearing the screen": "\u001b[2J\u001b[H",
  "a title": "\u001b]0;owned\u0007",
  "a link": "\u001b]8;;https://example.com/\u001b\\click\u001b]8;;\u001b\\",
  "the clipboard": "\u001b]52;c;cm0gLXJmIH4=\u0007",
  "a bell": "\u0007",
  "a backspace": "\b\b\b",
  "a carriage return": "deleted\rkept",
  "the CSI of C1": "\u009b2J",
  "the OSC of C1": "\u009d0;owned\u009c",
  "a next line": "\u0085",
  "a line separator": "\u2028",
  "an override of the direction": "\u202egnp.exe",
  "an isolate": "\u2066\u2069",
  "a zero-width space": "\u200b",
};

/** A report that has the text wherever it may come from a repository or a cluster. */
function reportsWith(text: string): Report[] {
  const ref = { kind: text, name: text, namespace: text };
  const risks = (["deletion", "immutable", "far-reaching"] as const).map((kind) => ({ kind, text }));
  const objects = (["new", "changed", "deleted", "orphan"] as const).map((action): PreviewObject => ({
    ref,
    action,
    risks,
    diff: `+ ${text}\n${text}`,
  }));
  const secret: PreviewObject = { ref, action: "changed", risks, secretKeys: [{ key: text, change: "changed" }] };
  const messages = [{ ref, message: text }];
  const fields = { deployment: { namespace: text, name: text }, target: text, cluster: text };
  const changed = samplePreview("prod", {
    ...fields,
    ...{ objects: [...objects, secret], errors: messages, warnings: messages, concealed: text },
    ...{ encrypted: { files: 1, changed: [text] }, isolated: true },
  });
  const others = [
    samplePreview("prod", { ...fields, state: "failed", failure: text }),
    samplePreview("prod", { ...fields }),
  ];
  const pullRequest = { forge: text, repoName: text, number: 7 };
  const commits = { pullRequest, url: text, baseBranch: text, head: text, base: text, restarts: 3 };
  const obstacles: Report["obstacle"][] = [
    { kind: "fork", why: text },
    { kind: "no-branch" },
    { kind: "conflict", paths: [text] },
    { kind: "failed", message: text },
  ];
  return [
    sampleReport([changed, { ...changed, concealed: undefined }, ...others], commits),
    ...obstacles.map((obstacle) => sampleReport([], { ...commits, obstacle })),
  ];
}

test.each(Object.entries(attacks))("%s is spelled out", (_, attack) => {
  for (const report of reportsWith(`a${attack}b`)) {
    const text = renderReportText(report, { color: false });
    expect(text).not.toMatch(active);
    expect(text).toMatch(/\\u[\da-f]{4}/);
    expect(renderReportText(report, { color: true }).replaceAll(ourColours, "")).toBe(text);
  }
});

test("escape sequences stay readable", () => {
  const [report] = reportsWith("a\u001b[2Jb");

  expect(renderReportText(report as Report, { color: false })).toContain("target a\\u001b[2Jb · cluster a\\u001b[2Jb:");
});

test("nothing from a repository or a cluster acts on the terminal", () => {
  fc.assert(
    fc.property(hostileReport, (report) => {
      const text = renderReportText(report, { color: false });
      expect(text).not.toMatch(active);
      expect(renderReportText(report, { color: true }).replaceAll(ourColours, "")).toBe(text);
    }),
    { numRuns: 200 },
  );
});

test("names stay in their line, and further lines of messages and diffs stay indented", () => {
  const [report] = reportsWith("a\n\nshop/prod: no change\r\nb");
  const lines = renderReportText(report as Report, { color: false }).split("\n");

  expect(lines.filter((line) => line.startsWith("shop/prod: no change"))).toEqual([]);
  expect(lines.filter((line) => line.startsWith("    shop/prod: no change"))).not.toEqual([]);
});
