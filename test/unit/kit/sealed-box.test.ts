import { expect, test } from "vitest";
import { createSealedBox } from "../../../src/kit/sealed-box.ts";

const [first, second] = ["a-key-of-thirty-two-characters-01", "a-key-of-thirty-two-characters-02"];
const content = 'push to refs/heads/main ✓ {"paths":[]}';

test("a box opens with the key and the identity that it was sealed with, and shows nothing of its content", () => {
  const box = createSealedBox([first], "test");
  const sealed = box.seal(content, "delivery 1");
  expect(box.open(sealed, "delivery 1")).toEqual({ content });
  expect(sealed.toString("latin1")).not.toContain("refs/heads");
  expect(sealed.toString("latin1")).not.toContain(first);
  expect(box.seal(content, "delivery 1").equals(sealed)).toBe(false);
  expect(createSealedBox([first], "test").open(box.seal("", "x"), "x")).toEqual({ content: "" });
});

test("another key, another identity or another purpose does not open it, and the reasons differ", () => {
  const sealed = createSealedBox([first], "test").seal(content, "delivery 1");
  expect(createSealedBox([second], "test").open(sealed, "delivery 1")).toBe("unknown-key");
  expect(createSealedBox([first], "test").open(sealed, "delivery 2")).toBe("altered");
  expect(createSealedBox([first], "other").open(sealed, "delivery 1")).toBe("unknown-key");
});

test("a box that was changed anywhere, cut or extended does not open", () => {
  const box = createSealedBox([first], "test");
  const sealed = box.seal(content, "delivery 1");
  for (let at = 0; at < sealed.length; at++) {
    const changed = Buffer.from(sealed);
    changed[at] = (changed[at] ?? 0) ^ 1;
    expect(["altered", "unknown-key"], `byte ${at}`).toContain(box.open(changed, "delivery 1"));
    expect(["altered", "unknown-key"], `cut to ${at}`).toContain(box.open(sealed.subarray(0, at), "delivery 1"));
  }
  expect(box.open(Buffer.concat([sealed, Buffer.of(0)]), "delivery 1")).toBe("altered");
});

test("a new key in front of the old one opens both, and only the old one opens what it sealed before", () => {
  const before = createSealedBox([first], "test").seal(content, "delivery 1");
  const rotated = createSealedBox([second, first], "test");
  const after = rotated.seal(content, "delivery 2");
  expect(rotated.open(before, "delivery 1")).toEqual({ content });
  expect(rotated.open(after, "delivery 2")).toEqual({ content });
  expect(createSealedBox([second], "test").open(after, "delivery 2")).toEqual({ content });
  expect(createSealedBox([second], "test").open(before, "delivery 1")).toBe("unknown-key");
});
