/** What a hostile branch attempts against the server itself, compared with the table in docs/preview-security.md. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { serverAttacks } from "../../support/server-attacks.ts";

const page = join(import.meta.dirname, "../../../docs/preview-security.md");

test("the documentation has a row for each attempt, and says what stops it", async () => {
  const [, table = ""] =
    /^These attacks aim at the server itself[^|]*\n\n((?:\|.*\n)+)/m.exec(await readFile(page, "utf8")) ?? [];
  const rows = table
    .trimEnd()
    .split("\n")
    .slice(2)
    .map((line) => line.split("|").map((cell) => cell.trim()));
  expect(rows.map(([, attempt]) => attempt).toSorted()).toEqual(Object.keys(serverAttacks).toSorted());
  for (const [, , defence] of rows) expect(defence).not.toBe("");
});

test.each(Object.entries(serverAttacks))("a branch cannot %s", async (_, attack) => {
  expect(await attack()).toBe("refused");
});
