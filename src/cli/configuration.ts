/** Command-line options for configuration keys, and the configuration loaded from them. */
import { readFileSync } from "node:fs";
import { totalmem } from "node:os";
import { type Command, Option } from "commander";
import { type LoadedConfig, loadConfig } from "../config.ts";
import { defaultDataDir } from "../config/to-config.ts";
import { controllerFlags, toConfigSources } from "../config/controller-flags.ts";
import { configFields, type Field } from "../config/fields.ts";
import { findKluctlFile } from "../config/kluctl-file.ts";

type Flags = Readonly<Record<string, unknown>>;
type Env = Readonly<Record<string, string | undefined>>;

export const readFile = (path: string): string => readFileSync(path, "utf8");

/** Loads the configuration with Towline's own options, by the names that commander gives them. */
export function loadFromFlags(env: Env, flags: Flags, read = readFile): LoadedConfig {
  const argvFlags = Object.fromEntries(
    flagFields().map(({ path, flag }) => [path, flags[new Option(flag).attributeName()]]),
  );
  return loadConfig({ env, argvFlags: { ...argvFlags, config: flags["config"] }, readFile: read });
}

/** Loads the configuration with the options and variables of `kluctl controller run`. */
export function loadFromControllerFlags(env: Env, flags: Flags, read = readFile): LoadedConfig {
  const argv = Object.fromEntries(
    // commander reads --no-… as the negation of an option; kluctl's options of that form have no effect here.
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
    file: findKluctlFile(env, read),
    dataDir: defaultDataDir(env),
    memoryBytes: Math.min(process.constrainedMemory(), totalmem()) % totalmem(), // 0: the machine's memory
  });
  return loadConfig({ env, argvFlags: { ...argvFlags, config: flags["config"] }, flagNames, defaults, readFile: read });
}

/** Adds an option for every key. `--help` hides them because they are many; `--help-all` lists them. */
export function withConfigFlags(command: Command): Command {
  command.option("-c, --config <file>", "Configuration file (TOWLINE_CONFIG)");
  const options = flagFields().map((field) => {
    const description = `${(field.description ?? "").replaceAll("`", "")} (${field.variable})`;
    return new Option(field.flag + valueText(field), description).hideHelp();
  });
  for (const option of options) command.addOption(option);
  return command
    .option("--help-all", "Show this help with an option for every configuration key")
    .on("option:help-all", () => {
      for (const option of options) option.hidden = false;
      command.help();
    });
}

/** Values are parsed later by Go's rules: a boolean option may have a value after `=`. */
export function withControllerFlags(command: Command): Command {
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
