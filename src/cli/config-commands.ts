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
  0  the configuration is valid
  2  it is not, and every problem is named; or the command line is wrong`;

const printHelp = `
What is printed could be a configuration file. Beside each value that did not come from the file stands where it came
from: an option, a variable, or the default. Secrets are ***. With -o json the values alone are printed.

  towline config print                           what a server that is started like this would do
  towline config print --config towline.yaml     the same, with a file
  towline config print | grep TOWLINE_           only what variables have set
${exitCodes}`;

const validateHelp = `
It reads what \`towline serve\` would read: options, variables and the file, and the files that hold secrets. It connects
to nothing; \`towline doctor\` does.

  towline config validate --config towline.yaml
${exitCodes}`;

const schemaHelp = `
  towline config schema > towline.schema.json
  # yaml-language-server: $schema=./towline.schema.json     (the first line of towline.yaml, for editors)`;

export const defineConfigPrint: Define = (command, { env, out }) => {
  withConfigFlags(command)
    .addOption(new Option("-o, --output <format>", "how to print it").choices(["yaml", "json"]).default("yaml"))
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
