/**
 * Checks the table of known commands, which `npm test` uses for programs it does not run, against the programs' own
 * help.
 */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { findTools } from "../../dev/tools.ts";
import { notRun } from "../support/foreign-commands.ts";

const run = promisify(execFile);

test.each(["flux", "argocd", "cosign"] as const)("%s has the listed subcommands and options", async (name) => {
  const tools = await findTools([name], { say: () => undefined });
  for (const [command, options] of Object.entries(notRun[name]?.knows ?? {})) {
    const { stdout } = await run(tools[name], [...command.split(" "), "--help"]);
    expect(stdout, command).toMatch(
      new RegExp(`Usage:\\s+${name} ${command} .*\\[flags\\]|Usage:\\s+${name} ${command} `),
    );
    for (const option of options) expect(stdout, `${command} ${option}`).toMatch(new RegExp(`^ .*${option}[ =]`, "m"));
  }
});
