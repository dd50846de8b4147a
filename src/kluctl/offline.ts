/**
 * Renders untrusted projects from their files alone: no cluster, no login, no network. The result is what kluctl
 * prints.
 */
import { isRecord } from "../kit/json.ts";
import { readFile, writeFile } from "node:fs/promises";
import { parseAllDocuments } from "yaml";
import { NeedsMoreError, PrepareError } from "../errors.ts";
import type { CommandResult, ObjectRef, ResultObject } from "../model.ts";
import { inThread, largeText } from "../kit/in-thread.ts";
import type { ConfinedAccess } from "./confine.ts";
import type { Ended } from "./process.ts";
import type { ReadResult } from "./result.ts";
import { optionsFor } from "./yaml-slices.ts";

/** The error if isolation is incomplete. There is deliberately no weaker mode that a setting could enable. */
export const notIsolated =
  "forks are only rendered in isolation, and part of the isolation is missing here: see preview.isolation and `towline doctor`";

/** Access to no cluster at all. */
export const noAccess: ConfinedAccess = {
  kubeconfig: "apiVersion: v1\nkind: Config\n",
  env: {},
  ports: [],
  close: () => Promise.resolve(),
};

/** Limit for all objects of a project together. */
export const printedBytes = 16 * 1024 * 1024;

const separator = "---\n";

/**
 * Writes kluctl's output to the file that results are read from. Throws for longer output, of which only the end was
 * kept.
 */
export async function keepPrinted({ exitCode, stdout }: Ended, file: string): Promise<void> {
  if (exitCode !== 0) return;
  if (Buffer.byteLength(stdout) >= printedBytes) {
    throw new PrepareError(`its objects are more than ${printedBytes / 1024 ** 2} MiB`);
  }
  // `wx`: kluctl may write into this directory too. For a project without objects kluctl prints nothing.
  await writeFile(file, separator + stdout, { mode: 0o600, flag: "wx" });
}

/** Characters of YAML, which takes ten times as long to parse as other text. */
const largeYaml = largeText / 10;

export const readRender: ReadResult<CommandResult> = (file, size, signal) => {
  if (size > printedBytes + separator.length) throw new Error("kluctl's output exceeds the limit");
  return size > largeYaml ? inThread(import.meta.url, readRenderFile, [file], signal) : readRenderFile(file);
};

/** @inThread */
export async function readRenderFile(file: string): Promise<CommandResult> {
  const text = await readFile(file, "utf8");
  const objects = parseAllDocuments(text, optionsFor(text)).map((document): unknown => {
    if (document.errors.length > 0) throw new Error("an object in kluctl's output cannot be parsed");
    return document.toJS();
  });
  return { document: {}, objects: objects.filter(isRecord).map(toObject), errors: [], warnings: [], objectsHash: "" };
}

function toObject(rendered: Readonly<Record<string, unknown>>): ResultObject {
  const unchanged = { changes: [], new: false, orphan: false, deleted: false, hook: false };
  return { ref: refOf(rendered), ...unchanged, rendered: JSON.stringify(rendered) };
}

function refOf({ apiVersion, kind, metadata }: Readonly<Record<string, unknown>>): ObjectRef {
  const [, group, version] = /^(?:(.*)\/)?([^/]*)$/.exec(textOf(apiVersion)) ?? [];
  const { name, namespace } = isRecord(metadata) ? metadata : {};
  return {
    ...(group && { group }),
    ...(version && { version }),
    kind: textOf(kind),
    name: textOf(name),
    ...(textOf(namespace) && { namespace: textOf(namespace) }),
  };
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Go's error messages for what the jail denies: resolving a name, and connecting to anything but a proxy. */
export const noNetwork = /socket: address family not supported|connect: (?:permission denied|operation not permitted)/;

const needs = [
  ["cluster", /loading vars from cluster is disabled/],
  ["network", noNetwork],
] as const;

export function explainOffline(error: PrepareError): PrepareError {
  const found = needs.find(([, words]) => words.test(error.message));
  return found ? new NeedsMoreError(found[0], error.message, { cause: error }) : error;
}
