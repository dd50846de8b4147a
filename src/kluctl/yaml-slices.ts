import { setImmediate as turn } from "node:timers/promises";
import {
  type DocumentOptions,
  parse as parseYaml,
  type ParseOptions,
  type ScalarTag,
  type SchemaOptions,
  type Tags,
} from "yaml";

const sliceLength = 128 * 1024;

/**
 * Checks key uniqueness in short texts only: kluctl never writes a key twice, and the check takes time that grows with
 * the square of the number of keys in a mapping.
 */
export function optionsFor(text: string): ParseOptions & DocumentOptions & SchemaOptions {
  return { uniqueKeys: text.length < 10_000, customTags: asGo };
}

/**
 * kluctl, written in Go, leaves a text unquoted if Go cannot read it as a number. Go's numbers end at 64 bits, so that
 * the commit `12e4567` or a long `0x…` is a text; this parser would read infinity, or a number that lost its digits.
 */
function asGo(tags: Tags): Tags {
  return tags.map((tag) => {
    if (!isNumberTag(tag)) return tag;
    const resolve: ScalarTag["resolve"] = (text, ...how) => withinGo(text, tag.resolve(text, ...how));
    return { ...tag, resolve };
  });
}

function isNumberTag(tag: Tags[number]): tag is ScalarTag {
  return typeof tag === "object" && "format" in tag && ["EXP", "HEX", "OCT"].includes(tag.format ?? "");
}

function withinGo(text: string, value: unknown): unknown {
  const most = /^0[xo]/.test(text) ? 2 ** 64 : Number.MAX_VALUE;
  return typeof value === "number" && Math.abs(value) > most ? text : value;
}

const parse = (text: string): unknown => parseYaml(text, optionsFor(text));

/**
 * Parses a YAML mapping without blocking the event loop: a result of 10 MB takes a second. The text is split before
 * each top-level key, and a long top-level list before an entry; kluctl writes both at the start of a line, and nothing
 * else there. Other YAML is parsed correctly too, but in fewer slices.
 */
export async function parseYamlInSlices(text: string): Promise<Record<string, unknown>> {
  if (text.length <= sliceLength) return toMapping(parse(text));
  const document: Record<string, unknown> = {};
  for (const section of text.split(/^(?=[A-Za-z])/m)) {
    const [entry] = Object.entries(await parseSection(section));
    if (entry) document[entry[0]] = entry[1];
  }
  return document;
}

async function parseSection(section: string): Promise<Record<string, unknown>> {
  const headEnd = section.indexOf("\n") + 1;
  const head = section.slice(0, headEnd);
  const isList = /^[A-Za-z]+:\n$/.test(head) && section.startsWith("- ", headEnd);
  if (!isList || section.length <= sliceLength) {
    await turn();
    return toMapping(parse(section));
  }
  const list: unknown[] = [];
  for (let start = headEnd; start < section.length;) {
    const next = section.indexOf("\n- ", start + sliceLength);
    const end = next === -1 ? section.length : next + 1;
    const entries = parse(section.slice(start, end));
    if (!Array.isArray(entries)) throw new Error("a list in the result cannot be read");
    for (const entry of entries) list.push(entry);
    start = end;
    await turn();
  }
  return { [head.slice(0, -2)]: list };
}

function toMapping(value: unknown): Record<string, unknown> {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new Error("it is not a YAML mapping");
}
