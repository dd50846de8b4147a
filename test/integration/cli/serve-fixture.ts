/**
 * Serves an app whose behaviour the arguments select, in the way the real app is served: for failures that a test
 * cannot provoke in the real server.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { serve, type StartApp } from "../../../src/cli/serve.ts";
import { parseConfig } from "../../../src/config.ts";
import { createLogger } from "../../../src/log.ts";

const behaviour = new Set(process.argv.slice(2));
const log = createLogger({ level: "info", format: "json" });

const start: StartApp = async () => {
  if (behaviour.has("hang-at-start")) await new Promise(() => setInterval(() => undefined, 1_000));
  if (behaviour.has("fail-at-start")) throw new Error("port 8080 is in use");
  const alive = setInterval(() => undefined, 1_000);
  if (behaviour.has("throw")) setTimeout(boom, 1);
  if (behaviour.has("reject")) void Promise.reject(new Error("boom"));
  log.info("started");
  return {
    drainMs: () => 0,
    async stop() {
      if (behaviour.has("hang-at-stop")) await sleep(60_000);
      if (behaviour.has("fail-at-stop")) throw new Error("cannot stop");
      if (!behaviour.has("leak")) clearInterval(alive);
      log.info("stopped");
    },
  };
};

function boom(): void {
  throw new Error("boom");
}

process.exitCode = await serve(parseConfig({ env: { TOWLINE_SHUTDOWN_DRAIN: "0s" } }), log, start);
