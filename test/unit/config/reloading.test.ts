import { expect, onTestFinished, test, vi } from "vitest";
import type { ConfigChange } from "../../../src/config/compare.ts";
import { startReloading } from "../../../src/config/reloading.ts";
import { parseConfig } from "../../../src/config.ts";
import { createLogger, createSecretList } from "../../../src/log.ts";

function useReloading() {
  const env: Record<string, string | undefined> = { TOWLINE_GITHUB_WEBHOOK_SECRET: "secret-of-github-1" };
  const lines: string[] = [];
  const applied: ConfigChange[] = [];
  const seen = { ok: true, restart: false, looks: 0 };
  const world = { env, lines, applied, seen, refuses: false, reads: 0 };
  const load = () => {
    world.reads++;
    return parseConfig({ env: { ...world.env } });
  };
  const stop = startReloading({
    config: load(),
    load,
    apply: (change) => {
      if (world.refuses) return Promise.reject(new Error("it cannot be opened"));
      applied.push(change);
      return Promise.resolve();
    },
    observe: {
      configLoaded: (ok, restart) => void Object.assign(seen, { ok, restart, looks: seen.looks + 1 }),
    },
    log: createLogger({ level: "info", format: "json", destination: { write: (line) => void lines.push(line) } }),
    everyMs: 5,
  });
  onTestFinished(stop);
  /** Resolves after whole looks that began later than now. */
  const looked = async () => {
    const { looks } = seen;
    await vi.waitFor(() => expect(seen.looks).toBeGreaterThan(looks + 2), { timeout: 10_000 });
  };
  return { ...world, world, looked, messages: () => lines.map((line) => (JSON.parse(line) as { msg: string }).msg) };
}

test("what changed is taken over once", async () => {
  const { env, applied, seen, looked, messages, lines } = useReloading();
  env["TOWLINE_GITHUB_WEBHOOK_SECRET"] = "secret-of-github-2";
  await looked();
  expect(applied.map(({ webhooks }) => webhooks.map(({ id }) => id))).toEqual([["github"]]);
  expect(seen).toMatchObject({ ok: true, restart: false });
  expect(messages()).toEqual(["the configuration was reloaded"]);
  expect(lines.join()).not.toContain("secret-of-github");
});

test("what cannot be used is told once, and the last good one stays", async () => {
  const { env, applied, seen, looked, messages, lines } = useReloading();
  env["TOWLINE_GITHUB_WEBHOOK_SECRET"] = "bad";
  await looked();
  expect(applied).toEqual([]);
  expect(seen.ok).toBe(false);
  expect(messages()).toEqual(["the configuration cannot be used as it is now: the last good one stays in effect"]);
  expect(lines.join()).toContain("TOWLINE_GITHUB_WEBHOOK_SECRET");
  env["TOWLINE_GITHUB_WEBHOOK_SECRET"] = "secret-of-github-1";
  await looked();
  expect(seen.ok).toBe(true);
  expect(messages()).toHaveLength(2);
});

test("what is read at the start only asks for a restart, until it is as it was", async () => {
  const { env, applied, seen, looked, messages, lines } = useReloading();
  env["TOWLINE_LOG_LEVEL"] = "debug";
  await looked();
  expect(seen).toMatchObject({ ok: true, restart: true });
  expect(messages()).toEqual(["these keys have changed and are read at the start only: restart the server"]);
  expect(lines.join()).toContain("log.level");
  expect(applied[0]?.webhooks).toEqual([]);
  env["TOWLINE_LOG_LEVEL"] = undefined;
  await looked();
  expect(seen.restart).toBe(false);
});

test("what cannot be taken over is tried again", async () => {
  const { env, applied, seen, looked, world } = useReloading();
  world.refuses = true;
  env["TOWLINE_GITHUB_WEBHOOK_SECRET"] = "secret-of-github-2";
  await looked();
  expect([applied.length, seen.ok]).toEqual([0, false]);
  world.refuses = false;
  await looked();
  expect([applied.length, seen.ok]).toEqual([1, true]);
});

test("a secret that comes later is hidden from then on, and the old ones stay so", () => {
  const list = createSecretList(["old-secret"]);
  expect(list.scrub("old-secret new-secret")).toBe("*** new-secret");
  list.add(["new-secret"]);
  expect(list.scrub("old-secret new-secret")).toBe("*** ***");
});
