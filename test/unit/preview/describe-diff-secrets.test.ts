/** A canary is planted in every encoding at every place, and no part of it may appear in the description. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { stringify } from "yaml";
import type { CommandResult } from "../../../src/model.ts";
import { describeDiff } from "../../../src/preview/describe-diff.ts";
import { aResult, anObject } from "../../support/deployments.ts";

const base64 = (text: string) => Buffer.from(text).toString("base64");
const goQueryEscape = (text: string) =>
  encodeURIComponent(text)
    .replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`)
    .replaceAll("%20", "+");

const spellings: Record<string, (value: string) => string> = {
  raw: (value) => value,
  base64,
  "base64 for URLs, unpadded": (value) => Buffer.from(value).toString("base64url"),
  "base64 in lines": (value) => base64(value).replace(/.{10}/g, "$&\n    "),
  "base64 of more than the value": (value) => base64(`user:${value}`),
  "base64 of JSON with the value": (value) => base64(`{"a":${JSON.stringify(value)}}`).replaceAll("=", ""),
  "base64 twice": (value) => base64(base64(value)),
  "base64 of a Secret with the value": (value) => base64(`data:\n  password: ${base64(value)}\n`),
  "in a URL": encodeURIComponent,
  "in a query": goQueryEscape,
  "in a URL, lower case": (value) => encodeURIComponent(value).replace(/%../g, (hex) => hex.toLowerCase()),
  "in JSON": (value) => JSON.stringify(value),
  "in JSON, ASCII only": (value) =>
    JSON.stringify(value).replace(/[^\x20-\x7e]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`),
  "in JSON inside of JSON": (value) => JSON.stringify(JSON.stringify({ value })),
  "in YAML": (value) => stringify({ value }),
  "in YAML, quoted and folded": (value) => stringify({ value }, { lineWidth: 20, defaultStringType: "QUOTE_DOUBLE" }),
  "in YAML, as a block": (value) => stringify({ a: { value } }, { defaultStringType: "BLOCK_LITERAL" }),
  "in HTML": (value) => value.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;"),
  hexadecimal: (value) => Buffer.from(value).toString("hex"),
  "hexadecimal, upper case": (value) => Buffer.from(value).toString("hex").toUpperCase(),
  "after a backslash": (value) => `CORP\\${value}`,
  "after a percent sign": (value) => `100%${value}`,
};

const around = (text: string) => `one\ntwo ${text} three\nfour`;
const json = (value: unknown) => JSON.stringify(value);
const nobody = { kind: "", name: "" };
const configMap = (data: unknown) => json({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "c" }, data });

/** A result with this text at every place where text of a project can appear. */
function planted(text: string): Partial<CommandResult> {
  return {
    objects: [
      anObject({ changes: [{ type: "update", jsonPath: "data.a", oldValue: around("old"), newValue: around(text) }] }),
      anObject({ changes: [{ type: "update", jsonPath: "data.a", oldValue: around(text), newValue: "plain" }] }),
      anObject({ changes: [{ type: "update", jsonPath: "data.a", oldValue: text, newValue: `${text}!` }] }),
      anObject({ changes: [{ type: "delete", jsonPath: `data["${text}"]`, oldValue: [{ deep: [text] }] }] }),
      anObject({ changes: [{ type: "insert", jsonPath: "metadata.annotations", newValue: { [text]: text } }] }),
      anObject({ changes: [{ type: "insert", jsonPath: "spec.args", newValue: ["--password", `--login=${text}`] }] }),
      anObject({ new: true, rendered: configMap({ a: text, b: around(text) }), applied: configMap({ a: text }) }),
      anObject({ ref: { kind: "Widget", group: "example.com", name: "w" }, new: true, rendered: json({ s: [text] }) }),
      // What does not change is only part of the manifest.
      anObject({
        ref: { kind: "Gadget", group: "example.com", name: "g" },
        changes: [{ type: "update", jsonPath: "spec.replicas", oldValue: 1, newValue: 2 }],
        rendered: json({ kind: "Gadget", metadata: { labels: { [text]: text } }, spec: { a: text, b: around(text) } }),
      }),
    ],
    errors: [{ ref: nobody, message: `admission webhook denied: ${text}` }],
    warnings: [{ ref: { kind: "Pod", name: "p" }, message: `unknown field "${text}" (and more)` }],
  };
}

function resultWith(value: string, planted: Partial<CommandResult>): CommandResult {
  const data = { password: base64(value) };
  const secret = anObject({
    ref: { version: "v1", kind: "Secret", name: "db", namespace: "shop" },
    rendered: json({ apiVersion: "v1", kind: "Secret", metadata: { name: "db" }, data }),
    remote: json({ apiVersion: "v1", kind: "Secret", metadata: { name: "db" }, data: {} }),
    changes: [{ type: "insert", jsonPath: "data.password", newValue: data.password }],
  });
  return aResult({ ...planted, objects: [secret, ...(planted.objects ?? [])] });
}

const describeText = (result: CommandResult) => {
  const description = describeDiff(result, { knownSecrets: [], prune: true, manifests: true });
  expect(description.concealed).toBeUndefined();
  // A mark such as `"partial":true}` has no text of a secret, even if a secret looks like it.
  const told = JSON.stringify(description, (_, value: unknown) => (value === true ? undefined : value));
  const manifests = description.manifests?.objects.map(({ text }) => text) ?? [];
  return told + [...description.objects.map(({ diff }) => diff), ...manifests].join("\n");
};

const blanksOnly = /^[\p{C}\p{Z}]*$/u;

/** Blanks at the ends of a secret stay visible, also where they are percent-encoded: nothing of the rest follows from them. */
function withoutEncodedBlanks(text: string): string {
  return text.replace(/(?:%[\da-f]{2})+/gi, (run) =>
    blanksOnly.test(Buffer.from(run.replaceAll("%", ""), "hex").toString()) ? " " : run,
  );
}

/** Returns the parts of this length without blanks and quotes that are not among the description's own words. */
function piecesIn(spelled: string, length: number, without: string): string[] {
  const text = withoutEncodedBlanks(spelled);
  return Array.from({ length: Math.max(text.length - length + 1, 0) }, (_, i) => text.slice(i, i + length)).filter(
    (piece) => !/[\s\\"']/.test(piece) && !without.includes(piece),
  );
}

// fast-check's own "binary" takes seconds to set up.
const anyCharacter = fc
  .oneof(fc.integer({ min: 0, max: 0x2f_ff }), fc.integer({ min: 0, max: 0x10_ff_ff }))
  .filter((point) => point < 0xd8_00 || point > 0xdf_ff)
  .map((point) => String.fromCodePoint(point));

const secretValue = fc
  .oneof(
    fc.string({ minLength: 6, maxLength: 80, unit: anyCharacter }),
    fc.string({ minLength: 6, maxLength: 80, unit: "grapheme" }),
    fc.string({ minLength: 6, maxLength: 80, unit: "grapheme-ascii" }),
    fc.stringMatching(/^[a-z0-9+/=_-]{6,40}$/),
    fc.stringMatching(/^[.*+?^${}()|[\]\\/%&#@!~-]{8,20}$/),
    fc
      .array(fc.string({ minLength: 3, unit: "grapheme-ascii" }), { minLength: 2, maxLength: 6 })
      .map((all) => all.join("\n")),
    fc.json({ maxDepth: 2 }),
    fc.string({ minLength: 2, unit: "grapheme-ascii" }).map((text) => `","${text}":{"`),
  )
  // Values with fewer visible characters are hidden only where they are a field's whole value.
  .filter((value) => value.replace(/[\s\\"'\p{C}\p{Z}]/gu, "").length >= 6);

test("a secret that looks like a mark of the description is no leak", () => {
  const value = `[{"":null," ":null,"  ":true},[-3.1205e-320,1.2036438455287203e-308,"         ","    ",1.4545551178858203e-198,null,"  ","         ",1.0000002251881652e+140,null],[1.0911923899782261e-306,-1.0000000093658102e-300,"      ",false,1.0000000031402312e-301,null,null,null]]`;
  const spell = spellings["base64 in lines"]!;
  const without = describeText(resultWith("", planted("")));
  const described = describeText(resultWith(value, planted(spell(value))));
  expect(piecesIn(value, 6, without).filter((piece) => described.includes(piece))).toEqual([]);
});

test.each(Object.entries(spellings))("no piece of a secret can be read: %s", (_, spell) => {
  const without = describeText(resultWith("", planted(spell("")))) + describeText(resultWith("", planted("")));
  fc.assert(
    fc.property(secretValue, (value) => {
      const text = spell(value);
      const described = describeText(resultWith(value, planted(text)));
      expect(piecesIn(value, 6, without).filter((piece) => described.includes(piece))).toEqual([]);
      expect(piecesIn(text, 9, without).filter((piece) => described.includes(piece))).toEqual([]);
    }),
    { numRuns: 100 },
  );
});
