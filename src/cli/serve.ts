/** Runs the server in this process, with handlers for signals and uncaught errors. */
import { constants } from "node:os";
import { type Config, configWarnings } from "../config.ts";
import { ConfigError } from "../errors.ts";
import { within } from "../kit/deadline.ts";
import type { Logger } from "../log.ts";
import { startReturningMemory } from "./return-memory.ts";

export interface RunningApp {
  /** Resolves with the reason when the server has to stop without a signal. */
  readonly lost?: Promise<string> | undefined;
  /** How long running work may continue when the server is stopped. */
  drainMs(): number;
  stop(): Promise<void>;
}

export type StartApp = (config: Config, log: Logger) => Promise<RunningApp>;

// Time for a clean stop in addition to running deployments, and for a stop after an unexpected error.
const extraStopMs = 10_000;
// Time for logs to drain. A handle that is still open must not keep the process alive.
const lingerMs = 2_000;

/** Resolves with the exit code once the server has stopped. */
export async function serve(
  config: Config,
  log: Logger,
  start: StartApp,
  warnings: readonly string[] = configWarnings(config),
): Promise<number> {
  const ending = Promise.withResolvers<"stopped" | "crashed">();
  let signalled = false;
  const onSignal = (signal: NodeJS.Signals): void => {
    if (signalled) process.exit(128 + constants.signals[signal]); // a second signal ends the process at once
    signalled = true;
    log.info({ signal }, "stopping; a second signal ends the process at once");
    ending.resolve("stopped");
  };
  const onCrash = (err: unknown): void => {
    log.fatal({ err }, "unexpected error, stopping");
    ending.resolve("crashed");
  };
  process.on("SIGTERM", onSignal).on("SIGINT", onSignal);
  process.on("uncaughtException", onCrash).on("unhandledRejection", onCrash);

  for (const warning of warnings) log.warn(warning);
  const starting = start(config, log);
  const stopReturningMemory = startReturningMemory(log);
  let code: number;
  try {
    let app: RunningApp | undefined;
    // A failed start is an error. A start that hangs can be stopped, and has nothing to drain.
    await Promise.race([starting.then((started) => (app = started)), ending.promise]);
    void starting.then(({ lost }) =>
      lost?.then((reason) => {
        log.fatal({ reason }, "the server cannot continue, stopping");
        ending.resolve("crashed");
      }),
    );
    const why = await ending.promise;
    const boundMs = why === "stopped" && app ? app.drainMs() + extraStopMs : extraStopMs;
    const stopped = starting.then((started) => started.stop()).then(() => true);
    const inTime = await within(boundMs, stopped, () => false, { ref: false });
    if (!inTime) log.error({ boundMs }, "stop timed out, ending the process");
    code = why === "stopped" && inTime ? 0 : 1;
  } catch (error) {
    // Usually a problem that the user has to fix; a stack trace does not help them.
    log.fatal(`the server failed: ${error instanceof Error ? error.message : String(error)}`);
    log.debug({ err: error }, "stack trace of the failure");
    code = error instanceof ConfigError ? 2 : 1;
  }
  stopReturningMemory();
  setTimeout(() => process.exit(code), lingerMs).unref();
  return code;
}
