import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readRecord, mergeRecords, type Recorded } from "../../../dev/bench/record.ts";
import { toMarkdown } from "../../../dev/bench/report.ts";
import { useTempDir } from "../../support/world.ts";

const names = ["push", "idle", "intake"];

function measured(name: string, value: string, more: Partial<Recorded> = {}): Recorded {
  return {
    name,
    title: `About ${name}`,
    machine: [
      ["date", "2026-01-01"],
      ["CPU", "a fast one, 2 cores"],
      ["otherwise", "unrelated processes used 0.00 cores"],
      ["kluctl", "2.22.1"],
    ],
    quick: false,
    report: {
      how: `How ${name} is measured.`,
      tables: [{ head: ["what", "how much"], rows: [[name, value]] }],
      goals: [{ what: `${name} fast`, wanted: "fast", measured: value, met: true }],
      memory: [{ when: name, serverBytes: 1024 ** 2, withChildrenBytes: 1024 ** 2, cores: 1 }],
    },
    ...more,
  };
}

/** The text below each heading, by heading. */
function sectionsOf(page: string): Map<string, string> {
  const sections = page.split(/^## /m).map((text): [string, string] => {
    const end = text.indexOf("\n");
    return [text.slice(0, end), text.slice(end)];
  });
  return new Map(sections);
}

test("a single measurement replaces its own section of the page, and nothing else", () => {
  const before = names.map((name) => measured(name, "old"));
  const idle = measured("idle", "new", { quick: true });
  const pages = [before, mergeRecords(before, [idle], names)].map((record) => sectionsOf(toMarkdown(record)));
  const [old = new Map<string, string>(), page = new Map<string, string>()] = pages;

  expect([...page.keys()].slice(1)).toEqual([
    "Goals",
    "About push",
    "About idle",
    "About intake",
    "Memory and idle CPU",
    "CPU profile of the server",
  ]);
  for (const same of ["About push", "About intake"]) expect(page.get(same)).toBe(old.get(same));
  expect(page.get("About idle")).toContain("| idle | new |");
  expect(page.get("About idle")).toContain("a short run");
  expect(page.get("Goals")).toMatch(/push fast.*old.*\n.*idle fast.*new.*\n.*intake fast.*old/);
});

test("each section shows the date, and the machine if it was a different one", () => {
  const page = toMarkdown([
    measured("push", "1", {
      machine: [
        ["date", "2025-01-01"],
        ["CPU", "a slow one"],
        ["kluctl", "2.22.1"],
      ],
    }),
    measured("idle", "2"),
  ]);
  expect(page).toContain("| CPU | a fast one, 2 cores |");
  expect(page).toContain("_Measured on 2025-01-01; the load from unrelated processes is not known; CPU: a slow one._");
  expect(page).toContain("_Measured on 2026-01-01; unrelated processes used 0.00 cores._");
});

test("a record that was written is read back, and measurements that no longer exist are dropped", async () => {
  const file = join(await useTempDir(), "performance.json");
  expect(await readRecord(file)).toEqual([]);
  const record = [measured("push", "1"), measured("gone", "2")];
  await writeFile(file, JSON.stringify(record));
  expect(await readRecord(file)).toEqual(record);
  expect(mergeRecords(await readRecord(file), [measured("idle", "3")], names).map(({ name }) => name)).toEqual([
    "push",
    "idle",
  ]);
});

test("the page in the documentation is generated from the record", async () => {
  const docs = join(import.meta.dirname, "../../../docs");
  const page = await readFile(join(docs, "performance.md"), "utf8");
  expect(toMarkdown(await readRecord(join(docs, "performance.json")))).toBe(page);
});
