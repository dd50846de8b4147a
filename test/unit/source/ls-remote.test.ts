import { expect, test } from "vitest";
import { parseLsRemote } from "../../../src/source/ls-remote.ts";

const a = "a".repeat(40);
const b = "b".repeat(40);
const c = "c".repeat(64);

test("branches, tags and the target of HEAD are read, and other refs are not", () => {
  const { defaultRef, commits } = parseLsRemote(
    [
      `ref: refs/heads/trunk\tHEAD`,
      `${a}\tHEAD`,
      `${a}\trefs/heads/trunk`,
      `${b}\trefs/pull/1/head`,
      `${c}\trefs/tags/v1`,
      "",
    ].join("\n"),
  );
  expect(defaultRef).toBe("refs/heads/trunk");
  expect([...commits]).toEqual([
    ["refs/heads/trunk", a],
    ["refs/tags/v1", c],
  ]);
});

test("an annotated tag stands for its commit", () => {
  expect(parseLsRemote(`${a}\trefs/tags/v1\n${b}\trefs/tags/v1^{}\n`).commits.get("refs/tags/v1")).toBe(b);
});

test("if a server does not name HEAD's branch, the branch is found by its commit", () => {
  const refs = `${a}\tHEAD\n${a}\trefs/heads/dev\n${a}\trefs/heads/master\n${b}\trefs/heads/main\n`;
  expect(parseLsRemote(refs).defaultRef).toBe("refs/heads/master");
});

test("empty and invalid output has no refs", () => {
  expect(parseLsRemote("")).toEqual({ defaultRef: undefined, commits: new Map() });
  expect(parseLsRemote("warning: hello\nzzz\trefs/heads/x\n").commits.size).toBe(0);
});
