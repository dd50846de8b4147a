/** Runs one command. Loads only that command's modules, so that `towline --help` is fast. */
import { Command, CommanderError } from "commander";
import { ConfigError } from "../errors.ts";
import { describeError } from "./describe-error.ts";
import { type CommandEntry, commands, groups, type ProgramDeps } from "./commands.ts";
import { readVersion } from "./version.ts";

export type { ProgramDeps } from "./commands.ts";

const help = `
Examples:
  towline get deployments            Show readiness, commit and pending work of each deployment
  towline trace 3f2c1ab              Show where a commit is deployed
  towline preview                    Show what merging this working copy would change in the live cluster
  towline doctor                     Check the cluster, the git hosts, Redis and kluctl
  towline serve                      Run the server
  towline <command> --help           Show usage of a command, with examples

Exit codes:
  0  Success, or the server was stopped
  1  Failure
  2  Invalid command line or configuration
Commands with other exit codes list them in their help.`;

/** Returns the exit code. */
export async function runProgram(typed: readonly string[], deps: ProgramDeps): Promise<number> {
  const argv = typed[0] === "help" ? [...typed.slice(1), "--help"] : typed; // as with kubectl and others
  let code = 0;
  const [first, second] = argv.filter((word) => !word.startsWith("-"));
  const isCalled = ({ path: [group, name], aliases = [] }: CommandEntry) =>
    group === first && (name === undefined || [name, ...aliases].some((one) => one === second));
  const program = await createProgram(deps, isCalled, (found) => (code = found));
  try {
    await program.parseAsync(argv, { from: "user" });
    return code;
  } catch (error) {
    // commander has already printed the error; help and --version end this way as well, with 0
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    deps.err(`towline: ${describeError(error)}\n`);
    return error instanceof ConfigError ? 2 : 1;
  }
}

/** All commands by name. Only entries that `isLoaded` selects get their options, help and action. */
async function createProgram(
  deps: ProgramDeps,
  isLoaded: (entry: CommandEntry) => boolean,
  onCode: (code: number) => void,
): Promise<Command> {
  const program = new Command("towline")
    .description("A GitOps server for kluctl: a push deploys within seconds.")
    .version(readVersion().version, "-V, --version", "Print the version")
    .helpOption("-h, --help", "Show usage with examples")
    .helpCommand(false)
    .exitOverride()
    .configureOutput({ writeOut: deps.out, writeErr: deps.err })
    .showHelpAfterError("See --help for usage.")
    .addHelpText("after", help);

  for (const entry of commands) {
    const { path, aliases = [], summary, section } = entry;
    const [name, inner] = path;
    const outer = program.commands.find((command) => command.name() === name) ?? program.command(name);
    if (inner !== undefined) outer.helpCommand(false);
    outer.description(inner === undefined ? summary : (groups[name] ?? "")).helpGroup(section);
    const command = inner === undefined ? outer : outer.command(inner).description(summary);
    command.aliases(aliases);
    if (isLoaded(entry)) (await entry.load())(command, deps, onCode);
  }
  return program;
}

/** The program with all commands loaded, for documentation and completion. It cannot be run. */
export async function wholeProgram(): Promise<Command> {
  const no = () => Promise.reject(new Error("this program is for documentation only and cannot run"));
  const deps = { env: {}, serve: no, demo: no, doctor: no, stdin: no, out: () => undefined, err: () => undefined };
  return createProgram(
    deps,
    () => true,
    () => undefined,
  );
}
