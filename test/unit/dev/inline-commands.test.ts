/** Commands named in a sentence of the documentation: they cannot be run here, but they have to exist. */
import type { Command } from "commander";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { wholeProgram } from "../../../src/cli/program.ts";
import { inlineCommands, root } from "../../support/documented-commands.ts";
import { notRun, objectionTo } from "../../support/foreign-commands.ts";

/** A message whose first word is the name of a program. */
const messages = ["kluctl cannot be started"];

test("every command in a sentence of the documentation exists, with its options", async () => {
  const program = await wholeProgram();
  const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { scripts: object };
  const objection = (text: string): string | undefined => {
    const [name = "", ...argv] = text.split(/\s+/);
    if (name === "towline") return objectionOf(program, argv);
    if (name === "npm") return argv[0] !== "run" || (argv[1] ?? "") in scripts ? undefined : "there is no such script";
    return name in notRun ? objectionTo(name, argv) : undefined;
  };
  const found = inlineCommands().filter(({ text }) => !messages.includes(text));
  expect(found.length).toBeGreaterThan(100);
  expect(
    found.flatMap(({ file, line, text }) => objection(text)?.replace(/^/, `${file}:${line}: ${text}: `) ?? []),
  ).toEqual([]);
  for (const wrong of ["towline nonsense", "towline get deployments --nonsense", "flux nonsense", "npm run nonsense"])
    expect(objection(wrong), wrong).toBeDefined();
});

function objectionOf(program: Command, argv: readonly string[]): string | undefined {
  let command = program;
  for (const word of argv) {
    const known = [...command.options, ...program.options].flatMap(({ short, long }) => [short, long]);
    const inner = command.commands.find((one) => one.name() === word);
    if (word.startsWith("-")) {
      if (word !== "--help" && !known.includes(word)) return `no option ${word}`;
    } else if (inner !== undefined) command = inner;
    else if (command.commands.length > 0) return `no command ${word}`;
  }
  return undefined;
}
