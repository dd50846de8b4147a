/** `towline config …`. */
import { Option } from "commander";
import { parse } from "yaml";
import { configJsonSchema } from "../config/fields.ts";
import { printConfig } from "../config/print.ts";
import type { Define } from "./commands.ts";
import { loadFromFlags, withConfigFlags } from "./configuration.ts";
import { toData } from "./output.ts";

type Flags = Readonly<Record<string, unknown>>;

const exitCodes = `
Exit codes:
  0  The configuration is valid
  2  The configuration is invalid (every problem is printed), or the command line is`;

const printHelp = `
The output is a valid configuration file. A comment beside each value that does not come from the file names its source: an
option, a variable or the default. Secrets are printed as ***. With -o json only the values are printed.

Examples:
  towline config print                           Print what \`towline serve\` would use
  towline config print --config towline.yaml     The same with a configuration file
  towline config print | grep TOWLINE_           Only values set by variables
${exitCodes}`;

const validateHelp = `
Reads the same input as \`towline serve\`: options, variables, the configuration file and files with secrets. It connects to
nothing; \`towline doctor\` checks the cluster, git hosts and Redis.

Examples:
  towline config validate --config towline.yaml
${exitCodes}`;

const schemaHelp = `
  towline config schema > towline.schema.json
  # yaml-language-server: $schema=./towline.schema.json     (as the first line of towline.yaml)`;

export const defineConfigPrint: Define = (command, { env, out }) => {
  withConfigFlags(command)
    .addOption(new Option("-o, --output <format>", "Output format").choices(["yaml", "json"]).default("yaml"))
    .addHelpText("after", printHelp)
    .action(({ output, ...flags }: Flags) => {
      const text = printConfig(loadFromFlags(env, flags));
      out(output === "json" ? toData("json", parse(text)) : text);
    });
};

export const defineConfigValidate: Define = (command, { env, out }) => {
  withConfigFlags(command)
    .addHelpText("after", validateHelp)
    .action((flags: Flags) => {
      loadFromFlags(env, flags);
      out("the configuration is valid\n");
    });
};

export const defineConfigSchema: Define = (command, { out }) => {
  command.addHelpText("after", schemaHelp).action(() => out(`${JSON.stringify(configJsonSchema(), undefined, 2)}\n`));
};
