/**
 * The format of all that is stored in Redis. Requests, reports and records also have a version each (`v`), and one that is unknown
 * counts as not stored; the rest, such as lists and times, has only this number.
 */
import type { Redis } from "ioredis";
import { evaluate, prepare } from "./scripts.ts";

/** Raised by a version that stores something in such a way that earlier ones would misread it. */
export const storedFormat = 1;

const formatKey = (prefix: string) => `${prefix}:format`;

/** KEYS: the key. ARGV: the format. Never lowers it. */
const raise = prepare(`
if tonumber(redis.call('GET', KEYS[1]) or 0) < tonumber(ARGV[1]) then redis.call('SET', KEYS[1], ARGV[1]) end
return 0
`);

/** Records that this version has stored something, so that an earlier one can refuse to use it. */
export async function recordFormat(redis: Redis, prefix: string): Promise<void> {
  await evaluate(redis, raise, [formatKey(prefix)], [storedFormat]);
}

/** Why this version cannot use what is stored, as text for operators; `undefined` if it can. */
export async function findNewerFormat(redis: Redis, prefix: string): Promise<string | undefined> {
  const stored = Number(await redis.get(formatKey(prefix)));
  if (stored <= storedFormat) return undefined;
  return (
    `Redis holds data of a newer version of Towline under redis.prefix ${JSON.stringify(prefix)}: format ${stored}; this version ` +
    `reads up to ${storedFormat}. Run the newer version, or set another prefix: the next sweep then makes all requests again.`
  );
}
