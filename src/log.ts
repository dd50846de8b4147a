/** The logger and its redaction. */
import { stdout } from "node:process";
import { type DestinationStream, pino } from "pino";
import { prettyFactory } from "pino-pretty";
import { escapeControls, shorten, tame } from "./log/line.ts";
import { maskNamed } from "./log/named.ts";
import { createSecretList, type SecretList } from "./log/scrub.ts";

export { createScrubber, createSecretList, type SecretList } from "./log/scrub.ts";

export type Logger = pino.Logger;

export interface LoggerOptions {
  readonly level: pino.LevelWithSilent;
  /** `auto`: `pretty` if stdout is a terminal. */
  readonly format: "json" | "pretty" | "auto";
  /** Values that must not appear in any line. */
  readonly secrets?: readonly string[] | SecretList | undefined;
  /** Absent: stdout. */
  readonly destination?: DestinationStream | undefined;
}

/** Logs one JSON object per line, or a readable form of it. */
export function createLogger({ level, format, secrets = [], destination }: LoggerOptions): Logger {
  const terminal = destination === undefined && stdout.isTTY;
  const forPeople = format === "pretty" || (format === "auto" && terminal);
  const prettify = forPeople
    ? prettyFactory({
        colorize: terminal && stdout.hasColors(),
        translateTime: "SYS:HH:MM:ss.l",
        ignore: "ts",
        singleLine: true,
      })
    : undefined;
  const list = "scrub" in secrets ? secrets : createSecretList(secrets);
  const options: pino.LoggerOptions = {
    level,
    base: null,
    // Secrets that field names do not reveal are found by the scrubber.
    formatters: { level: (label) => ({ level: label }), log: maskNamed },
    serializers: { err: (error: Error) => maskNamed({ ...pino.stdSerializers.err(error) }) },
    // `ts` in addition to `time`: kluctl's command line reads its controller's logs by that name.
    timestamp: () => {
      const now = new Date().toISOString();
      return `,"time":"${now}","ts":"${now}"`;
    },
    hooks: {
      streamWrite: (line) => {
        const clean = list.scrub(line);
        return prettify ? prettify(tame(clean)) : escapeControls(shorten(clean));
      },
    },
  };
  // Written synchronously, because the lines right before a crash are the most important ones.
  const logger = pino(options, destination ?? pino.destination({ fd: stdout.fd, sync: true }));
  // Child loggers inherit this. pino does not pass the bindings of children to any formatter.
  const { child } = logger;
  logger.child = function childWithoutSecrets(this: Logger, bindings, ...rest) {
    const made = child.call(this, maskNamed(bindings), ...rest);
    // A child follows its parent's level unless it has its own. pino ignores a level equal to the current one, so set
    // another first.
    const own = rest[0]?.level;
    if (own !== undefined) {
      made.level = "silent";
      made.level = own;
    }
    return made;
  } as Logger["child"];
  return logger;
}
