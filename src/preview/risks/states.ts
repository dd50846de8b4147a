/**
 * An object before and after the merge, as far as it is known. The risks compare these two states, so that what the
 * live object has already is not reported again.
 */
import { isRecord, parseJson } from "../../kit/json.ts";
import type { FieldChange, ResultObject } from "../../model.ts";
import { pathOf, type Step, stepsOf } from "../field-path.ts";

export interface States {
  /** The live object, or for the preview of a fork the base's; `undefined` for a new object. */
  readonly before: unknown;
  readonly after: unknown;
}

/** The API server accepts objects of about 1.5 MB, and what a fork renders may be of any size. */
const largestText = 4_000_000;

export const noStates: States = { before: undefined, after: undefined };

/** Parses the two states of a new or changed object when they are needed first. */
export function statesOf(object: ResultObject): States {
  let read: States | undefined;
  const states = () => (read ??= readStates(object));
  return {
    get before() {
      return states().before;
    },
    get after() {
      return states().after;
    },
  };
}

/** Of a changed object of which a state is missing, only the changed fields are known. */
function readStates({ new: isNew, rendered, remote, applied, changes }: ResultObject): States {
  // What an admission webhook adds to a new object is not part of the merge.
  if (isNew) return { before: undefined, after: parseState(rendered) ?? parseState(applied) };
  // `applied` also has the fields that other controllers own, which `rendered` lacks and the merge does not remove.
  const [before, after] = [parseState(remote), parseState(applied) ?? parseState(rendered)];
  return before !== undefined && after !== undefined ? { before, after } : fromChanges(changes);
}

export function parseState(text: string | undefined): unknown {
  const value = text === undefined || text.length > largestText ? undefined : parseJson(text);
  return isRecord(value) ? value : undefined;
}

const mostChanges = 1_000;

/**
 * Objects that have nothing but the changed fields, each with its value before and after. An object may also have
 * changed as a whole.
 */
export function fromChanges(changes: readonly FieldChange[]): States {
  const whole = changes.find((change) => pathOf(change) === "");
  if (whole !== undefined) return { before: whole.oldValue, after: whole.newValue };
  const [before, after] = [createSketch(), createSketch()];
  for (const change of changes.slice(0, mostChanges)) {
    const steps = stepsOf(pathOf(change));
    if (steps === undefined) continue;
    before.put(steps, change.type === "insert" ? undefined : change.oldValue);
    after.put(steps, change.type === "delete" ? undefined : change.newValue);
  }
  return { before: before.root, after: after.root };
}

type Node = Record<Step, unknown>;

function createSketch() {
  const own = new WeakSet<Node>();
  /** Without a prototype, so that a field named `__proto__` is one like any other. */
  const newNode = (isList: boolean): Node => {
    const node = (isList ? [] : Object.create(null)) as Node;
    own.add(node);
    return node;
  };
  const root = newNode(false);

  /** Also creates what leads to an absent value. A field below one that changed as a whole is known already. */
  function put(steps: readonly Step[], value: unknown): void {
    let at = root;
    for (const [i, name] of steps.slice(0, -1).entries()) {
      const next = (at[name] ??= newNode(typeof steps[i + 1] === "number")) as Node;
      if (!own.has(next) || Array.isArray(next) !== (typeof steps[i + 1] === "number")) return;
      at = next;
    }
    const last = steps.at(-1);
    if (last !== undefined && value !== undefined) at[last] ??= value;
  }

  return { root, put };
}
