/** `towline preview-runner`: the other place where previews are rendered. */
import { secretValues } from "../config.ts";
import { createLogger } from "../log.ts";
import type { Define } from "./commands.ts";
import { loadFromFlags, withConfigFlags } from "./configuration.ts";

const help = `
It needs no login and no way to any host: servers connect to it, and all that a preview asks for goes through them. They
know each other by preview.runner.token, which has 24 characters or more and is for nothing else: openssl rand -hex 24

  TOWLINE_PREVIEW_RUNNER_TOKEN_FILE=/run/secrets/runner towline preview-runner
  towline preview-runner --preview-runner-bind-address :8092 --preview-concurrency 4

The server gets the same token, preview.runner.address and preview.isolation: docs/preview-security.md.

Exit codes:
  0  the runner was stopped
  1  it failed
  2  the command line or the configuration is wrong`;

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
