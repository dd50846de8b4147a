import { expect, test, vi } from "vitest";
import { createTurns } from "../../../src/kit/turns.ts";

test("work on one thing waits for its turn, and work on another does not", async () => {
  const { run } = createTurns();
  const [begun, ends] = [[] as string[], [] as (() => void)[]];
  const start = (name: string, what: string) =>
    run(
      name,
      () => {
        begun.push(what);
        return new Promise<void>((resolve) => ends.push(resolve));
      },
      {},
    );
  const all = [start("a", "a1"), start("a", "a2"), start("b", "b1")];
  await vi.waitFor(() => expect(begun).toEqual(["a1", "b1"]));
  ends[0]?.();
  await vi.waitFor(() => expect(begun).toEqual(["a1", "b1", "a2"]));
  for (const end of ends) end();
  await Promise.all(all);
});

test("a failure is passed on, and the next one has its turn", async () => {
  const { run } = createTurns();
  await expect(run("a", () => Promise.reject(new Error("no")), {})).rejects.toThrow("no");
  await expect(run("a", () => Promise.resolve(1), {})).resolves.toBe(1);
});

test("who does not want to wait any longer leaves with the reason", async () => {
  const { run } = createTurns();
  const leaving = new AbortController();
  const first = run("a", () => new Promise<void>((resolve) => setTimeout(resolve, 50)), {});
  const second = run("a", () => Promise.resolve(), { signal: leaving.signal });
  leaving.abort(new Error("enough"));
  await expect(second).rejects.toThrow("enough");
  await first;
});
