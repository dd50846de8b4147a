/** What kluctl gives back. */

export interface ObjectRef {
  readonly group?: string | undefined;
  readonly version?: string | undefined;
  readonly kind: string;
  readonly name: string;
  readonly namespace?: string | undefined;
}

/** One changed field; `unifiedDiff` has no header lines. */
export interface Change {
  readonly type: "insert" | "update" | "delete";
  readonly jsonPath: string;
  readonly oldValue?: unknown;
  readonly newValue?: unknown;
  readonly unifiedDiff?: string | undefined;
}

export interface ResultObject {
  readonly ref: ObjectRef;
  readonly changes: readonly Change[];
  readonly new: boolean;
  readonly orphan: boolean;
  readonly deleted: boolean;
  readonly hook: boolean;
  /** JSON exactly as kluctl wrote it: what the project says, what was there, what the API server answered. */
  readonly rendered?: string | undefined;
  readonly remote?: string | undefined;
  readonly applied?: string | undefined;
}

/** Its name and what became of it, as kluctl writes them: what is not so is left out. */
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

/** What `diff`, `deploy`, `prune`, `delete` or `poke-images` reports. */
export interface CommandResult {
  /** The whole document, as kluctl wrote it: what is stored is this, with a few fields added. */
  readonly document: Readonly<Record<string, unknown>>;
  readonly objects: readonly ResultObject[];
  readonly errors: readonly ResultError[];
  readonly warnings: readonly ResultError[];
  /** Hash over the rendered objects in deployment order, equal to kluctl's own `lastObjectsHash`. */
  readonly objectsHash: string;
  /** Of Secrets of which kluctl got masks only: what else the result says may hold copies. In memory alone, never stored. */
  readonly maskedValues?: readonly string[] | undefined;
}

export interface ValidateResult {
  readonly document: Readonly<Record<string, unknown>>;
  readonly ready: boolean;
  readonly errors: readonly ResultError[];
  readonly warnings: readonly ResultError[];
}

/** A command of kluctl's whose result was stored, as its summary has it. */
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
  /** It was only tried. */
  readonly dryRun?: boolean | undefined;
}
