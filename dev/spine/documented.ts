/** The list of docs/architecture.md that leads a reader along one push, and whether its files keep what it promises. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

const page = "docs/architecture.md";
const heading = "To follow this in the code, read in this order:";

/** The first file of each row of the list, in order. Throws if the page has no such list. */
export function readSteps(root: string): readonly string[] {
  const text = readFileSync(join(root, page), "utf8");
  const [, after] = text.split(heading);
  const rows = after?.trimStart().split("\n\n", 1)[0]?.split("\n").slice(2) ?? [];
  const steps = rows.flatMap((row) => /`([\w./-]+\.ts)`/.exec(row)?.[1] ?? []);
  if (steps.length === 0) throw new Error(`${page}: no list of files after "${heading}"`);
  return steps;
}

/** Words of what wraps the way from outside: whoever follows a push need not know of it. */
const foreignWords = /\bskipping\b|\bskip(?:Check|Audit|sCheck)\b|\bevidence\b/i;

/** What is wrong with a file of the list: it has to say where it is, and knows nothing of what wraps it. */
export function explainStep(text: string, step: number, steps: number): string[] {
  const wrong: string[] = [];
  const opening =
    /^\/\*\*([\s\S]*?)\*\//
      .exec(text)?.[1]
      ?.replaceAll(/\s*\n \*\s?/g, " ")
      .trim() ?? "";
  const sentences = opening.replace(/\bNext: .*$/, "").match(/[.!?](?=\s|$)/g) ?? [];
  if (!opening.startsWith(`Step ${step} of a push: `) || sentences.length < 2) {
    wrong.push(`begin it with two sentences that place it on the way: "Step ${step} of a push: … . …"`);
  }
  if (step < steps && !/\bNext: `?[\w./<>-]+\.ts/.test(opening)) {
    wrong.push("its first comment does not name the file to read next (Next: path.ts)");
  }
  const word = foreignWords.exec(text)?.[0];
  if (word !== undefined) wrong.push(`speaks of ${JSON.stringify(word)}, which belongs outside of the way`);
  return wrong;
}
