/** Runs Lua scripts atomically in Redis. */
import { hash } from "node:crypto";
import type { Redis } from "ioredis";

export interface Script {
  readonly text: string;
  readonly sha: string;
}

export function prepare(text: string): Script {
  return { text, sha: hash("sha1", text) };
}

/** Runs a script by its hash, which Redis knows after the first run, until it restarts. */
export async function evaluate(
  connection: Redis,
  { text, sha }: Script,
  keys: readonly string[],
  args: readonly (string | number)[],
): Promise<unknown> {
  const rest = [keys.length, ...keys, ...args] as const;
  return connection.evalsha(sha, ...rest).catch((error: unknown) => {
    if (!(error instanceof Error && error.message.startsWith("NOSCRIPT"))) throw error;
    return connection.eval(text, ...rest);
  });
}
