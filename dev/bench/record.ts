/** The record of the latest run of each measurement: docs/performance.json, from which the page is generated. */
import { readFile } from "node:fs/promises";
import { z } from "zod";

const Row = z.array(z.string()).readonly();
const Table = z.object({ head: Row, rows: z.array(Row).readonly() });
const Plot = z.object({
  name: z.string().regex(/^[a-z-]+$/),
  title: z.string(),
  x: z.string(),
  y: z.string(),
  points: z.array(z.tuple([z.number(), z.number()]).readonly()).readonly(),
});
const Goal = z.object({
  what: z.string(),
  wanted: z.string(),
  measured: z.string(),
  met: z.boolean(),
  why: z.string().optional(),
});
const MemoryRow = z.object({
  when: z.string(),
  serverBytes: z.number(),
  withChildrenBytes: z.number(),
  cores: z.number(),
});
const Report = z.object({
  how: z.string(),
  tables: z.array(Table).readonly(),
  notes: z.array(z.string()).readonly().optional(),
  plots: z.array(Plot).readonly().optional(),
  goals: z.array(Goal).readonly(),
  memory: z.array(MemoryRow).readonly(),
});
const Recorded = z.object({
  name: z.string(),
  title: z.string(),
  /** The machine, the versions, and the load from unrelated processes. */
  machine: z.array(z.tuple([z.string(), z.string()]).readonly()).readonly(),
  /** A short run with imprecise figures. */
  quick: z.boolean(),
  report: Report,
});
const Figures = z.array(Recorded);

export type Recorded = z.infer<typeof Recorded>;

/** The recorded measurements; empty if the file does not exist. */
export async function readRecord(file: string): Promise<readonly Recorded[]> {
  const text = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return "[]";
    throw error;
  });
  return Figures.parse(JSON.parse(text));
}

/** New measurements replace the recorded ones of the same name; the result is in the order of `names`. */
export function mergeRecords(
  before: readonly Recorded[],
  now: readonly Recorded[],
  names: readonly string[],
): readonly Recorded[] {
  const all = [...now, ...before];
  return names.flatMap((name) => all.find((one) => one.name === name) ?? []);
}
