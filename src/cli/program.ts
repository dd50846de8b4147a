/** The commands. */
import { readFileSync } from "node:fs";
import { totalmem } from "node:os";
import { Command, CommanderError, Option } from "commander";
import { type Config, defaultDataDir, type LoadedConfig, loadConfig, secretValues } from "../config.ts";
import { controllerFlags, toConfigSources } from "../config/controller-flags.ts";
import { configFields, configJsonSchema, type Field } from "../config/fields.ts";
import { printConfig } from "../config/print.ts";
import { ConfigError } from "../errors.ts";
import { createLogger, type Logger } from "../log.ts";
import { addDoctor, type DoctorCommandDeps } from "./doctor.ts";
import { addMigrate } from "./migrate.ts";
import { readVersion } from "./version.ts";

export interface ProgramDeps {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Runs the server until it is stopped, and returns the exit code. */
  readonly serve: (config: Config, log: Logger) => Promise<number>;
  readonly doctor: DoctorCommandDeps["run"];
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
}

type Flags = Readonly<Record<string, unknown>>;

const exitCodes = `
Exit codes:
  0  it worked, or the server was stopped
  1  it failed
  2  the command line or the configuration is wrong`;

const secretsHint = `
Each option is also a variable, and a key of the configuration file: docs/configuration.md.
Options come before variables, and variables before the file. Secrets are never options.`;

const controllerHint = `
Each option is also a variable, --controller-name is KLUCTL_CONTROLLER_NAME. What else Towline can do is set with
TOWLINE_* variables or a file: docs/configuration.md.`;

/** Runs one command and returns its exit code. */
export async function runProgram(
  argv: readonly string[],
  { env, serve, doctor, out, err }: ProgramDeps,
): Promise<number> {
  const load = (flags: Flags): LoadedConfig => {
    const argvFlags = Object.fromEntries(
      flagFields().map(({ path, flag }) => [path, flags[new Option(flag).attributeName()]]),
    );
    return loadConfig({ env, argvFlags: { ...argvFlags, config: flags["config"] }, readFile });
  };
  const readFile = (path: string): string => readFileSync(path, "utf8");
  const loadController = (flags: Flags): LoadedConfig => {
    const argv = Object.fromEntries(
      // commander takes --no-… for the opposite of an option; those that kluctl has mean nothing here.
      controllerFlags.map(({ name }) => [
        name,
        name.startsWith("--no-") ? undefined : flags[new Option(name).attributeName()],
      ]),
    );
    const {
      flags: argvFlags,
      flagNames,
      defaults,
    } = toConfigSources({
      argv,
      env,
      dataDir: defaultDataDir(env),
      memoryBytes: Math.min(process.constrainedMemory(), totalmem()) % totalmem(), // 0: the machine's
    });
    return loadConfig({ env, argvFlags: { ...argvFlags, config: flags["config"] }, flagNames, defaults, readFile });
  };
  let code = 0;

  const program = new Command("towline")
    .description("A GitOps server for kluctl: a push deploys within seconds.")
    .version(readVersion().version, "-V, --version", "print the version")
    .helpCommand(false)
    .exitOverride()
    .configureOutput({ writeOut: out, writeErr: err })
    .showHelpAfterError("Try --help.")
    .addHelpText("after", exitCodes);

  withConfigFlags(program.command("serve"))
    .description("receive webhooks and deploy, until it is stopped")
    .addHelpText("after", `${secretsHint}\n${exitCodes}`)
    .action(async (flags: Flags) => {
      const { config } = load(flags);
      code = await serve(config, createLogger({ ...config.log, secrets: secretValues(config) }));
    });

  withControllerFlags(program.command("controller").description("take the place of kluctl's controller").command("run"))
    .description("run with the options and KLUCTL_* variables of `kluctl controller run`")
    .addHelpText("after", `${controllerHint}\n${exitCodes}`)
    .action(async (flags: Flags) => {
      const { config } = loadController(flags);
      code = await serve(config, createLogger({ ...config.log, secrets: secretValues(config) }));
    });

  addDoctor(
    withConfigFlags(program.command("doctor")),
    { load, run: doctor, env, out, err },
    (found) => (code = found),
  );

  addMigrate(program.command("migrate"), { load, out, err }, (found) => (code = found));

  const config = program.command("config").description("look at the configuration");
  withConfigFlags(config.command("print"))
    .description("print the effective configuration and where each value comes from; secrets are masked")
    .action((flags: Flags) => out(printConfig(load(flags))));
  withConfigFlags(config.command("validate"))
    .description("say everything that is wrong with the configuration")
    .action((flags: Flags) => {
      load(flags);
      out("the configuration is valid\n");
    });
  config
    .command("schema")
    .description("print the JSON schema of the configuration file, for editors")
    .action(() => out(`${JSON.stringify(configJsonSchema(), undefined, 2)}\n`));

  program
    .command("version")
    .description("print the version as JSON")
    .action(() => out(`${JSON.stringify(readVersion())}\n`));

  try {
    await program.parseAsync(argv, { from: "user" });
    return code;
  } catch (error) {
    // commander has already said it; help and --version end this way as well, with 0
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    err(`towline: ${error instanceof Error ? error.message : String(error)}\n`);
    return error instanceof ConfigError ? 2 : 1;
  }
}

function withConfigFlags(command: Command): Command {
  command.option("-c, --config <file>", "configuration file (TOWLINE_CONFIG)");
  for (const field of flagFields()) {
    const description = `${(field.description ?? "").replaceAll("`", "")} (${field.variable})`;
    command.addOption(new Option(field.flag + valueText(field), description));
  }
  return command;
}

/** Values are read later, by Go's rules: what is a flag without one may have one after a `=`. */
function withControllerFlags(command: Command): Command {
  command.option("-c, --config <file>", "Towline's configuration file (TOWLINE_CONFIG)");
  for (const { name, kind, description } of controllerFlags) {
    command.addOption(new Option(kind === "boolean" ? `${name} [bool]` : `${name} <${kind}>`, description));
  }
  return command;
}

function flagFields(): readonly (Field & { flag: string })[] {
  return configFields().filter((field): field is Field & { flag: string } => field.flag !== undefined);
}

function valueText({ kind, choices }: Field): string {
  if (kind === "boolean") return "";
  return choices ? ` <${choices.join("|")}>` : kind === "text" ? " <text>" : kind === "list" ? " <a,b,…>" : " <n>";
}
