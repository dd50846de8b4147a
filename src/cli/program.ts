/** Runs one command. Only that command's own modules are loaded, so that `towline --help` answers at once. */
import { Command, CommanderError } from "commander";
import { ConfigError } from "../errors.ts";
import { describeError } from "./describe-error.ts";
import { type CommandEntry, commands, groups, type ProgramDeps } from "./commands.ts";
import { readVersion } from "./version.ts";

export type { ProgramDeps } from "./commands.ts";

const help = `
Begin with
  towline get deployments            which is ready, at which commit, and what each waits for
  towline trace 3f2c1ab              where a commit is
  towline preview                    what merging this working copy would change in the live cluster
  towline doctor                     whether cluster, git hosts, Redis and kluctl are as the server needs them
  towline serve                      the server itself
  towline <command> --help           every command's help has examples

Exit codes:
  0  it worked, or the server was stopped
  1  it failed
  2  the command line or the configuration is wrong
Where a command has others, its help says so.`;

/** Returns the exit code. */
export async function runProgram(typed: readonly string[], deps: ProgramDeps): Promise<number> {
  const argv = typed[0] === "help" ? [...typed.slice(1), "--help"] : typed; // as with kubectl and others
  let code = 0;
  const [first, second] = argv.filter((word) => !word.startsWith("-"));
  const isMeant = ({ path: [group, name], aliases = [] }: CommandEntry) =>
    group === first && (name === undefined || [name, ...aliases].some((one) => one === second));
  const program = await createProgram(deps, isMeant, (found) => (code = found));
  try {
    await program.parseAsync(argv, { from: "user" });
    return code;
  } catch (error) {
    // commander has already said it; help and --version end this way as well, with 0
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    deps.err(`towline: ${describeError(error)}\n`);
    return error instanceof ConfigError ? 2 : 1;
  }
}

/** All commands by name; those that are wanted whole, with their options, help and action. */
async function createProgram(
  deps: ProgramDeps,
  isWanted: (entry: CommandEntry) => boolean,
  onCode: (code: number) => void,
): Promise<Command> {
  const program = new Command("towline")
    .description("A GitOps server for kluctl: a push deploys within seconds.")
    .version(readVersion().version, "-V, --version", "print the version")
    .helpCommand(false)
    .exitOverride()
    .configureOutput({ writeOut: deps.out, writeErr: deps.err })
    .showHelpAfterError("Try --help.")
    .addHelpText("after", help);

  for (const entry of commands) {
    const { path, aliases = [], summary, section } = entry;
    const [name, inner] = path;
    const outer = program.commands.find((command) => command.name() === name) ?? program.command(name);
    if (inner !== undefined) outer.helpCommand(false);
    outer.description(inner === undefined ? summary : (groups[name] ?? "")).helpGroup(section);
    const command = inner === undefined ? outer : outer.command(inner).description(summary);
    command.aliases(aliases);
    if (isWanted(entry)) (await entry.load())(command, deps, onCode);
  }
  return program;
}

/** With every command whole, for who describes them all. It cannot be run. */
export async function wholeProgram(): Promise<Command> {
  const no = () => Promise.reject(new Error("this program is only looked at"));
  const deps = { env: {}, serve: no, doctor: no, stdin: no, out: () => undefined, err: () => undefined };
  return createProgram(
    deps,
    () => true,
    () => undefined,
  );
}
