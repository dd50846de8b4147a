/** The results of kluctl commands. */
import type { JsonObject } from "../kit/json.ts";

export interface ObjectRef {
  readonly group?: string | undefined;
  readonly version?: string | undefined;
  readonly kind: string;
  readonly name: string;
  readonly namespace?: string | undefined;
}

/** Identifies an object; it is the same in any version of its API. */
export function refId({ group = "", kind, namespace = "", name }: ObjectRef): string {
  return JSON.stringify([group, kind, namespace, name]);
}

/** One changed field; `unifiedDiff` has no header lines. */
export interface FieldChange {
  readonly type: "insert" | "update" | "delete";
  readonly jsonPath: string;
  readonly oldValue?: unknown;
  readonly newValue?: unknown;
  readonly unifiedDiff?: string | undefined;
}

export interface ResultObject {
  readonly ref: ObjectRef;
  readonly changes: readonly FieldChange[];
  readonly new: boolean;
  readonly orphan: boolean;
  readonly deleted: boolean;
  readonly hook: boolean;
  /**
   * JSON exactly as kluctl wrote it: the object as rendered, as found in the cluster, and as the API server returned
   * it.
   */
  readonly rendered?: string | undefined;
  readonly remote?: string | undefined;
  readonly applied?: string | undefined;
}

/** The object's reference and its changes in kluctl's format: false and empty fields are omitted. */
export function describeObject({ ref, changes, new: isNew, orphan, deleted, hook }: ResultObject) {
  return {
    ref,
    ...(changes.length > 0 && { changes }),
    ...(isNew && { new: true }),
    ...(orphan && { orphan: true }),
    ...(deleted && { deleted: true }),
    ...(hook && { hook: true }),
  };
}

export interface ResultError {
  readonly ref: ObjectRef;
  readonly message: string;
}

/** The result of `diff`, `deploy`, `prune`, `delete` or `poke-images`. */
export interface CommandResult {
  /** The complete document as kluctl wrote it; it is stored with a few fields added. */
  readonly document: JsonObject;
  readonly objects: readonly ResultObject[];
  readonly errors: readonly ResultError[];
  readonly warnings: readonly ResultError[];
  /** Hash of the rendered objects in deployment order, equal to kluctl's own `lastObjectsHash`. */
  readonly objectsHash: string;
  /**
   * Values of Secrets that kluctl received masked: other parts of the result may contain copies. In memory only, never
   * stored.
   */
  readonly maskedValues?: readonly string[] | undefined;
}

export interface ValidateResult {
  readonly document: JsonObject;
  readonly ready: boolean;
  readonly errors: readonly ResultError[];
  readonly warnings: readonly ResultError[];
}

/** The summary of a kluctl command whose result is stored. */
export interface StoredCommand {
  readonly deployment: string;
  readonly command: string;
  readonly commit: string;
  /** Epoch milliseconds. */
  readonly startedAt: number;
  readonly endedAt: number;
  readonly errors: number;
  /** `1 new, 2 changed`; empty if nothing differed. */
  readonly changes: string;
  /** It was a dry run. */
  readonly dryRun?: boolean | undefined;
}

/** The fields of a stored CommandResult that decisions need; `document` is the complete summary. */
export interface CommandSummary {
  readonly document: JsonObject;
  readonly id: string;
  /** RFC 3339. */
  readonly endTime: string;
  readonly errors: number;
  readonly warnings: number;
  readonly newObjects: number;
  readonly changedObjects: number;
  readonly appliedHookObjects: number;
  readonly deletedObjects: number;
  readonly orphanObjects: number;
}

export interface ValidateSummary {
  readonly document: JsonObject;
  readonly id: string;
  readonly endTime: string;
  readonly errors: number;
  readonly warnings: number;
}

export interface DriftSummary {
  readonly document: JsonObject;
  readonly endTime: string;
}
