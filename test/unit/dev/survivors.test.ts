import { expect, test } from "vitest";
import { describeMutant, judge, type Mutant } from "../../../dev/mutate/survivors.ts";

const source = ["function isOld(ageMs: number) {", "  return ageMs >= limitMs;", "}"].join("\n");
const boundary = mutant("Survived", [2, 10, 2, 26], "ageMs > limitMs");
const emptied = mutant("NoCoverage", [1, 31, 3, 2], "{}");

function mutant(status: string, [line, column, lastLine, lastColumn]: number[], replacement: string): Mutant {
  const position = (line = 0, column = 0) => ({ line, column });
  return { status, location: { start: position(line, column), end: position(lastLine, lastColumn) }, replacement };
}

test("a mutant is shown as the line that it changes", () => {
  expect(describeMutant(source, boundary)).toBe("return [-ageMs >= limitMs-]{+ageMs > limitMs+};");
  expect(describeMutant(source, emptied)).toBe("function isOld(ageMs: number) [-{ return ageMs >= limitMs; }-]{+{}+}");
});

test("a surviving mutant has to be on the list, whether or not a test covers it", () => {
  expect(judge(source, [boundary, emptied, { ...boundary, status: "Killed" }], [])).toEqual({
    killed: 1,
    timedOut: 0,
    total: 3,
    survivors: [
      { line: 2, mutant: describeMutant(source, boundary) },
      { line: 1, mutant: describeMutant(source, emptied) },
    ],
    outdated: [],
  });
});

test("an allowed survivor is not a failure, but an entry of the list that no longer survives is", () => {
  const allowed = [{ why: "no age is exactly the limit", mutants: [describeMutant(source, boundary)] }];
  expect(judge(source, [boundary], allowed)).toMatchObject({ killed: 0, total: 1, survivors: [], outdated: [] });
  expect(judge(source, [{ ...boundary, status: "Timeout" }], allowed)).toMatchObject({
    killed: 1,
    timedOut: 1,
    outdated: [describeMutant(source, boundary)],
  });
});

test("an entry allows one mutant, not all that change an equal line", () => {
  const twice = [source, source].join("\n");
  const later = mutant("Survived", [5, 10, 5, 26], "ageMs > limitMs");
  const entry = describeMutant(source, boundary);
  const verdictOf = (...mutants: string[]) => judge(twice, [boundary, later], [{ why: "", mutants }]);
  expect(verdictOf(entry)).toMatchObject({ survivors: [{ line: 5, mutant: entry }], outdated: [] });
  expect(verdictOf(entry, entry)).toMatchObject({ survivors: [], outdated: [] });
  expect(verdictOf(entry, entry, entry)).toMatchObject({ survivors: [], outdated: [entry] });
});

test("a mutant that cannot run does not count", () => {
  expect(judge(source, [{ ...boundary, status: "RuntimeError" }], [])).toMatchObject({ total: 0, survivors: [] });
});
