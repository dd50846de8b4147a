import { expect, test } from "vitest";
import { createSight } from "../../../dev/chaos/ledger.ts";

const object = (name: string, version: number, uid = name) => ({
  metadata: { name, uid, resourceVersion: String(version) },
});

test("what is listed again is one write, and deletions that only a list shows come before what replaces the object", () => {
  const seen: string[] = [];
  const { onList, onEvent } = createSight((type, { metadata }) => {
    seen.push(`${type} ${metadata.uid} ${metadata.resourceVersion}`);
  });
  onList([object("a", 1), object("b", 2)]);
  onEvent("MODIFIED", object("a", 3));
  onEvent("DELETED", object("b", 4));
  onEvent("ADDED", object("c", 5));
  onEvent("ADDED", object("d", 6));
  expect(seen.splice(0)).toEqual(["ADDED a 1", "ADDED b 2", "MODIFIED a 3", "DELETED b 4", "ADDED c 5", "ADDED d 6"]);

  onList([object("a", 3), object("c", 9, "another c")]);
  expect(seen.splice(0)).toEqual(["GONE c 6", "GONE d 6", "ADDED another c 9"]);
  onList([object("a", 10), object("c", 9, "another c")]);
  expect(seen).toEqual(["ADDED a 10"]);
});
