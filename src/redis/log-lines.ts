/**
 * Stores kluctl's last output for each deployment in Redis, so that every replica can show it during a run and for some
 * minutes afterwards. It is for display only: if it cannot be written, no work is lost.
 */
import type { Redis } from "ioredis";
import { z } from "zod";
import { parseJson } from "../kit/json.ts";
import { type Key, keyText } from "../model.ts";
import type { Logger } from "../log.ts";
import { createReadiness, describeRedisError, withinDeadline } from "./connection.ts";

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
  tell(deployment: Key, line: LogLine): void;
  /**
   * Reads the lines after `last` for each deployment, in one round trip; `"0"` is the beginning. Throws
   * QueueUnavailableError.
   */
  read(wanted: readonly { readonly key: Key; readonly last: string }[]): Promise<readonly ReadLines[]>;
  /** Writes pending lines. */
  flush(): Promise<void>;
}

const keepMs = 10 * 60_000;
/**
 * Lines within this time are written together: a reconciliation costs two or three commands, however much kluctl
 * prints.
 */
const gatherMs = 200;
/** Per deployment; each entry contains the lines within `gatherMs`. */
const mostEntries = 64;
/** For all deployments together, while Redis does not accept writes. */
const mostUnwritten = 5_000;

export function createLogLines({ connection, prefix, log }: LogLinesDeps): LogLines {
  const ready = createReadiness(connection);
  const nameOf = (key: string) => `${prefix}:log:${key}`;
  let unwritten = new Map<string, LogLine[]>();
  let count = 0;
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<void> = Promise.resolve();

  async function write(): Promise<void> {
    const batch = unwritten;
    unwritten = new Map();
    count = 0;
    if (batch.size === 0) return;
    try {
      await withinDeadline("store log lines", 2_000, async (signal) => {
        await ready(signal);
        const pipeline = connection.pipeline();
        for (const [key, lines] of batch) {
          pipeline
            .xadd(nameOf(key), "MAXLEN", mostEntries, "*", "lines", JSON.stringify(lines))
            .pexpire(nameOf(key), keepMs);
        }
        const failed = (await pipeline.exec())?.find(([error]) => error)?.[0];
        if (failed) throw failed;
      });
    } catch (error) {
      log.debug({ error: describeRedisError(error) }, "could not store log lines");
    }
  }

  function flush(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    return (writing = writing.then(write));
  }

  return {
    flush,
    tell(deployment, line) {
      if (count >= mostUnwritten) return;
      count++;
      const key = keyText(deployment);
      const lines = unwritten.get(key);
      if (lines) lines.push(line);
      else unwritten.set(key, [line]);
      timer ??= setTimeout(() => void flush(), gatherMs);
    },
    async read(wanted) {
      const answers = await withinDeadline("return log lines", 2_000, async (signal) => {
        await ready(signal);
        const pipeline = connection.pipeline();
        for (const { key, last } of wanted) pipeline.xrange(nameOf(keyText(key)), last === "0" ? "-" : `(${last}`, "+");
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
