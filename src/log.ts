/** The logger, and what it never prints. */
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
  /** `auto`: for people if stdout is a terminal. */
  readonly format: "json" | "pretty" | "auto";
  /** Values that must not appear in any line. */
  readonly secrets?: readonly string[] | SecretList | undefined;
  /** stdout, if left out. */
  readonly destination?: DestinationStream | undefined;
}

/** One JSON object per line, or the same for people. */
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
    // What a name does not give away, the scrubber looks for.
    formatters: { level: (label) => ({ level: label }), log: maskNamed },
    serializers: { err: (error: Error) => maskNamed({ ...pino.stdSerializers.err(error) }) },
    // `ts` besides `time`: kluctl's command line reads the logs of its controller by that name.
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
  // Written at once: what was logged right before a crash is what everybody wants to read.
  const logger = pino(options, destination ?? pino.destination({ fd: stdout.fd, sync: true }));
  // Children come by it from their parent. pino hands what they always say to no formatter.
  const { child } = logger;
  logger.child = function childWithoutSecrets(this: Logger, bindings, ...rest) {
    const made = child.call(this, maskNamed(bindings), ...rest);
    // A child goes with its parent's level, unless it has its own. To pino one that is equal now is none.
    const own = rest[0]?.level;
    if (own !== undefined) {
      made.level = "silent";
      made.level = own;
    }
    return made;
  } as Logger["child"];
  return logger;
}
