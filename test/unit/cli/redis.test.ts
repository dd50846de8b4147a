import { expect, onTestFinished, test, vi } from "vitest";
import { openRedisOrWarn } from "../../../src/cli/redis.ts";
import type { Config } from "../../../src/config.ts";

test("a command that only adds what Redis knows does not fail if Redis cannot be opened", async () => {
  // Too long for a socket, and there is no place for a shorter one.
  onTestFinished(() => void vi.unstubAllEnvs());
  vi.stubEnv("TMPDIR", import.meta.filename);
  const config = { redis: {}, dataDir: `/${"long/".repeat(40)}` } as Config;
  const warnings: string[] = [];
  expect(await openRedisOrWarn(config, (text) => void warnings.push(text))).toBeUndefined();
  expect(warnings).toEqual([expect.stringMatching(/^cannot open the server's Redis: .*\n$/)]);
});
