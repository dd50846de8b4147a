/** Runs the server as this process: signals, and what to do about errors that nobody caught. */
import { constants } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { type Config, configWarnings } from "../config.ts";
import { ConfigError } from "../errors.ts";
import type { Logger } from "../log.ts";
import { startGivingBack } from "./spare-memory.ts";

export interface App {
  /** Resolves with the reason when it has to end although nobody asked. */
  readonly lost?: Promise<string> | undefined;
  /** How long running work may go on when it is stopped. */
  drainMs(): number;
  stop(): Promise<void>;
}

export type StartApp = (config: Config, log: Logger) => Promise<App>;

// For what a clean stop takes besides the running deployments, and for a stop after an unforeseen error.
const extraStopMs = 10_000;
// For logs to drain. A handle that somebody forgot to close must not keep the process.
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
    if (signalled) process.exit(128 + constants.signals[signal]); // who asks twice does not want to wait
    signalled = true;
    log.info({ signal }, "asked to stop; a second signal ends it at once");
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
  const stopGivingBack = startGivingBack(log);
  let code: number;
  try {
    let app: App | undefined;
    // A start that fails is an error; one that hangs can be stopped, and has nothing to drain.
    await Promise.race([starting.then((started) => (app = started)), ending.promise]);
    void starting.then(({ lost }) =>
      lost?.then((reason) => {
        log.fatal({ reason }, "this server may not go on, stopping");
        ending.resolve("crashed");
      }),
    );
    const why = await ending.promise;
    const boundMs = why === "stopped" && app ? app.drainMs() + extraStopMs : extraStopMs;
    const stopped = starting.then((started) => started.stop()).then(() => true);
    const inTime = await Promise.race([stopped, sleep(boundMs, false, { ref: false })]);
    if (!inTime) log.error({ boundMs }, "not stopped in time, giving up");
    code = why === "stopped" && inTime ? 0 : 1;
  } catch (error) {
    // Mostly what a person has to mend, and says so; where it comes from in our sources does not help them.
    log.fatal(`the server failed: ${error instanceof Error ? error.message : String(error)}`);
    log.debug({ err: error }, "where it failed");
    code = error instanceof ConfigError ? 2 : 1;
  }
  stopGivingBack();
  setTimeout(() => process.exit(code), lingerMs).unref();
  return code;
}
