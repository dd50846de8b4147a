/** What a measurement is, and what it hands back to be printed. Types, and the few functions that make cells of numbers. */
import type { Plot } from "./plot.ts";
import type { Stage } from "./stage.ts";

export interface Measurement {
  /** For `--only`. */
  readonly name: string;
  readonly title: string;
  run(stage: Stage): Promise<Report>;
}

export interface Report {
  /** How it was measured, in a sentence or two. */
  readonly how: string;
  readonly tables: readonly Table[];
  /** What has to be said of single figures, a sentence or two each. */
  readonly notes?: readonly string[] | undefined;
  readonly plots?: readonly Plot[] | undefined;
  readonly goals: readonly Goal[];
  readonly memory: readonly MemoryRow[];
}

export interface Table {
  /** The first column is text, the others are numbers. */
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

export interface Goal {
  readonly what: string;
  readonly wanted: string;
  readonly measured: string;
  readonly met: boolean;
  /** For people who wonder, where it is missed. */
  readonly why?: string | undefined;
}

/** Collected over all measurements into one table. */
export interface MemoryRow {
  readonly when: string;
  readonly serverBytes: number;
  readonly withChildrenBytes: number;
  /** Cores that the server and its children kept busy. */
  readonly cores: number;
}

/** `undefined` for no values; `share` from 0 to 1, by the nearest rank. */
export function quantile(values: readonly number[], share: number): number | undefined {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(share * sorted.length) - 1))];
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const [low, high] = [sorted[(sorted.length - 1) >> 1], sorted[sorted.length >> 1]];
  return low === undefined || high === undefined ? NaN : (low + high) / 2;
}

/** Median, 90th percentile and maximum, as cells. */
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
