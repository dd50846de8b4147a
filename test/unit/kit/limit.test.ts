import { expect, test } from "vitest";
import { createLimit } from "../../../src/kit/limit.ts";

/** Tasks that run until they are ended, and the order in which they began. */
function useTasks(places: number) {
  const limit = createLimit(places);
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const start = (name: string, ...of: string[]) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    ends.set(name, resolve);
    return limit.run(
      () => {
        begun.push(name);
        return promise;
      },
      { of },
    );
  };
  const end = async (name: string) => {
    ends.get(name)?.();
    // The next one begins after some turns of the promises.
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { limit, begun, start, end };
}

test("tasks without a party are served in the order in which they came", async () => {
  const { begun, start, end } = useTasks(1);
  for (const name of ["a", "b", "c"]) void start(name);
  await end("a");
  await end("b");
  expect(begun).toEqual(["a", "b", "c"]);
});

test("a free place goes to the party that has the fewest, however many tasks of others came before", async () => {
  const { begun, start, end } = useTasks(3);
  for (let at = 1; at <= 10; at++) void start(`busy${at}`, "busy");
  void start("quiet1", "quiet");
  void start("quiet2", "quiet");
  void start("third", "third");
  await end("busy1");
  await end("busy2");
  expect(begun.slice(3)).toEqual(["quiet1", "third"]);
  await end("third");
  // One of each runs: it is the turn of the party that was served longest ago.
  expect(begun.slice(5)).toEqual(["busy4"]);
  await end("quiet1");
  expect(begun.slice(6)).toEqual(["quiet2"]);
});

test("with a single place, parties take turns", async () => {
  const { begun, start, end } = useTasks(1);
  for (let at = 1; at <= 3; at++) void start(`a${at}`, "a");
  for (let at = 1; at <= 3; at++) void start(`b${at}`, "b");
  void start("c1", "c");
  await end("none");
  for (let at = 0; at < 6; at++) await end(begun.at(-1)!);
  expect(begun).toEqual(["a1", "b1", "c1", "a2", "b2", "a3", "b3"]);
});

test("the parties of a party share its places in the same way, and get no more than it", async () => {
  const { begun, start, end } = useTasks(2);
  for (let at = 1; at <= 4; at++) void start(`one${at}`, "shop", "#1");
  void start("two", "shop", "#2");
  void start("other", "shelf", "#1");
  await end("one1");
  await end("one2");
  expect(begun.slice(2)).toEqual(["other", "two"]);
});

test("a task that is aborted while it waits takes no place and no turn", async () => {
  const { limit, begun, start, end } = useTasks(1);
  void start("a1", "a");
  const controller = new AbortController();
  const aborted = limit.run(async () => begun.push("b1"), { of: ["b"], signal: controller.signal });
  void start("b2", "b");
  controller.abort(new Error("no longer needed"));
  await expect(aborted).rejects.toThrow("no longer needed");
  await end("a1");
  expect(begun).toEqual(["a1", "b2"]);
  await end("b2");
  expect(limit.idle()).toBe(true);
});
