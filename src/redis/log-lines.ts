/**
 * Stores kluctl's last output for each deployment in Redis, so that every replica can show it during a run and for some
 * minutes afterwards. It is for display only: if it cannot be written, no work is lost.
 */
import type { Redis } from "ioredis";
import { z } from "zod";
import { parseJson } from "../kit/json.ts";
import { type Key, keyText } from "../model.ts";
import type { Logger } from "../log.ts";
import { createBufferedWriter } from "./buffered-writer.ts";
import { createReadiness, withinDeadline } from "./connection.ts";

const Line = z.object({ at: z.number(), job: z.string(), command: z.string(), text: z.string() });
export type LogLine = z.infer<typeof Line>;

export interface LogLinesDeps {
  /** A producer's connection, see connection.ts. */
  readonly connection: Redis;
  /** The prefix of all keys in Redis. */
  readonly prefix: string;
  readonly log: Logger;
}

export interface ReadLines {
  readonly lines: readonly LogLine[];
  /** Where to continue reading. */
  readonly last: string;
}

export interface LogLines {
  /** Returns at once and never throws. */
  add(deployment: Key, line: LogLine): void;
  /**
   * Reads the lines after `last` for each deployment, in one round trip; `"0"` is the beginning. Throws
   * QueueUnavailableError.
   */
  read(wanted: readonly { readonly key: Key; readonly last: string }[]): Promise<readonly ReadLines[]>;
  /** Writes pending lines. */
  flush(): Promise<void>;
}

const keepMs = 10 * 60_000;
/** Per deployment; each entry contains the lines that are written together. */
const mostEntries = 64;
/** For all deployments together, while Redis does not accept writes. */
const mostUnwritten = 5_000;

export function createLogLines({ connection, prefix, log }: LogLinesDeps): LogLines {
  const ready = createReadiness(connection);
  const nameOf = (key: Key) => `${prefix}:log:${keyText(key)}`;
  const writer = createBufferedWriter<LogLine>({
    ...{ connection, ready, log, what: "log lines", most: mostUnwritten },
    write(pipeline, name, lines) {
      pipeline.xadd(name, "MAXLEN", mostEntries, "*", "lines", JSON.stringify(lines)).pexpire(name, keepMs);
    },
  });

  return {
    flush: writer.flush,
    add: (deployment, line) => writer.add(nameOf(deployment), line),
    async read(wanted) {
      const answers = await withinDeadline("return log lines", 2_000, async (signal) => {
        await ready(signal);
        const pipeline = connection.pipeline();
        for (const { key, last } of wanted) pipeline.xrange(nameOf(key), last === "0" ? "-" : `(${last}`, "+");
        const found = (await pipeline.exec()) ?? [];
        const failed = found.find(([error]) => error)?.[0];
        if (failed) throw failed;
        return found;
      });
      return wanted.map(({ last }, index) => {
        const [, entries] = answers[index] ?? [];
        const found = (entries ?? []) as [id: string, fields: string[]][];
        return { lines: found.flatMap(([, [, json = ""]]) => parse(json)), last: found.at(-1)?.[0] ?? last };
      });
    },
  };
}

/** Ignores data of another version. */
function parse(json: string): readonly LogLine[] {
  return z.array(Line).safeParse(parseJson(json)).data ?? [];
}
