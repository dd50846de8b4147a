import type { Command } from "commander";
import { expect, test } from "vitest";
import { wholeProgram } from "../../../src/cli/program.ts";

function leavesOf(command: Command, path: string[] = []): { path: string; help: string; command: Command }[] {
  if (command.commands.length > 0) return command.commands.flatMap((one) => leavesOf(one, [...path, one.name()]));
  let help = "";
  command.configureOutput({ writeOut: (text) => (help += text) });
  command.outputHelp();
  return [{ path: ["towline", ...path].join(" "), help, command }];
}

test("the help of every command has a valid example and lists its exit codes", async () => {
  for (const { path, help, command } of leavesOf(await wholeProgram())) {
    if (path === "towline version") continue;
    expect(help, path).toContain(`\n  ${path === "towline serve" ? "TOWLINE_" : ""}`);
    const examples = help.split("\n").filter((line) => new RegExp(`^ .*${path}( |$)`).test(line));
    expect(examples.length, `${path} has no example`).toBeGreaterThan(0);
    const known = new Set(command.options.flatMap(({ short, long }) => [short, long]));
    for (const example of examples) {
      const ours = example.split(path)[1]?.split(/ {2,}|\||>/)[0] ?? "";
      const options = ours.match(/(?<= )--?[a-z][a-z-]*/gi) ?? [];
      expect(
        options.filter((option) => !known.has(option)),
        example,
      ).toEqual([]);
    }
    if (!/config schema|completion/.test(path)) expect(help, path).toContain("Exit codes:\n  0  ");
  }
});
