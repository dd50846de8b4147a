import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { countSpine, type SourceFile } from "../../../dev/spine/count.ts";
import { explainStep, readSteps } from "../../../dev/spine/documented.ts";
import { explainExtent, limit } from "../../../dev/spine/measure.ts";
import { readSource } from "../../../dev/spine/sources.ts";

const aFile = (...uses: string[]): SourceFile => ({ code: 10, lines: 12, uses });
const enter = (...files: string[]) => files.map((file) => ({ file, functions: ["run"] }));

test("a helper that only one step uses counts, and so does what only that helper uses", () => {
  const sources = new Map([
    ["a.ts", aFile("helper.ts")],
    ["helper.ts", aFile("deeper.ts")],
    ["deeper.ts", aFile()],
  ]);

  const { counted } = countSpine({ entered: enter(...sources.keys()), steps: ["a.ts"], seams: [], sources });

  expect(counted).toEqual([
    { file: "a.ts", code: 10, lines: 12, step: 1 },
    { file: "helper.ts", code: 10, lines: 12, helperOf: "a.ts" },
    { file: "deeper.ts", code: 10, lines: 12, helperOf: "helper.ts" },
  ]);
});

test("what several files use does not count, whether they are on the way or not, nor does what was not executed", () => {
  const sources = new Map([
    ["a.ts", aFile("shared.ts", "elsewhere.ts", "idle.ts")],
    ["b.ts", aFile("shared.ts")],
    ["off.ts", aFile("elsewhere.ts")],
    ["shared.ts", aFile()],
    ["elsewhere.ts", aFile()],
    ["idle.ts", aFile()],
  ]);
  const entered = enter("a.ts", "b.ts", "shared.ts", "elsewhere.ts");

  const { counted, beside } = countSpine({ entered, steps: ["a.ts", "b.ts"], seams: [], sources });

  expect(counted.map(({ file }) => file)).toEqual(["a.ts", "b.ts"]);
  expect(beside).toEqual([
    { file: "shared.ts", usedBy: ["a.ts", "b.ts"] },
    { file: "elsewhere.ts", usedBy: ["a.ts", "off.ts"] },
  ]);
});

test("what a step calls through a seam counts as if it called it itself", () => {
  const sources = new Map([
    ["a.ts", aFile()],
    ["seam.ts", aFile("behind.ts", "a.ts")],
    ["behind.ts", aFile()],
    ["off.ts", aFile("seam.ts")],
  ]);

  const entered = enter("a.ts", "seam.ts", "behind.ts");
  const { counted } = countSpine({ entered, steps: ["a.ts"], seams: ["seam.ts"], sources });

  expect(counted.map(({ file, helperOf }) => [file, helperOf])).toEqual([
    ["a.ts", undefined],
    ["seam.ts", undefined],
    ["behind.ts", "seam.ts"],
  ]);
});

test("a step that the push does not pass through is reported, and so is a way that became longer", () => {
  const sources = new Map([["a.ts", { code: 1, lines: limit.lines + 1, uses: [] }]]);
  const spine = countSpine({ entered: enter("a.ts"), steps: ["a.ts", "b.ts"], seams: [], sources });

  expect(explainExtent(spine)).toEqual([
    "b.ts is on the list, but a push does not pass through it",
    `a push passes through ${limit.lines + 1} lines, at most ${limit.lines} were agreed`,
  ]);
});

test("imports of types alone are no use of a file, and comments are no code", () => {
  const text = `/**
 * What it is.
 */
import type { A } from "./a.ts";
import { type B } from "./b.ts";
import { type C, d } from "../d.ts";
import * as e from "./e.ts";

// Why.
export { f } from "./f.ts"; // behind code
`;

  expect(readSource("src/x/file.ts", text)).toEqual({
    uses: ["src/d.ts", "src/x/e.ts", "src/x/f.ts"],
    lines: 10,
    code: 5,
  });
});

const root = join(import.meta.dirname, "../../..");

test.each(readSteps(root).map((file, i, steps) => [file, i + 1, steps.length] as const))(
  "%s places itself on the way of a push, and knows nothing of what wraps it",
  (file, step, steps) => {
    expect(explainStep(readFileSync(join(root, file), "utf8"), step, steps)).toEqual([]);
  },
);

const opening = `/**
 * Step 2 of a push: understands what the host sent. Nothing is believed before its signature is verified. Next:
 * src/intake/intake.ts.
 */
`;

test("a step says where it is on the way", () => {
  expect(explainStep(opening, 2, 12)).toEqual([]);
});

test.each([
  ["another number", opening.replace("Step 2", "Step 3"), /begin it with two sentences/],
  ["one sentence", opening.replace(/ Nothing is .*? verified\./, ""), /begin it with two sentences/],
  ["no comment", "export const x = 1;\n", /begin it with two sentences/],
  ["no next file", opening.replace(/Next:[^.]*\.ts\./, "Then more."), /does not name the file to read next/],
  ["what wraps the way", `${opening}const evidence = 1;\n`, /speaks of "evidence"/],
])("a step is refused: %s", (_, text, wrong) => {
  expect(explainStep(text, 2, 12).join("\n")).toMatch(wrong);
});
