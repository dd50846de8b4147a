import { expect, test } from "vitest";
import { createThreads } from "../../../src/kluctl/threads.ts";

const shop = { namespace: "shop", name: "web" };

test("a command that was fast runs with one thread the next time, until it becomes slow", () => {
  const { of, note } = createThreads();
  expect(of(shop, "diff")).toEqual({});
  note(shop, "diff", 200);
  expect(of(shop, "diff")).toEqual({ GOMAXPROCS: "1" });
  note(shop, "diff", 900); // with one thread, on a busier machine
  expect(of(shop, "diff")).toEqual({ GOMAXPROCS: "1" });
  note(shop, "diff", 1_100);
  expect(of(shop, "diff")).toEqual({});
  note(shop, "diff", 900);
  expect(of(shop, "diff")).toEqual({});
});

test("each command of each deployment is measured separately", () => {
  const { of, note } = createThreads();
  note(shop, "diff", 200);
  expect(of(shop, "deploy")).toEqual({});
  expect(of({ ...shop, name: "api" }, "diff")).toEqual({});
});
