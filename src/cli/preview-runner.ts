/** `towline preview-runner`: renders previews outside of the server. */
import { secretValues } from "../config.ts";
import { createLogger } from "../log.ts";
import type { Define } from "./commands.ts";
import { loadFromFlags, withConfigFlags } from "./configuration.ts";

const help = `
The runner needs no credentials and no network access: servers connect to it, and every request of a preview goes through
them. Both authenticate with preview.runner.token, 24 characters or more, used for nothing else: openssl rand -hex 24

Examples:
  TOWLINE_PREVIEW_RUNNER_TOKEN_FILE=/run/secrets/runner towline preview-runner
  towline preview-runner --preview-runner-bind-address :8092 --preview-concurrency 4

Configure the server with the same token, preview.runner.address and preview.isolation: docs/preview-security.md.

Exit codes:
  0  The runner was stopped
  1  Failure
  2  Invalid command line or configuration`;

export const definePreviewRunner: Define = (command, { env }, onCode) => {
  withConfigFlags(command)
    .addHelpText("after", help)
    .action(async (flags: Readonly<Record<string, unknown>>) => {
      const { config } = loadFromFlags(env, flags);
      const { serve } = await import("./serve.ts");
      const { startPreviewRunner } = await import("../app/preview-runner.ts");
      const log = createLogger({ ...config.log, secrets: secretValues(config) });
      onCode(await serve(config, log, async (...args) => startPreviewRunner(...args, { ...env }), []));
    });
};
