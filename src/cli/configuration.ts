/** The options that make a configuration, and the configuration that they make. */
import { readFileSync } from "node:fs";
import { totalmem } from "node:os";
import { type Command, Option } from "commander";
import { defaultDataDir, type LoadedConfig, loadConfig } from "../config.ts";
import { controllerFlags, toConfigSources } from "../config/controller-flags.ts";
import { configFields, type Field } from "../config/fields.ts";
import { findKluctlFile } from "../config/kluctl-file.ts";

type Flags = Readonly<Record<string, unknown>>;
type Env = Readonly<Record<string, string | undefined>>;

export const readFile = (path: string): string => readFileSync(path, "utf8");

/** From our own options, by the names that commander gives them. */
export function loadFromFlags(env: Env, flags: Flags): LoadedConfig {
  const argvFlags = Object.fromEntries(
    flagFields().map(({ path, flag }) => [path, flags[new Option(flag).attributeName()]]),
  );
  return loadConfig({ env, argvFlags: { ...argvFlags, config: flags["config"] }, readFile });
}

/** From kluctl's options and variables. */
export function loadFromControllerFlags(env: Env, flags: Flags): LoadedConfig {
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
    file: findKluctlFile(env, readFile),
    dataDir: defaultDataDir(env),
    memoryBytes: Math.min(process.constrainedMemory(), totalmem()) % totalmem(), // 0: the machine's
  });
  return loadConfig({ env, argvFlags: { ...argvFlags, config: flags["config"] }, flagNames, defaults, readFile });
}

/** There are many: `--help` leaves them out, or nobody would find the others among them. */
export function withConfigFlags(command: Command): Command {
  command.option("-c, --config <file>", "configuration file (TOWLINE_CONFIG)");
  const options = flagFields().map((field) => {
    const description = `${(field.description ?? "").replaceAll("`", "")} (${field.variable})`;
    return new Option(field.flag + valueText(field), description).hideHelp();
  });
  for (const option of options) command.addOption(option);
  return command
    .option("--help-all", "this help, with every key of the configuration: each is an option too")
    .on("option:help-all", () => {
      for (const option of options) option.hidden = false;
      command.help();
    });
}

/** Values are read later, by Go's rules: what is a flag without one may have one after a `=`. */
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
