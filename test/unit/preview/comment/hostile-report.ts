/** Reports in which every text from a repository or a cluster tries to be more than text. */
import fc from "fast-check";
import { type Preview, type PreviewObject, type Report, riskKinds } from "../../../../src/model/report.ts";

/** Part of every text from users, so that a test can find it. */
const canary = "zqx";
export const marker = "<!-- towline:signed -->";

const tricks = [
  "@ada", "@org/team", "#123", "GH-1", "!12", "&7", "~bug", "%v1", "closes #1", "org/repo#1", "0123abcdef0123abcdef",
  "https://example.com/a", "www.example.com", "ada@example.com", "mailto:ada@example.com", "<https://example.com>",
  "![x](https://example.com/x.png)", "[x](https://example.com)", "[x]: https://example.com", "[^1]", "[^1]: note",
  "<img src=x onerror=y>", "</details>", "</summary>", "</code>", "</sub>", "<script>", "<!--", "-->", marker, "&lt;",
  "`", "``", "```", "````", "~~~", "```diff", "```mermaid", "$$", "$`x`$", "|", "\\|", "\\", "\\`", "\n", "\n\n", "\r",
  "\r\n", "\t", "    ", "- ", "1. ", "# ", "> ", "---", "===", "| --- |", "/merge", "\n/merge", "\n/close\n", "\n::include{file=x}", "\n>>>\n", ":tada:",
  "**", "_", "~~", "\u202e", "\u200b", "\u0000", "\u001b[31m", "\ufeff", "\u2028", "\ud800", "\u{e0041}", "é", "日本", "🟡", "+", "-", " ",
  "\n```\n", "\n~~~\n", "\n````\n", "\n</details>\n\n@ada\n", "\f", "\v", "\u0085",
]; // prettier-ignore
const trick = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(...tricks) },
  { weight: 1, arbitrary: fc.string({ unit: "binary", maxLength: 6 }) },
);
const hostile = fc
  .array(trick, { minLength: 0, maxLength: 12 })
  .map((parts) => parts.flatMap((part, index) => (index % 3 === 0 ? [canary, part] : [part])).join(""));
const name = hostile.map((text) => text.slice(0, 250));
/** Texts that are shown as sentences: their plain words may stand outside of code. */
const sentence = hostile.map((text) => text.replaceAll(canary, "word"));
const count = fc.constantFrom(0, 0, 1, 3);

const object: fc.Arbitrary<PreviewObject> = fc.record(
  {
    ref: fc.record({ kind: fc.oneof(fc.constant("ConfigMap"), sentence), name, namespace: name }),
    action: fc.constantFrom("new", "changed", "deleted", "orphan"),
    risks: fc.array(fc.record({ kind: fc.constantFrom(...riskKinds), text: sentence }), {
      maxLength: 2,
    }),
    diff: fc.array(hostile, { maxLength: 5 }).map((lines) => lines.map((line) => `+ ${line}`).join("\n")),
    linesLeftOut: count,
    secretKeys: fc.array(
      fc.record({ key: name, change: fc.constantFrom("added", "removed", "changed", "unchanged") }),
      { maxLength: 3 },
    ),
  },
  { requiredKeys: ["ref", "action", "risks"] },
);
const message = fc.record(
  { ref: fc.record({ kind: name, name }), message: hostile, old: fc.constant(true as const) },
  { requiredKeys: ["message"] },
);
const shared = fc.record({ objects: fc.array(object, { maxLength: 4 }), objectsLeftOut: count });
const preview: fc.Arbitrary<Preview> = fc.record(
  {
    deployment: fc.record({ namespace: name, name }),
    target: name,
    dependsOn: fc.array(fc.record({ namespace: name, name }), { maxLength: 2 }),
    cluster: name,
    state: fc.constantFrom("working", "done", "done", "done", "failed"),
    suspended: fc.boolean(),
    approval: fc.constantFrom("pending", "after-merge"),
    counts: fc.record({ new: count, changed: count, deleted: count, orphan: count, errors: count, warnings: count }),
    drift: count,
    objects: fc.array(object, { maxLength: 4 }),
    objectsLeftOut: count,
    errors: fc.array(message, { maxLength: 2 }),
    warnings: fc.array(message, { maxLength: 2 }),
    failure: hostile,
    failed: fc.constantFrom("render", "run"),
    concealed: sentence,
    drifted: shared,
    undeployed: shared,
    noise: shared,
    unattributed: sentence,
  },
  {
    requiredKeys: [
      "deployment", "cluster", "state", "suspended", "counts", "drift", "objects", "objectsLeftOut", "errors", "warnings",
    ], // prettier-ignore
  },
);
const key = fc.record({ namespace: name, name });
const child = fc.record(
  {
    parent: key,
    action: fc.constantFrom("new", "changed", "deleted"),
    onlySpec: fc.constant(true as const),
    unread: fc.array(fc.constantFrom("spec.credentials", "spec.decryption"), { maxLength: 2 }),
    children: count,
    preview,
  },
  { requiredKeys: ["parent", "action", "unread", "preview"] },
);
const children = fc.record({
  previews: fc.array(child, { maxLength: 3 }),
  unshown: fc.array(fc.record({ parent: key, deployment: name, reason: sentence }), { maxLength: 3 }),
  beyond: count,
});
const obstacle = fc.oneof(
  fc.constant({ kind: "fork" as const }),
  fc.record({ kind: fc.constant("conflict" as const), paths: fc.array(hostile, { maxLength: 5 }) }),
  fc.record({ kind: fc.constant("failed" as const), message: hostile }),
);
export const hostileReport: fc.Arbitrary<Report> = fc.record(
  {
    v: fc.constant(1 as const),
    pullRequest: fc.constant({ forge: "gitea", repoName: "example/shop", number: 7 }),
    url: hostile,
    baseBranch: name,
    head: fc.oneof(name, fc.constant("3f2c1ab7f0c94d1b8c5e2a6d0f3b9e8a7c6d5e4f")),
    base: fc.oneof(name, fc.constant("9d41e07c2b8a4f6e0d1c3b5a7988766554433221")),
    state: fc.constantFrom("working", "done", "done", "closed", "merged"),
    obstacle,
    previews: fc.array(preview, { maxLength: 9 }),
    children,
    earlierHeads: fc.constant([]),
    restarts: fc.constantFrom(0, 3),
    startedAt: fc.constant(0),
    finishedAt: fc.constantFrom(0, 65_000),
  },
  {
    requiredKeys: [
      "v", "pullRequest", "url", "baseBranch", "head", "state", "previews", "earlierHeads", "restarts", "startedAt",
    ], // prettier-ignore
  },
);
