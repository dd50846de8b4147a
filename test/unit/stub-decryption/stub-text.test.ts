import { expect, test } from "vitest";
import { parse } from "yaml";
import { formatOf, stubText } from "../../../src/stub-decryption/stub-text.ts";
import { ageMasterKey, blueKey, encryptedDotenv, encryptedJson, encryptedYaml } from "../../support/sops.ts";

const placeholder = expect.stringMatching(/^encrypted[0-9a-f]{11}$/) as string;

function enc(data: string, type = "str"): string {
  return `ENC[AES256_GCM,data:${data},iv:aXY=,tag:dGFn,type:${type}]`;
}

const sops = `sops:
    kms: []
    age:
        - recipient: age1
          enc: |
            -----BEGIN AGE ENCRYPTED FILE-----
            YWdl

            -----END AGE ENCRYPTED FILE-----
    lastmodified: "2026-01-01T00:00:00Z"
    mac: ${enc("mac")}
    version: 3.8.1
`;

test("each value becomes a placeholder of its type, and what SOPS added is removed", () => {
  const text = `#${enc("hidden", "comment")}
# open
name: open
text: ${enc("YQ==")} # beside
number: ${enc("Mg==", "int")}
share: ${enc("Mw==", "float")}
flag: ${enc("NA==", "bool")}
blob: ${enc("NQ==", "bytes")}
list:
    - ${enc("Ng==")}
    - {inner: ${enc("YQ==")}}
${sops}`;
  const stubbed = stubText(text, "yaml");

  expect(parse(stubbed?.text ?? "")).toEqual({
    name: "open",
    text: placeholder,
    number: 1,
    share: 1,
    flag: false,
    blob: placeholder,
    list: [placeholder, { inner: placeholder }],
  });
  expect(stubbed?.text).toContain("# open\n");
  expect(stubbed?.ciphertexts).toHaveLength(8);
});

test("the same ciphertext gives the same placeholder, and another one another", () => {
  const of = (data: string) => (parse(stubText(`a: ${enc(data)}\n${sops}`, "yaml")?.text ?? "") as { a: string }).a;
  expect(of("YQ==")).toBe(of("YQ=="));
  expect(of("YQ==")).not.toBe(of("Yg=="));
  // A value below `data` of a Secret has to be base64.
  expect(Buffer.from(of("YQ=="), "base64").toString("base64")).toBe(of("YQ=="));
});

test("text after SOPS's fields, and in other documents, stays", () => {
  const text = `a: ${enc("YQ==")}\n${sops}b: 1\n---\nc: ${enc("Yw==")}\n${sops}---\nd: 2\n`;
  expect(stubText(text, "yaml")?.text).toMatch(/^a: encrypted\w{11}\nb: 1\n---\nc: encrypted\w{11}\n---\nd: 2\n$/);
});

test("templates and anchors stay unchanged", () => {
  const text = `{% if args.x %}\na: &a ${enc("YQ==")}\nb: *a\n{% endif %}\nc: "{{ args.y }}"\n${sops}`;
  expect(stubText(text, "yaml")?.text).toMatch(
    /^\{% if args\.x %\}\na: &a encrypted\w{11}\nb: \*a\n\{% endif %\}\nc: "\{\{ args\.y \}\}"\n$/,
  );
});

test("files encrypted by the test helpers are understood", () => {
  const secret = { apiVersion: "v1", kind: "Secret", metadata: { name: "x" }, stringData: { a: "canary", n: 7 } };
  const key = { dataKey: blueKey.dataKey, masterKeys: ageMasterKey(blueKey), fields: ["stringData"] };
  expect(parse(stubText(encryptedYaml(secret, key), "yaml")?.text ?? "")).toEqual({
    ...secret,
    stringData: { a: placeholder, n: 1 },
  });
  const all = { dataKey: blueKey.dataKey, masterKeys: ageMasterKey(blueKey) };
  expect(JSON.parse(stubText(encryptedJson({ a: "canary", n: 7 }, all), "json")?.text ?? "")).toEqual({
    a: placeholder,
    n: 1,
  });
  expect(stubText(encryptedDotenv({ A: "canary" }, all), "dotenv")?.text).toMatch(/^A=encrypted\w{11}\n$/);
});

test.each([
  ["last", `{"a":"${enc("YQ==")}","n":"${enc("Mg==", "int")}","sops":{"mac":"${enc("x")}","age":[{}]}}`],
  ["first", `{"sops":{"mac":"${enc("x")}","enc":"}]\\"}"},"a":"${enc("YQ==")}","n":"${enc("Mg==", "int")}"}`],
  ["between", `{"a":"${enc("YQ==")}",\n\t"sops" : {"mac" : "${enc("x")}"},\n\t"n":"${enc("Mg==", "int")}"}`],
])("JSON whose metadata come %s", (_, text) => {
  for (const format of ["json", "yaml"] as const) {
    expect(JSON.parse(stubText(text, format)?.text ?? "")).toEqual({ a: placeholder, n: 1 });
  }
});

test("only the SOPS fields of JSON's outermost object are removed", () => {
  const text = `{"x":{"sops":{"mac":"open"}},"y":"sops","a":"${enc("YQ==")}","sops":{"mac":"${enc("m")}"}}`;
  expect(JSON.parse(stubText(text, "json")?.text ?? "")).toEqual({
    x: { sops: { mac: "open" } },
    y: "sops",
    a: placeholder,
  });
});

test("dotenv and ini files get placeholders", () => {
  const env = `#${enc("c", "comment")}\n# open\nA=${enc("YQ==")}\nB=open\nsops_mac=${enc("m")}\nsops_version=3.8.1\n`;
  expect(stubText(env, "dotenv")?.text).toMatch(/^#\n# open\nA=encrypted\w{11}\nB=open\n$/);
  const ini = `[one]\nA = ${enc("YQ==")}\n[sops]\nmac = ${enc("m")}\nversion = 3.8.1\n[two]\nB = open\n`;
  expect(stubText(ini, "ini")?.text).toMatch(/^\[one\]\nA = encrypted\w{11}\n\[two\]\nB = open\n$/);
});

test.each([
  ["yaml", `a: ${enc("YQ==")}\n`],
  ["yaml", `sops: none\na: ${enc("YQ==")}\n`],
  ["yaml", `nested:\n  sops:\n    mac: x\na: ${enc("YQ==")}\n`],
  ["json", `{"a":"${enc("YQ==")}","b":{"sops":{"mac":"x"}}}`],
  ["json", `{"sops":{"mac":`],
  ["json", `["sops", {"mac": 1}]`],
  ["dotenv", `A=${enc("YQ==")}\n`],
  ["ini", `[sop]\nmac = ${enc("YQ==")}\n`],
] as const)("%s that SOPS did not write stays unchanged: %j", (format, text) => {
  expect(stubText(text, format)).toBeUndefined();
});

test.each([
  `${"[".repeat(1_000_000)}`,
  `{"sops":${'{"mac":'.repeat(500_000)}`,
  `${'{"sops":'.repeat(500_000)}`,
  "ENC[AES256_GCM,data:".repeat(200_000),
  `a: ENC[AES256_GCM,data:${"A".repeat(4_000_000)}`,
  `"${"\\".repeat(4_000_000)}`,
  `"${'\\"'.repeat(2_000_000)}`,
  `{${'"sops": '.repeat(500_000)}`,
  "a: &a [*a, *a]\n".repeat(200_000),
])("text that is built to take long does not (%#)", (text) => {
  for (const format of ["yaml", "json", "dotenv", "ini"] as const) stubText(`${text}\n${sops}`, format);
});

test("the file name extension decides about the format, as in kluctl", () => {
  expect(["a.yaml", "a.yml", "a.json", "a.env", "a.ini", ".env"].map(formatOf)).toEqual([
    "yaml",
    "yaml",
    "json",
    "dotenv",
    "ini",
    "dotenv",
  ]);
  expect(["yaml", "a.yaml.j2", "key.pem", "a.YAML"].map(formatOf)).toEqual([
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
});
