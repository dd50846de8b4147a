/** The diff of one object as text, without secrets. Pure. */
import { isRecord, parseJson } from "../kit/json.ts";
import { diffLines } from "../kit/line-diff.ts";
import type { FieldChange, ResultObject } from "../model.ts";
import type { Redactor } from "../redact/redactor.ts";
import { mask } from "../redact/shapes.ts";
import { cutLine, makeVisible } from "./visible-text.ts";
import { toYamlLines } from "./yaml-lines.ts";

export interface DiffText {
  readonly diff: string;
  readonly linesLeftOut: number;
  /** Whether lines or a part of one are missing. */
  readonly partial: boolean;
}

const maxLines = 200;
const maxLength = 16_000;
const maxLineLength = 400;
/** Of a manifest, which is only read on request. */
const [maxManifestLines, maxManifestLength, longestManifestLine] = [2_000, 64_000, 2_000];
/** Unchanged lines that are shown around a change. */
const contextLines = 3;

/**
 * How much text may be compared for all objects of a deployment. Finding differences and secrets takes up to half a
 * second per million characters, during which the server does nothing else.
 */
export const maxComparedLength = 4_000_000;

export function comparedLength(object: ResultObject): number {
  return (object.remote?.length ?? 0) + (object.applied?.length ?? object.rendered?.length ?? 0);
}

export function diffObject(object: ResultObject, redactor: Redactor): DiffText {
  const lines = object.new
    ? signed("+", sideOf(asWritten(parseJson(object.rendered ?? "") ?? {}), redactor).shown)
    : object.changes.flatMap((change) => diffChange(change, redactor));
  if (lines.length === 0) return { diff: "", linesLeftOut: 0, partial: false };
  // Many more than are shown, because some of them collapse into one; of the others only the number matters.
  const near = lines.slice(0, 5 * maxLines);
  const whole = redactTogether(near, redactor).map(makeVisible);
  const shown = whole.map((line) => cutLine(line, maxLineLength));
  const { diff, linesLeftOut: fitting } = fit(shown.filter((line, i) => line !== shown[i - 1] || !isOnlyMask(line)));
  const linesLeftOut = fitting + lines.length - near.length;
  return { diff, linesLeftOut, partial: linesLeftOut > 0 || shown.some((line, i) => line !== whole[i]) };
}

/**
 * The object as the project renders it, without secrets. In the order of kluctl's own output: texts in which a guessed value
 * would be recognized by its mask are found in that order, too (see said-values.ts).
 */
export function manifestOf({ rendered = "" }: ResultObject, redactor: Redactor) {
  const lines = sideOf(parseJson(rendered) ?? {}, redactor).shown.map((line) =>
    cutLine(makeVisible(line), longestManifestLine),
  );
  const { diff: text, linesLeftOut } = fit(lines, maxManifestLines, maxManifestLength);
  return { text, linesLeftOut };
}

function diffChange({ type, jsonPath, oldValue, newValue }: FieldChange, redactor: Redactor): string[] {
  const path = ` ${redactor.text(jsonPath.replace(/^\$?\.?/, "")).replaceAll(/\s+/g, " ")}:`;
  const before = type === "insert" ? nothing : sideOf(oldValue, redactor);
  const after = type === "delete" ? nothing : sideOf(newValue, redactor);
  // The raw lines are compared and the redacted lines shown, so that a change in a hidden line is visible.
  const all = diffLines(before.raw, after.raw);
  const near = all.map((_, i) => all.slice(Math.max(i - contextLines, 0), i + contextLines + 1).some(isChanged));
  const lines = all.flatMap(({ sign, at }, i) => {
    if (near[i]) return [`${sign}  ${(sign === "-" ? before : after).shown[at] ?? mask}`];
    return i === 0 || near[i - 1] ? ["   …"] : [];
  });
  return [path, ...lines];
}

function isChanged({ sign }: { readonly sign: string }): boolean {
  return sign !== " ";
}

interface Side {
  readonly raw: readonly string[];
  /** As many lines as `raw`, without secrets. */
  readonly shown: readonly string[];
}

const nothing: Side = { raw: [], shown: [] };

/** Redacted before it is split into lines: a secret may span several of them. */
function sideOf(value: unknown, redactor: Redactor): Side {
  const raw = toYamlLines(value, { leaf: same, key: same, deep: same });
  // Redacts each text before our own quotes and escapes are added, and then the whole.
  const lines = toYamlLines(value, {
    leaf: (text) => redactor.text(redactor.leaf(text)),
    key: (text) => redactor.text(text),
    deep: () => "(nested too deeply to be shown)",
  });
  return { raw, shown: redactor.text(lines.join("\n")).split("\n") };
}

function same(text: string): string {
  return text;
}

function signed(sign: string, lines: readonly string[]): string[] {
  return lines.map((line) => `${sign}  ${line}`);
}

/** Redacts once more, with paths and both sides together, as they will be shown. The signs are kept. */
function redactTogether(lines: readonly string[], redactor: Redactor): string[] {
  const redacted = redactor.text(lines.join("\n")).split("\n");
  return redacted.map((line, i) => {
    const sign = lines[i]?.[0] ?? " ";
    return line.startsWith(sign) ? line : `${sign}${line}`;
  });
}

function isOnlyMask(line: string): boolean {
  return line.slice(1).trim() === mask;
}

function fit(lines: readonly string[], mostLines = maxLines, most = maxLength): Omit<DiffText, "partial"> {
  let length = 0;
  const tooMany = lines.findIndex((line, i) => i >= mostLines || (length += line.length + 1) > most);
  const kept = tooMany === -1 ? lines : lines.slice(0, tooMany);
  return { diff: kept.join("\n"), linesLeftOut: lines.length - kept.length };
}

/** What kluctl and Flux add to every object to find it again. */
const addedLabel = /^(?:[\w-]+\.)?kluctl\.io\/|^kustomize\.toolkit\.fluxcd\.io\/(?:name|namespace)$/;

/**
 * In the usual order of fields, and without what is added to every object to find it again. The namespace is in the
 * title; here it would prevent grouping with the same object of other deployments.
 */
function asWritten(object: unknown): unknown {
  if (!isRecord(object) || !isRecord(object["metadata"])) return object;
  const metadata = Object.entries(object["metadata"]).flatMap(([name, value]) => {
    if (name === "namespace" || (name === "creationTimestamp" && value === null)) return [];
    if ((name !== "labels" && name !== "annotations") || !isRecord(value)) return [[name, value]];
    const own = Object.entries(value).filter(([key]) => !addedLabel.test(key));
    return own.length === 0 ? [] : [[name, Object.fromEntries(own)]];
  });
  const { apiVersion, kind, metadata: _, ...rest } = object;
  return { apiVersion, kind, metadata: Object.fromEntries(metadata) as unknown, ...rest };
}
