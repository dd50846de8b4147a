/**
 * Changes that the API server will reject because a field is immutable, or may only grow. A deploy of such a change
 * fails, which a dry run does not always show.
 */
import type { ObjectRef, ResultError, ResultObject } from "../../model.ts";
import { field } from "../../kit/json.ts";
import { idOf } from "./fields.ts";
import { changedFields, hasImmutableFields, isFromServer, shortPath } from "./immutable.ts";
import { isLess } from "./quantity.ts";
import { fromChanges, parseState, type States } from "./states.ts";

/** Whether it is one of the API server's messages for a change that it refuses, as kluctl passes them on. */
export function refusesChange({ message }: ResultError): boolean {
  return /field is immutable|updates to \S+ spec for fields other than|cannot change roleRef|may not be changed|may not change once set|is forbidden after creation|is immutable after creation|field can not be less than/i.test(
    message,
  );
}

const unless = "the API server rejects the change unless the object is deleted and created again";

/** Why the API server will reject the change, or `undefined` if nothing shows that it will. */
export function refusalOf(
  object: ResultObject,
  action: string,
  errors: readonly ResultError[],
  states: States,
): string | undefined {
  const conflict = action === "changed" ? conflictOf(object, errors, states) : undefined;
  if (conflict !== undefined) return `${conflict}: ${unless}`;
  const refusal = errors.find(refusesChange);
  if (refusal === undefined) return undefined;
  return `${fieldOf(refusal) ?? "a field"} cannot be changed: ${unless}`;
}

function conflictOf(object: ResultObject, errors: readonly ResultError[], states: States): string | undefined {
  const { ref, changes, remote } = object;
  const isMarked = isFreezable(ref) && field(parseState(remote), "immutable") === true;
  if (!isMarked && !hasImmutableFields(ref)) return undefined;
  if (isAccepted(object, errors, states)) return undefined;
  // What is removed can only be told from a default by the changes.
  const isUnclear = isFromServer(states.before) && !isFromServer(states.after);
  const compared = isUnclear ? [states, fromChanges(changes)] : [states];
  const names = [...new Set(compared.flatMap((each) => changedFields(ref, each, isMarked)))];
  if (isMarked && names.length > 0) return "it is marked as immutable";
  if (names.length > 0) return `${names.slice(0, mostNames).join(", ")} cannot be changed`;
  const isSmaller = idOf(ref) === "/PersistentVolumeClaim" && shrinks(states);
  return isSmaller ? "its storage request cannot become smaller" : undefined;
}

const mostNames = 5;

/**
 * Whether the API server accepted the change in a dry run. After an error, kluctl may also return an object as `applied`
 * that it would delete and create again, but that is what was rendered, which has no UID.
 */
function isAccepted({ rendered, applied }: ResultObject, errors: readonly ResultError[], states: States): boolean {
  if (errors.length > 0 || applied === undefined || applied === rendered) return false;
  return isFromServer(states.before) && isFromServer(states.after);
}

/** The API server names the field first. Of several problems, the first may be another one. */
function fieldOf({ message }: ResultError): string | undefined {
  const path = /^[\w.-]{1,300} "[\w.:-]{1,300}" is invalid: ([A-Za-z][\w.[\]/-]{0,200}): /.exec(message)?.[1];
  return path === undefined ? undefined : shortPath(path);
}

function isFreezable(ref: ObjectRef): boolean {
  return /^\/(?:ConfigMap|Secret)$/.test(idOf(ref));
}

/** A request may become smaller after a failed expansion, as long as it is larger than the volume. */
function shrinks({ before, after }: States): boolean {
  const request = (state: unknown) => field(state, "spec", "resources", "requests", "storage");
  if (!isLess(request(after), request(before))) return false;
  return !isLess(field(before, "status", "capacity", "storage"), request(after));
}
