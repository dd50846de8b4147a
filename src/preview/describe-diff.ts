/** Converts kluctl's diff to a preview: without secrets, most important first, and limited in size. Pure. */
import { UnreadableResultError } from "../errors.ts";
import {
  annotation,
  type CommandResult,
  type ObjectRef,
  refId,
  type ResultError,
  type ResultObject,
} from "../model.ts";
import { redactorOf, type Redactor } from "../redact/redactor.ts";
import { isSecret } from "../redact/secrets-of.ts";
import { lengthOfTexts, weightOf, weightOfSecrets } from "../redact/weight.ts";
import {
  mapUncounted,
  type Preview,
  type PreviewObject,
  riskKinds,
  type UncountedChanges,
  type UncountedKind,
} from "../model/report.ts";
import type { DeploymentManifests } from "../model/manifests.ts";
import { attribute, type DiffReferences } from "./attribute.ts";
import { comparedLength, diffObject, manifestOf, maxComparedLength } from "./object-diff.ts";
import { parseIgnoredFields, separateNoise } from "./noise.ts";
import { findKept } from "./kept.ts";
import { digestOf, errorId } from "./reference-diff.ts";
import { compareText } from "../kit/compare-text.ts";
import { inThread, largeText, ThreadError } from "../kit/in-thread.ts";
import { findRisks, lengthOfStates } from "./risks.ts";
import { createNeighbours } from "./risks/budgets.ts";
import { refusesChange } from "./risks/refused.ts";
import { withoutSaid } from "./said-values.ts";
import { secretKeysOf } from "./secret-keys.ts";
import { type Undecrypted, valuesToHide, withoutEncrypted } from "./undecrypted.ts";
import { cutLine, makeVisible } from "./visible-text.ts";

type Description = Pick<
  Preview,
  "counts" | "objects" | "objectsLeftOut" | "errors" | "warnings" | UncountedKind | "concealed"
> & {
  /** Of the objects that are new or changed, if they were requested and may be shown. */
  readonly manifests?: Omit<DeploymentManifests, "deployment"> | undefined;
};

interface DescribeOptions {
  /** What must not be shown besides the values of the result's Secrets, such as git credentials. */
  readonly knownSecrets: readonly string[];
  /** Values of Secrets that kluctl received only as masks. */
  readonly maskedValues?: readonly string[] | undefined;
  /** Whether the deployment deletes objects that are no longer in its project. */
  readonly prune: boolean;
  /** Where placeholders replace encrypted content. */
  readonly undecrypted?: Undecrypted | undefined;
  /** The deployment's annotation that names fields of which no change is counted. */
  readonly ignoreChanges?: string | undefined;
  /** Whether the manifests are wanted as well. */
  readonly manifests?: boolean | undefined;
  /** What would change without the merge. `undefined`: every change counts as one of the merge. */
  readonly references?: DiffReferences | undefined;
}

const maxObjects = 500;
/** Of the changes that are not the pull request's. */
const maxUncountedObjects = 100;
const maxDiffLength = 256_000;
/** Text of manifests, before and after secrets in it are masked. */
const maxManifestsLength = 256_000;
const maxMessages = 50;
const maxMessageLength = 2_000;
/** Parsing a text takes a small part of the time that the search for secrets in it takes. */
const parsedPerSearched = 20;

/**
 * `describeDiff` without blocking the event loop. Rejects when the signal aborts, and with an UnreadableResultError: no
 * change is known then, which must not look like no change.
 */
export async function describeSafely(
  result: CommandResult,
  options: DescribeOptions,
  signal: AbortSignal,
): Promise<Description> {
  try {
    if (weigh(result, options) <= largeText) return describeDiff(result, options);
    const { undecrypted } = options;
    const parts = { ...result, document: { deployment: result.document["deployment"] } };
    const known = undecrypted && {
      reference: undecrypted.reference && { ...undecrypted.reference, document: {} },
    };
    return await inThread(import.meta.url, describeDiff, [parts, { ...options, undecrypted: known }], signal);
  } catch (error) {
    signal.throwIfAborted();
    // Only the messages of the thread itself contain no content.
    const why = error instanceof ThreadError ? `: ${error.message}` : "";
    throw new UnreadableResultError(`kluctl's result could not be read${why}`);
  }
}

/** How much there is to process, in characters to search for secrets. */
function weigh(
  result: CommandResult,
  { knownSecrets, maskedValues = [], undecrypted, references, manifests }: DescribeOptions,
): number {
  const reference = undecrypted?.reference;
  const renderedLength = () => toldObjects(result).reduce((sum, { rendered = "" }) => sum + rendered.length, 0);
  const own = maskedValues.length > 0 ? lengthOfTexts({ ...result, objects: toldObjects(result) }) : 0;
  return (
    own +
    (manifests ? Math.min(renderedLength(), maxManifestsLength) : 0) +
    weightOf(result) +
    lengthOfStates(result.objects) / parsedPerSearched +
    weightOfSecrets([...knownSecrets, ...maskedValues]) +
    (reference ? weightOf(reference) : 0) +
    (references ? (references.base.size + (references.deployed?.size ?? 0)) / parsedPerSearched : 0)
  );
}

/**
 * If the secrets of a result cannot be determined, only safe parts are reported. Throws if it cannot be parsed. Takes
 * seconds for a few megabytes.
 */
export function describeDiff(
  result: CommandResult,
  { knownSecrets, maskedValues = [], undecrypted, ...known }: DescribeOptions,
): Description {
  const masked = withoutSaid(maskedValues, toldObjects(result));
  const hidden = [...knownSecrets, ...masked, ...(undecrypted ? valuesToHide(undecrypted) : [])];
  const redactor = redactorOf(result, hidden);
  const objects = undecrypted ? withoutEncrypted(result.objects, undecrypted) : result.objects;
  const description = describe({ ...result, objects }, redactor, known);
  const whyIncomplete = redactor.whyIncomplete();
  return whyIncomplete === undefined ? description : conceal(description, whyIncomplete);
}

/** The objects whose own text a comment may show, or an error may quote. */
function toldObjects({ objects, errors, warnings }: CommandResult): ResultObject[] {
  const messages = [...errors, ...warnings];
  return objects.filter(
    (object) => object.new || object.changes.length > 0 || messages.some(({ ref }) => isSame(ref, object.ref)),
  );
}

type Known = Pick<DescribeOptions, "prune" | "ignoreChanges" | "references" | "manifests">;

function describe(
  result: CommandResult,
  redactor: Redactor,
  { prune, ignoreChanges = "", references, manifests }: Known,
): Description {
  const kept = references ? findKept(result, references.base) : [];
  const { own, drifted, undeployed } = references
    ? attribute(result.objects, references)
    : { own: result.objects, drifted: [], undeployed: [] };
  const ignored = parseIgnoredFields(ignoreChanges);
  const { told, noise } = separateNoise(own, ignored.fields);
  const isOld = (error: ResultError) => references?.base.errors.has(errorId(error)) === true;
  // The same error may conceal another change: the API server refused the whole object.
  const isUnchanged = ({ ref }: ResultError) => {
    const known = references?.base.objects.get(refId(ref))?.rendered;
    const object = result.objects.find((each) => isSame(ref, each.ref));
    return known !== undefined && digestOf(object?.rendered) === known;
  };
  const newErrors = result.errors.filter((error) => !isOld(error) || !isUnchanged(error));
  const near = createNeighbours(result.objects);
  const found = told.flatMap((object) => {
    const errors = newErrors.filter(({ ref }) => isSame(ref, object.ref));
    const action = actionOf(object, errors, prune);
    return action === undefined ? [] : [{ object, action, risks: findRisks({ object, action, errors, near }) }];
  });
  const sorted = found.toSorted(byImportance);
  const count = (action: PreviewObject["action"]) => found.filter((each) => each.action === action).length;
  return {
    counts: {
      new: count("new"),
      changed: count("changed"),
      deleted: count("deleted"),
      orphan: count("orphan"),
      errors: result.errors.length,
      warnings: result.warnings.length + ignored.problems.length,
    },
    objects: describeObjects(sorted.slice(0, maxObjects), redactor),
    objectsLeftOut: Math.max(sorted.length - maxObjects, 0),
    errors: describeMessages(result.errors, redactor, isOld),
    warnings: [
      ...ignored.problems.map((problem) => ({ message: makeVisible(`${annotation.ignoreChanges}: ${problem}`) })),
      ...describeMessages(result.warnings, redactor),
    ],
    ...describeUncounted("drifted", drifted, redactor, prune),
    ...describeUncounted("undeployed", undeployed, redactor, prune),
    ...withoutValues(describeUncounted("kept", kept, redactor, prune)),
    ...describeUncounted("noise", noise, redactor, prune),
    ...(manifests && { manifests: describeManifests(sorted.slice(0, maxObjects), redactor) }),
  };
}

/** Of a Secret, only its keys may be shown. */
function describeManifests(found: readonly Found[], redactor: Redactor): NonNullable<Description["manifests"]> {
  const wanted = found.filter(
    ({ object, action }) =>
      (action === "new" || action === "changed") && object.rendered !== undefined && !isSecret(object.ref),
  );
  let length = 0;
  const fitting = wanted.filter(({ object }) => (length += object.rendered?.length ?? 0) <= maxManifestsLength);
  const objects = fitting.map(({ object }) => ({
    ref: describeRef(object.ref, redactor),
    ...manifestOf(object, redactor),
  }));
  return { objects, leftOut: wanted.length - objects.length };
}

/**
 * Without risks: they are not the author's, and may have been accepted. Without orphans that are not pruned: no deploy does
 * anything to them.
 */
function describeUncounted(
  name: UncountedKind,
  objects: readonly ResultObject[],
  redactor: Redactor,
  prune: boolean,
): { readonly [_ in typeof name]?: UncountedChanges } {
  const found = objects.flatMap((object): Found[] => {
    const action = actionOf(object, [], prune);
    return action === undefined || action === "orphan" ? [] : [{ object, action, risks: [] }];
  });
  if (found.length === 0) return {};
  const shown = found.toSorted(byImportance).slice(0, maxUncountedObjects);
  const described = describeObjects(shown, redactor);
  return { [name]: { objects: described, objectsLeftOut: found.length - shown.length } };
}

/** Those of the base's own Secrets are not known, so its values are not shown. */
function withoutValues(lists: Pick<Preview, UncountedKind>): Pick<Preview, UncountedKind> {
  return mapUncounted(lists, (changes) => ({ ...changes, objects: namesOf(changes.objects) }));
}

function namesOf(objects: readonly PreviewObject[]): PreviewObject[] {
  return objects.map(({ ref, action, risks }) => ({ ref, action, risks }));
}

type Found = Pick<PreviewObject, "action" | "risks"> & { readonly object: ResultObject };

/**
 * Hooks run with every deploy, and are often gone afterwards: only a change of a hook that exists counts as a change.
 */
function actionOf(
  object: ResultObject,
  errors: readonly ResultError[],
  prune: boolean,
): PreviewObject["action"] | undefined {
  const changed = object.changes.length > 0 ? "changed" : undefined;
  if (object.hook) return changed;
  if (object.deleted) return "deleted";
  if (object.orphan) return prune ? "deleted" : "orphan";
  if (object.new) return "new";
  // An object whose dry run the API server refused has no changes in the result.
  return changed ?? (errors.some(refusesChange) ? "changed" : undefined);
}

function describeObjects(found: readonly Found[], redactor: Redactor): PreviewObject[] {
  let length = 0;
  let compared = 0;
  return found.map(({ object, action, risks }) => {
    const described = { ref: describeRef(object.ref, redactor), action, risks };
    if (action === "orphan") return described;
    if (isSecret(object.ref)) {
      const secretKeys = secretKeysOf(object, action);
      return { ...described, secretKeys: secretKeys.map((each) => ({ ...each, key: redactor.name(each.key) })) };
    }
    if (action === "deleted") return described;
    compared += comparedLength(object);
    if (compared > maxComparedLength || length > maxDiffLength) return { ...described, partial: true };
    const { diff, linesLeftOut, partial } = diffObject(object, redactor);
    length += diff.length;
    if (length > maxDiffLength) return { ...described, partial: true };
    if (diff === "") return described;
    return { ...described, diff, ...(linesLeftOut > 0 && { linesLeftOut }), ...(partial && { partial }) };
  });
}

function describeMessages(
  messages: readonly ResultError[],
  redactor: Redactor,
  isOld: (message: ResultError) => boolean = () => false,
): Preview["errors"] {
  return messages.slice(0, maxMessages).map((each) => ({
    ...(each.ref.kind !== "" && { ref: describeRef(each.ref, redactor) }),
    message: cutLine(makeVisible(redactor.text(each.message)), maxMessageLength),
    ...(isOld(each) && { old: true as const }),
  }));
}

function describeRef({ group, version, kind, name, namespace }: ObjectRef, redactor: Redactor): PreviewObject["ref"] {
  const nameOf = (text: string) => cutLine(makeVisible(redactor.name(text)), 253);
  return {
    ...(group !== undefined && { group: makeVisible(group) }),
    ...(version !== undefined && { version: makeVisible(version) }),
    kind: makeVisible(kind),
    name: nameOf(name),
    ...(namespace !== undefined && { namespace: nameOf(namespace) }),
  };
}

function conceal(description: Description, why: string): Description {
  const silence = (messages: Preview["errors"]) =>
    messages.map(({ ref, old }) => ({
      ...(ref && { ref }),
      message: "(not shown, because it may hold a secret)",
      ...(old && { old }),
    }));
  return {
    ...description,
    ...withoutValues(description),
    objects: namesOf(description.objects),
    errors: silence(description.errors),
    warnings: silence(description.warnings),
    manifests: undefined,
    concealed: why,
  };
}

/** Highest risk first, then by kind and name. */
function byImportance(one: Found, other: Found): number {
  const rank = ({ risks }: Found) => Math.min(riskKinds.length, ...risks.map(({ kind }) => riskKinds.indexOf(kind)));
  const [a, b] = [one.object.ref, other.object.ref];
  return (
    rank(one) - rank(other) ||
    compareText(a.kind, b.kind) ||
    compareText(a.namespace ?? "", b.namespace ?? "") ||
    compareText(a.name, b.name)
  );
}

function isSame(one: ObjectRef, other: ObjectRef): boolean {
  return (
    one.kind === other.kind &&
    one.name === other.name &&
    (one.group ?? "") === (other.group ?? "") &&
    (one.namespace ?? "") === (other.namespace ?? "")
  );
}
