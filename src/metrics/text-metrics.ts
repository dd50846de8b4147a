/**
 * Metrics that cache their text, for values of every deployment: prom-client formats every line again at each scrape,
 * which for a thousand deployments blocks the event loop for a third of a second.
 */
import { type Metric, Registry } from "prom-client";

/** Name → value, in the order of the output. */
export type Labels = Readonly<Record<string, string>>;

interface Named {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly string[];
}

interface TextMetric extends Named {
  readonly type: "gauge" | "histogram";
  /** All its lines in the exposition format. */
  lines(): readonly string[];
}

/** What prom-client stores as a metric. */
type Kept = Metric | TextMetric;

/** prom-client's registry, extended by metrics that format themselves. */
export class TextRegistry extends Registry {
  addText(metric: TextMetric): void {
    const withoutValues = { ...metric, get: () => Promise.resolve({ ...metric, values: [] }) };
    this.registerMetric(withoutValues as unknown as Metric);
  }

  /**
   * The output of `metrics` in pieces: for thousands of deployments it is megabytes, which need not be in memory at
   * once.
   */
  async *pieces(): AsyncGenerator<string> {
    let first = true;
    for (const metric of this.getMetricsAsArray() as readonly unknown[] as readonly Kept[]) {
      if (!first) yield "\n\n";
      first = false;
      if ("lines" in metric) yield* inPieces(linesOf(metric));
      else yield await this.getMetricsAsString(metric);
    }
    yield "\n";
  }

  /** Called by `metrics` for each metric, and by `getSingleMetricAsString` for one. */
  async getMetricsAsString(metric: Kept): Promise<string> {
    if ("lines" in metric) return linesOf(metric).join("\n");
    const base = Registry.prototype as unknown as { getMetricsAsString(metric: Metric): Promise<string> };
    return base.getMetricsAsString.call(this, metric);
  }
}

function linesOf(metric: TextMetric): string[] {
  const { name, help, type } = metric;
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...metric.lines()];
}

/** Each line belongs to one deployment; this many lines have some tens of kilobytes. */
const linesAtOnce = 100;

function* inPieces(lines: readonly string[]): Generator<string> {
  for (let from = 0; from < lines.length; from += linesAtOnce) {
    yield (from === 0 ? "" : "\n") + lines.slice(from, from + linesAtOnce).join("\n");
  }
}

export type Sample = readonly [value: number, labels: Labels];

/**
 * A gauge that reads its values from immutable objects: each object is read once, and again only when `version`
 * changes.
 */
export function addTextGauge<Thing extends object>(
  registry: TextRegistry,
  { name, help, labelNames }: Named,
  source: {
    readonly all: () => readonly Thing[];
    readonly version?: () => unknown;
    readonly read: (thing: Thing) => readonly Sample[];
  },
): void {
  let known = new WeakMap<Thing, string>();
  let version: unknown;
  registry.addText({
    name,
    help,
    labelNames,
    type: "gauge",
    lines() {
      const now = source.version?.();
      if (now !== version) known = new WeakMap();
      version = now;
      return source.all().flatMap((thing) => {
        let text = known.get(thing);
        if (text === undefined) {
          text = source
            .read(thing)
            .map(([value, labels]) => `${name}{${labelText(labels)}} ${value}`)
            .join("\n");
          known.set(thing, text);
        }
        return text === "" ? [] : text;
      });
    },
  });
}

export interface TextHistogram {
  observe(labels: Labels, value: number): void;
  remove(labels: Labels): void;
}

interface Counts {
  /** By bucket; the last one counts values above all bounds. */
  readonly counts: Uint32Array;
  sum: number;
  text: string | undefined;
}

export function addTextHistogram(
  registry: TextRegistry,
  { name, help, labelNames, buckets }: Named & { readonly buckets: readonly number[] },
): TextHistogram {
  const all = new Map<string, Counts>();
  registry.addText({
    name,
    help,
    labelNames,
    type: "histogram",
    lines: () => Array.from(all, ([labels, counts]) => (counts.text ??= toText(labels, counts))),
  });

  function toText(labels: string, { counts, sum }: Counts): string {
    let count = 0;
    const lines = [...counts].map((more, i) => {
      count += more;
      return `${name}_bucket{le="${buckets[i] ?? "+Inf"}",${labels}} ${count}`;
    });
    return [...lines, `${name}_sum{${labels}} ${sum}`, `${name}_count{${labels}} ${count}`].join("\n");
  }

  return {
    observe(labels, value) {
      const key = labelText(labels);
      const known = all.get(key) ?? { counts: new Uint32Array(buckets.length + 1), sum: 0, text: undefined };
      all.set(key, known);
      const bucket = buckets.findIndex((most) => value <= most);
      known.counts[bucket === -1 ? buckets.length : bucket]!++;
      known.sum += value;
      known.text = undefined;
    },
    remove: (labels) => void all.delete(labelText(labels)),
  };
}

function labelText(labels: Labels): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}="${escape(value)}"`)
    .join(",");
}

function escape(value: string): string {
  return /[\\\n"]/.test(value) ? value.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll('"', '\\"') : value;
}
