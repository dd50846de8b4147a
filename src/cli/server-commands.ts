/** `towline serve` and `towline controller run`: one server, two sets of options. */
import { type Config, knownSecrets } from "../config.ts";
import { createLoader, type ReadFile } from "../config/loader.ts";
import { createLogger, createSecretList } from "../log.ts";
import type { Define, ProgramDeps } from "./commands.ts";
import {
  loadFromControllerFlags,
  loadFromFlags,
  readFile,
  withConfigFlags,
  withControllerFlags,
} from "./configuration.ts";

const exitCodes = `
Exit codes:
  0  The server was stopped
  1  Failure
  2  Invalid command line or configuration`;

const serveHelp = `
Every configuration key can be set as an option, as a variable or in the file: see --help-all or docs/configuration.md.
Options take precedence over variables, and variables over the file. Secrets are never options.

Examples:
  TOWLINE_GITHUB_WEBHOOK_SECRET_FILE=/run/secrets/github towline serve
  towline serve --config towline.yaml --log-level debug
${exitCodes}`;

const controllerHelp = `
Every option can be set as a variable: --controller-name is KLUCTL_CONTROLLER_NAME. All other settings of Towline are
TOWLINE_* variables or keys of its configuration file: docs/configuration.md.

Examples:
  towline controller run --leader-elect --concurrency 8
${exitCodes}`;

export const defineServe: Define = (command, { env, serve }, onCode) => {
  withConfigFlags(command)
    .addHelpText("after", serveHelp)
    .action(async (flags: Readonly<Record<string, unknown>>) => {
      onCode(await run(serve, (read) => loadFromFlags(env, flags, read).config));
    });
};

export const defineControllerRun: Define = (command, { env, serve }, onCode) => {
  withControllerFlags(command)
    .addHelpText("after", controllerHelp)
    .action(async (flags: Readonly<Record<string, unknown>>) => {
      onCode(await run(serve, (read) => loadFromControllerFlags(env, flags, read).config));
    });
};

function run(serve: ProgramDeps["serve"], loadWith: (read: ReadFile) => Config): Promise<number> {
  const load = createLoader(loadWith, readFile);
  const config = load();
  const secrets = createSecretList(knownSecrets(config));
  return serve(config, createLogger({ ...config.log, secrets }), { load, secrets });
}
