/** Finds the KluctlDeployments that a merge adds, changes or removes among the objects of one deployment. Pure. */
import { type CommandResult, type Key, refId, type ResultObject } from "../../model.ts";
import type { Preview } from "../../model/report.ts";
import { secretsOf } from "../../redact/secrets-of.ts";
import { attribute, type DiffReferences } from "../attribute.ts";
import { type Undecrypted, valuesToHide, withoutEncrypted } from "../undecrypted.ts";

export interface ChildChange {
  readonly key: Key;
  /** The resource without the merge and with it, in JSON; absent if there is none. */
  readonly before?: string | undefined;
  readonly after?: string | undefined;
  /** The project does not contain it any more, but it stays, because the deployment does not prune. */
  readonly isKept: boolean;
}

export interface ChangedChildren {
  readonly changes: readonly ChildChange[];
  /** What must not be shown, as far as the deployment that contains them knows it. */
  readonly knownSecrets: readonly string[];
  /** Values of Secrets that kluctl received only as masks. */
  readonly maskedValues: readonly string[];
  /** Why some secrets may be unknown: then nothing of the children may be shown. */
  readonly concealed?: string | undefined;
}

export interface ComparedParent {
  /** The diff of the deployment that contains them. */
  readonly result: CommandResult;
  /** What is shown of that diff. */
  readonly found: Pick<Preview, "objects" | "concealed">;
  readonly knownSecrets: readonly string[];
  readonly maskedValues?: readonly string[] | undefined;
  readonly prune: boolean;
  readonly references?: DiffReferences | undefined;
  readonly undecrypted?: Undecrypted | undefined;
}

/** The kind whose objects are children. */
export function isChild({ ref }: Pick<ResultObject, "ref">): boolean {
  return ref.kind === "KluctlDeployment" && ref.group === "gitops.kluctl.io";
}

/**
 * Returns `undefined` if there are none. Only those that the preview shows by name count: the others changed without the
 * pull request, or their names are masked.
 */
export function findChangedChildren(compared: ComparedParent): ChangedChildren | undefined {
  const { result, found, prune, references, undecrypted, knownSecrets, maskedValues = [] } = compared;
  const shown = new Set(found.objects.filter(isChild).map(({ ref }) => refId(ref)));
  const touched = result.objects.filter((object) => isChild(object) && shown.has(refId(object.ref)));
  if (touched.length === 0) return undefined;
  const own = undecrypted
    ? withoutEncrypted(touched, undecrypted)
    : references
      ? attribute(touched, references).own
      : touched;
  return {
    changes: own.map((object) => toChange(object, prune)),
    knownSecrets: [
      ...knownSecrets,
      ...secretsOf(result).values.map((value) => value.toString("utf8")),
      ...(undecrypted ? valuesToHide(undecrypted) : []),
    ],
    maskedValues,
    concealed: found.concealed,
  };
}

function toChange(object: ResultObject, prune: boolean): ChildChange {
  const { ref, new: isNew, orphan, deleted, rendered, remote, applied } = object;
  const isGone = rendered === undefined && (orphan || deleted);
  return {
    key: { namespace: ref.namespace ?? "", name: ref.name },
    before: isNew ? undefined : remote,
    // The API server adds defaults, and fields that others own.
    after: isGone ? undefined : (applied ?? rendered),
    isKept: isGone && !deleted && !prune,
  };
}
