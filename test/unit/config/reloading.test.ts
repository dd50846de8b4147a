import { expect, onTestFinished, test, vi } from "vitest";
import { createLiveConfig } from "../../../src/config/live.ts";
import { startReloading } from "../../../src/config/reloading.ts";
import { type Config, parseConfig } from "../../../src/config.ts";
import { createLogger, createSecretList } from "../../../src/log.ts";

function useReloading() {
  const env: Record<string, string | undefined> = { TOWLINE_GITHUB_WEBHOOK_SECRET: "secret-of-github-1" };
  const lines: string[] = [];
  const applied: Config[] = [];
  const events: string[] = [];
  const seen = { ok: true, restart: false, looks: 0 };
  const load = () => parseConfig({ env: { ...env } });
  const live = createLiveConfig(load());
  live.onChange((next) => void applied.push(next));
  const stop = startReloading({
    live,
    load,
    observe: {
      configLoaded: (ok, restart) => void Object.assign(seen, { ok, restart, looks: seen.looks + 1 }),
    },
    emitEvent: (type, reason) => void events.push(`${type} ${reason}`),
    log: createLogger({ level: "info", format: "json", destination: { write: (line) => void lines.push(line) } }),
    everyMs: 5,
  });
  onTestFinished(stop);
  /** Resolves after two complete checks that began after this call. */
  const looked = async () => {
    const { looks } = seen;
    await vi.waitFor(() => expect(seen.looks).toBeGreaterThan(looks + 2), { timeout: 10_000 });
  };
  const messages = () => lines.map((line) => (JSON.parse(line) as { msg: string }).msg);
  return { env, lines, applied, seen, live, events, looked, messages };
}

test("a change takes effect once", async () => {
  const { env, applied, seen, live, events, looked, messages, lines } = useReloading();
  env["TOWLINE_GITHUB_WEBHOOK_SECRET"] = "secret-of-github-2";
  await looked();
  expect(applied).toHaveLength(1);
  expect(live.now.forges[0]?.webhookSecrets[0]?.reveal()).toBe("secret-of-github-2");
  expect(seen).toMatchObject({ ok: true, restart: false });
  expect(messages()).toEqual(["configuration reloaded"]);
  expect(events).toEqual(["Normal ConfigReloaded"]);
  expect(lines.join()).toContain("forges.github.webhookSecrets");
  expect(lines.join()).not.toContain("secret-of-github");
});

test("an invalid configuration is reported once, and the previous one stays in effect", async () => {
  const { env, applied, seen, events, looked, messages, lines } = useReloading();
  env["TOWLINE_GITHUB_WEBHOOK_SECRET"] = "bad";
  env["TOWLINE_CONCURRENCY"] = "7";
  await looked();
  expect(applied).toEqual([]);
  expect(seen.ok).toBe(false);
  expect(messages()).toEqual(["configuration not reloaded: the previous one stays in effect"]);
  expect(events).toEqual(["Warning ConfigNotReloaded"]);
  expect(lines.join()).toContain("TOWLINE_GITHUB_WEBHOOK_SECRET");
  env["TOWLINE_GITHUB_WEBHOOK_SECRET"] = "secret-of-github-1";
  await looked();
  expect(seen.ok).toBe(true);
  expect(messages().slice(1).sort()).toEqual(["configuration is valid again", "configuration reloaded"]);
});

test("a key that is read at the start only needs a restart until it is reverted, and the other keys take effect", async () => {
  const { env, applied, seen, live, events, looked, messages, lines } = useReloading();
  env["TOWLINE_WEBHOOKS_PORT"] = "1234";
  env["TOWLINE_CONCURRENCY"] = "7";
  await looked();
  expect(seen).toMatchObject({ ok: true, restart: true });
  expect(messages()).toEqual(["configuration reloaded", "restart needed: changed keys take effect at start only"]);
  expect(events).toEqual(["Normal ConfigReloaded", "Warning RestartNeeded"]);
  expect(lines[1]).toContain("webhooks.port");
  expect([live.now.webhooks.port, live.now.concurrency, applied.length]).toEqual([8080, 7, 1]);
  env["TOWLINE_WEBHOOKS_PORT"] = undefined;
  await looked();
  expect([seen.restart, applied.length]).toEqual([false, 1]);
});

test("a secret added later is hidden from then on, and earlier ones stay hidden", () => {
  const list = createSecretList(["old-secret"]);
  expect(list.scrub("old-secret new-secret")).toBe("*** new-secret");
  list.add(["new-secret"]);
  expect(list.scrub("old-secret new-secret")).toBe("*** ***");
});

test("a changed log level applies to all existing loggers, except those with a level of their own", () => {
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push((JSON.parse(line) as { msg: string }).msg) };
  const log = createLogger({ level: "info", format: "json", destination });
  const child = log.child({ job: 1 }).child({ step: 2 });
  const audit = log.child({ audit: true }, { level: "info" });
  child.debug("too early");
  log.level = "debug";
  child.debug("told");
  log.level = "error";
  child.warn("too late");
  audit.info("always");
  expect(lines).toEqual(["told", "always"]);
});
