/** Reads the result files of kluctl: a CommandResult with compacted objects, or a ValidateResult. */
import { readFile } from "node:fs/promises";
import { z } from "zod";
import type { CommandResult, ResultObject, ValidateResult } from "../model.ts";
import { inThread, largeText } from "../kit/in-thread.ts";
import { ObjectRefSchema } from "../model/object-ref-schema.ts";
import { applyDelta } from "./delta.ts";
import { type DeploymentTree, objectsHash } from "./objects-hash.ts";
import { parseYamlInSlices } from "./yaml-slices.ts";

const errors = z
  .array(z.object({ ref: ObjectRefSchema, message: z.string() }))
  .nullish()
  .transform((list) => list ?? []);

const change = z.object({
  type: z.enum(["insert", "update", "delete"]),
  jsonPath: z.string(),
  // An added field has no old value, a removed one no new value. (zod requires a plain `unknown` to be present.)
  oldValue: z.unknown().optional(),
  newValue: z.unknown().optional(),
  unifiedDiff: z.string().optional(),
});

const compactedObject = z.object({
  ref: ObjectRefSchema,
  changes: z.array(change).nullish(),
  new: z.boolean().optional(),
  orphan: z.boolean().optional(),
  deleted: z.boolean().optional(),
  hook: z.boolean().optional(),
  rendered: z.string().optional(),
  remote: z.string().optional(),
  applied: z.string().optional(),
});

const tree: z.ZodType<DeploymentTree> = z.object({
  deployments: z
    .array(
      z.object({ renderedObjects: z.array(ObjectRefSchema).nullish(), renderedInclude: z.lazy(() => tree).nullish() }),
    )
    .nullish(),
});

const commandResult = z.object({
  compactedObjects: z.array(compactedObject).nullish(),
  deployment: tree.nullish(),
  errors,
  warnings: errors,
});

const validateResult = z.object({ ready: z.boolean(), errors, warnings: errors });

/** Reads a result file without blocking the event loop. */
export type ReadResult<T> = (file: string, size: number, signal: AbortSignal) => Promise<T>;

export const readCommandResult: ReadResult<CommandResult> = (file, size, signal) =>
  size > largeText ? inThread(import.meta.url, readCommandFile, [file], signal) : readCommandFile(file);

export const readValidateResult: ReadResult<ValidateResult> = (file, size, signal) =>
  size > largeText ? inThread(import.meta.url, readValidateFile, [file], signal) : readValidateFile(file);

/** @inThread */
export async function readCommandFile(file: string): Promise<CommandResult> {
  return parseCommandResult(await readFile(file, "utf8"));
}

/** @inThread */
export async function readValidateFile(file: string): Promise<ValidateResult> {
  return parseValidateResult(await readFile(file, "utf8"));
}

export async function parseCommandResult(text: string): Promise<CommandResult> {
  return toCommandResult(await parseYamlInSlices(text));
}

/** Takes the document as kluctl wrote it. */
export function toCommandResult(document: CommandResult["document"]): CommandResult {
  const { compactedObjects, deployment, ...rest } = parseWith(commandResult, document);
  const objects = (compactedObjects ?? []).map(toResultObject);
  const rendered = objects.flatMap((object) => object.rendered ?? []);
  return { document, objects, objectsHash: objectsHash(deployment ?? {}, rendered), ...rest };
}

export async function parseValidateResult(text: string): Promise<ValidateResult> {
  const document = await parseYamlInSlices(text);
  return { document, ...parseWith(validateResult, document) };
}

/** The error message names only paths, because a result contains secrets. */
function parseWith<T>(schema: z.ZodType<T>, document: unknown): T {
  const { data, error } = schema.safeParse(document);
  if (error) throw new Error(`unexpected ${error.issues.map(({ path }) => path.join(".") || "document").join(", ")}`);
  return data as T;
}

/**
 * `rendered`, `remote` and `applied` each hold either the full text or a delta against the nearest field before it that
 * is present.
 */
function toResultObject(compacted: z.infer<typeof compactedObject>): ResultObject {
  let previous: string | undefined;
  const expand = (text: string | undefined): string | undefined => {
    if (!text) return undefined;
    if (text.startsWith("full: ")) return (previous = text.slice("full: ".length));
    if (!text.startsWith("delta: ")) throw new Error("an object is neither whole nor a delta");
    return (previous = applyDelta(previous ?? "", text.slice("delta: ".length)));
  };
  const { changes, new: isNew = false, orphan = false, deleted = false, hook = false } = compacted;
  const rendered = expand(compacted.rendered);
  const remote = expand(compacted.remote);
  const applied = expand(compacted.applied);
  return { ref: compacted.ref, changes: changes ?? [], new: isNew, orphan, deleted, hook, rendered, remote, applied };
}
