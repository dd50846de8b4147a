import { expect, test } from "vitest";
import { around, aroundEach } from "../../../src/kit/around.ts";

interface Counter {
  readonly name: string;
  add(by: number): Promise<number>;
  reset(): Promise<void>;
}

function aCounter(): Counter & { readonly extra: string; readonly total: number } {
  let total = 0;
  return {
    name: "counter",
    extra: "not of the port",
    get total() {
      return total;
    },
    add: (by) => Promise.resolve((total += by)),
    reset: () => Promise.resolve(void (total = 0)),
  };
}

test("an interceptor gets the method and its arguments, and what it does not name stays the port's own", async () => {
  const counter = aCounter();
  const doubled = around<Counter, typeof counter>(counter, { add: (next, by) => next(by * 2) });
  expect(await doubled.add(3)).toBe(6);
  expect(doubled).toMatchObject({ name: "counter", extra: "not of the port" });
  await doubled.reset();
  expect(doubled.total).toBe(0);
});

test("a property that the port computes is computed anew each time", async () => {
  const counter = aCounter();
  const wrapped = around<Counter, typeof counter>(counter, { add: (next, by) => next(by) });
  await wrapped.add(1);
  expect(wrapped.total).toBe(1);
});

test("interceptors can be nested: the last one is called first", async () => {
  const calls: string[] = [];
  const inner = around<Counter>(aCounter(), { add: (next, by) => (calls.push("inner"), next(by)) });
  const outer = around<Counter>(inner, { add: (next, by) => (calls.push("outer"), next(by)) });
  await outer.add(1);
  expect(calls).toEqual(["outer", "inner"]);
});

test("a port's method that is replaced later is what wrappers call", async () => {
  const counter = { ...aCounter() };
  const wrapped = around<Counter>(counter, { add: (next, by) => next(by) });
  counter.add = () => Promise.resolve(42);
  expect(await wrapped.add(1)).toBe(42);
});

test("several methods can be wrapped in the same way", async () => {
  const calls: unknown[] = [];
  const counter = aroundEach<Counter, "add" | "reset">(aCounter(), ["add", "reset"], (next, method, args) => {
    calls.push([method, ...args]);
    return next();
  });
  await counter.add(2);
  await counter.reset();
  expect(calls).toEqual([["add", 2], ["reset"]]);
});
