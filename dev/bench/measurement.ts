/** The types of a measurement and of its report, and functions that format numbers as cells. */
import type { Plot } from "./plot.ts";
import type { Stage } from "./stage.ts";

export interface Measurement {
  /** The name that `--only` takes. */
  readonly name: string;
  readonly title: string;
  run(stage: Stage): Promise<Report>;
}

export interface Report {
  /** The method, in a sentence or two. */
  readonly how: string;
  readonly tables: readonly Table[];
  /** Explanations of single figures, a sentence or two each. */
  readonly notes?: readonly string[] | undefined;
  readonly plots?: readonly Plot[] | undefined;
  readonly goals: readonly Goal[];
  readonly memory: readonly MemoryRow[];
}

export interface Table {
  /** The first column contains text, the others numbers. */
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

export interface Goal {
  readonly what: string;
  readonly wanted: string;
  readonly measured: string;
  readonly met: boolean;
  /** An explanation for readers if the goal is missed. */
  readonly why?: string | undefined;
}

/** A row of the table that collects all measurements of memory. */
export interface MemoryRow {
  readonly when: string;
  readonly serverBytes: number;
  readonly withChildrenBytes: number;
  /** Number of cores that the server and its children kept busy. */
  readonly cores: number;
}

/** Returns the quantile by the nearest rank, `undefined` without values; `share` is from 0 to 1. */
export function quantile(values: readonly number[], share: number): number | undefined {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(share * sorted.length) - 1))];
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const [low, high] = [sorted[(sorted.length - 1) >> 1], sorted[sorted.length >> 1]];
  return low === undefined || high === undefined ? NaN : (low + high) / 2;
}

/** Returns median, 90th percentile and maximum as cells. */
export function spread(values: readonly number[]): string[] {
  return [median(values), quantile(values, 0.9), quantile(values, 1)].map(milliseconds);
}

export function milliseconds(value: number | undefined): string {
  if (value === undefined || Number.isNaN(value)) return "-";
  return value >= 10_000 ? `${(value / 1_000).toFixed(1)} s` : `${value.toFixed(value < 10 && value > 0 ? 1 : 0)} ms`;
}

export function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(ms < 10_000 ? 2 : 0)} s`;
}

export function megabytes(bytes: number): string {
  return `${Math.round(bytes / 1024 / 1024)} MB`;
}
