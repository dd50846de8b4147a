/** The figures of all measurements, each from the run that took it last: docs/performance.json, which the page is made of. */
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
  /** On which machine, with what, and what else kept it busy. */
  machine: z.array(z.tuple([z.string(), z.string()]).readonly()).readonly(),
  /** Fewer of everything: the figures mean little. */
  quick: z.boolean(),
  report: Report,
});
const Figures = z.array(Recorded);

export type Recorded = z.infer<typeof Recorded>;

/** What was measured before; nothing if that was never. */
export async function readRecord(file: string): Promise<readonly Recorded[]> {
  const text = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return "[]";
    throw error;
  });
  return Figures.parse(JSON.parse(text));
}

/** What was measured now takes the place of what was measured before, in the order of `names`. */
export function recordAnew(
  before: readonly Recorded[],
  now: readonly Recorded[],
  names: readonly string[],
): readonly Recorded[] {
  const all = [...now, ...before];
  return names.flatMap((name) => all.find((one) => one.name === name) ?? []);
}
