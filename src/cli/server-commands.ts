/** `towline serve` and `towline controller run`: one server, two sets of options. */
import { type Config, knownSecrets } from "../config.ts";
import { createLogger, createSecretList } from "../log.ts";
import type { Define, ProgramDeps } from "./commands.ts";
import { loadFromControllerFlags, loadFromFlags, withConfigFlags, withControllerFlags } from "./configuration.ts";

const exitCodes = `
Exit codes:
  0  the server was stopped
  1  it failed
  2  the command line or the configuration is wrong`;

const serveHelp = `
Every key of the configuration is an option, a variable and a key of the file: --help-all, or docs/configuration.md.
Options come before variables, and variables before the file. Secrets are never options.

  TOWLINE_GITHUB_WEBHOOK_SECRET_FILE=/run/secrets/github towline serve
  towline serve --config towline.yaml --log-level debug
${exitCodes}`;

const controllerHelp = `
Each option is also a variable, --controller-name is KLUCTL_CONTROLLER_NAME. What else Towline can do is set with
TOWLINE_* variables or a file: docs/configuration.md.

  towline controller run --leader-elect --concurrency 8
${exitCodes}`;

export const defineServe: Define = (command, { env, serve }, onCode) => {
  withConfigFlags(command)
    .addHelpText("after", serveHelp)
    .action(async (flags: Readonly<Record<string, unknown>>) => {
      onCode(await run(serve, () => loadFromFlags(env, flags).config));
    });
};

export const defineControllerRun: Define = (command, { env, serve }, onCode) => {
  withControllerFlags(command)
    .addHelpText("after", controllerHelp)
    .action(async (flags: Readonly<Record<string, unknown>>) => {
      onCode(await run(serve, () => loadFromControllerFlags(env, flags).config));
    });
};

function run(serve: ProgramDeps["serve"], load: () => Config): Promise<number> {
  const config = load();
  const secrets = createSecretList(knownSecrets(config));
  return serve(config, createLogger({ ...config.log, secrets }), { load, secrets });
}
