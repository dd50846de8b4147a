import { expect, test } from "vitest";
import { createWriters, stamp, stampOfPerson, type StampedWrite } from "../../../dev/chaos/stamps.ts";

/** Who made each of these writes of one object, of which each has a version of its own. */
function writers(...writes: readonly Partial<StampedWrite>[]) {
  const writerOf = createWriters();
  return writes.map((write, i) =>
    writerOf({ name: "shop-a", text: undefined, version: String(i), deleted: false, ...write }),
  );
}

const person = (number: number) => stampOfPerson(number)[stamp];

test("each run and each user is known by their stamp", () => {
  const writes = [{ text: "run-1" }, { text: person(1) }, { text: person(2) }, { text: "run-2" }];
  expect(writers(...writes)).toEqual(["run-1", "person", "person", "run-2"]);
});

test("a write that leaves the stamp in place is by somebody unknown", () => {
  expect(writers({ text: person(1) }, { text: person(1) })).toEqual(["person", undefined]);
  expect(writers({}, {})).toEqual([undefined, undefined]);
});

test("a deletion is by the user who has just stamped the object, and otherwise by somebody unknown", () => {
  expect(writers({ text: person(1) }, { text: person(1), deleted: true })).toEqual(["person", "person"]);
  expect(writers({ text: "run-1" }, { text: "run-1", deleted: true })).toEqual(["run-1", undefined]);
  const overwritten = [{ text: person(1) }, { text: person(1) }, { text: person(1), deleted: true }];
  expect(writers(...overwritten)).toEqual(["person", undefined, undefined]);
});

test("an object that was deleted and created again with the same stamp is by that run", () => {
  expect(writers({ text: "run-1" }, { text: "run-1", deleted: true }, { text: "run-1" })).toEqual([
    "run-1",
    undefined,
    "run-1",
  ]);
});

test("what is listed again keeps its writer, and other objects do not matter", () => {
  const [first, other] = [
    { text: person(1), version: "7" },
    { name: "shop-b", text: person(1), version: "8" },
  ];
  expect(writers(first, other, first)).toEqual(["person", "person", "person"]);
});
