/**
 * Expressions in the Common Expression Language, as Kubernetes and Flux use it. They come from users: their size is
 * limited when they are checked, and they are evaluated in a thread of their own, which is ended if they take too long.
 */
import { Environment, ParseError, EvaluationError, TypeError as CelTypeError } from "@marcbachmann/cel-js";
import { createThread, ThreadError } from "./in-thread.ts";
import type { JsonObject } from "./json.ts";

/** Characters: several times those of the longest expressions that Flux documents. */
const longestExpression = 2_000;
const limits = { maxAstNodes: 500, maxDepth: 30, maxListElements: 100, maxMapEntries: 50, maxCallArguments: 10 };

/** Real expressions take less than a millisecond. */
const timeoutMs = 5_000;
const memoryMb = 128;

const inCelThread = createThread({ name: "expressions", timeoutMs, memoryMb: () => memoryMb });

function environment(): Environment {
  return new Environment({ unlistedVariablesAreDyn: true, enableOptionalTypes: true, limits });
}

/** Why the text is not an expression with a boolean value; `undefined` if it is, as far as is known before it runs. */
export function whyNotCel(expression: string): string | undefined {
  if (expression.length > longestExpression) return `it has more than ${longestExpression} characters`;
  try {
    const { valid, type, error } = environment().check(expression);
    if (!valid) return error?.summary ?? "it is not valid";
    return type === "bool" || type === "dyn" ? undefined : `its value is of type ${type}, not bool`;
  } catch (error) {
    if (error instanceof ParseError || error instanceof CelTypeError) return error.summary;
    throw error;
  }
}

/** Expressions, by name, and the values of their variables. */
export interface CelTask {
  readonly expressions: Readonly<Record<string, string>>;
  readonly variables: JsonObject;
}

/** A boolean or, in words without any value of a variable, why there is none. */
export type CelValue = boolean | string;

/** Throws a ThreadError if the tasks together need too much time or memory. */
export function evaluateCel(tasks: readonly CelTask[], signal: AbortSignal): Promise<Record<string, CelValue>[]> {
  return inCelThread(import.meta.url, evaluateNow, [tasks], signal);
}

export function isTooExpensive(error: unknown): error is ThreadError {
  return error instanceof ThreadError;
}

/**
 * May run for ever.
 *
 * @inThread
 */
export function evaluateNow(tasks: readonly CelTask[]): Record<string, CelValue>[] {
  const known = environment();
  return tasks.map(({ expressions, variables }) => {
    const values = toCel(variables);
    const entries = Object.entries(expressions).map(([name, text]) => [name, valueOf(known, text, values)] as const);
    return Object.fromEntries(entries);
  });
}

function valueOf(known: Environment, expression: string, variables: unknown): CelValue {
  try {
    const value: unknown = known.evaluate(expression, variables as Record<string, unknown>);
    return typeof value === "boolean" ? value : "its value is not a boolean";
  } catch (error) {
    // The message may quote a value, and values may be secret; the code is one of the library's own words.
    if (error instanceof EvaluationError || error instanceof CelTypeError || error instanceof ParseError)
      return error.code.replaceAll("_", " ");
    return "it cannot be evaluated";
  }
}

/** JSON in CEL's types: whole numbers are `int`, as in Kubernetes, and an object has only its own fields. */
function toCel(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toCel);
  if (typeof value === "number") return Number.isSafeInteger(value) ? BigInt(value) : value;
  if (typeof value !== "object" || value === null) return value;
  const fields = Object.entries(value).map(([name, field]) => [name, toCel(field)] as const);
  return Object.assign(Object.create(null) as object, Object.fromEntries(fields));
}
