import { expect, test } from "vitest";
import { changesBack } from "../../../dev/chaos/commands/pushes.ts";
import type { Repository } from "../../../dev/chaos/repository.ts";

type Files = Readonly<Record<string, string>>;

/** A repository with these commits, the last of which is the head. */
function aRepository(...trees: readonly Files[]): Repository {
  const treeAt = (commit: string) => new Map(Object.entries(trees[Number(commit)] ?? {}));
  const repository = { treeAt, tree: () => treeAt(String(trees.length - 1)), commits: () => Object.keys(trees) };
  return repository as unknown as Repository;
}

test("a revert restores what was changed or removed, and removes what was added", () => {
  const repository = aRepository({ a: "red", b: "red", c: "red" }, { a: "blue", c: "red", d: "blue" });
  expect(Object.fromEntries(changesBack(repository))).toEqual({ a: "red", b: "red", d: undefined });
});

test("the first commit cannot be reverted", () => {
  expect(changesBack(aRepository({ a: "red" })).size).toBe(0);
});
