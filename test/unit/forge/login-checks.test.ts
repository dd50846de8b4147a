import { expect, onTestFinished, test, vi } from "vitest";
import { ForgeError } from "../../../src/errors.ts";
import { startLoginChecks } from "../../../src/forge/login-checks.ts";
import { loginNotices } from "../../../src/reporting/notifications/login-notices.ts";
import { severityOf, wordsOf } from "../../../src/reporting/notifications/words.ts";
import { aDeployment } from "../../support/deployments.ts";
import { createLogger } from "../../../src/log.ts";

const now = Date.parse("2026-12-01T12:00:00Z");
const rejected = new ForgeError("unauthorized", "the token was rejected (401)");
const deployment = aDeployment();

/** One forge, whose answers the test chooses, and what would be notified of it. */
function useForge(id = "github") {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  onTestFinished(() => void vi.useRealTimers());
  const lines: { msg?: string; forge?: string }[] = [];
  const log = createLogger({
    level: "info",
    format: "json",
    destination: { write: (line: string) => void lines.push(JSON.parse(line) as { msg: string }) },
  });
  const forge = { answer: async (): Promise<{ name: string; expiresAt?: number }> => ({ name: "bot" }), isThere: true };
  const checks = startLoginChecks({
    forges: () => (forge.isThere ? [{ id, account: () => forge.answer() }] : []),
    clock: { now: () => now },
    log,
  });
  onTestFinished(() => checks.stop());
  const notices = () =>
    loginNotices(
      checks.ids().map((one) => ({ id: one, state: checks.states().get(one), has: () => true })),
      [deployment],
      now,
    );
  const answers = async (answer: typeof forge.answer) => {
    forge.answer = answer;
    await checks.check();
    return notices();
  };
  return { forge, notices, answers, logged: () => lines.map(({ msg }) => msg) };
}

test("nothing is said before the host has answered, nor while a login works", async () => {
  const { notices, answers } = useForge();
  expect(notices()).toMatchObject([{ state: "progress", lines: [] }]);
  expect(await answers(async () => ({ name: "bot" }))).toEqual([]);
  expect(await answers(async () => ({ name: "bot", expiresAt: now + 15 * 86_400_000 }))).toEqual([]);
});

test("a login that could not be checked because of a rate limit is not reported as failed", async () => {
  const { answers, logged } = useForge();
  await answers(async () => ({ name: "bot" }));
  const limited = new ForgeError("rate-limited", "requests are paused for 30 s", { retryAfterMs: 30_000 });
  expect(await answers(() => Promise.reject(limited))).toEqual([]);
  expect(logged()).toEqual(["forge login works"]);
});

test("a refused login is an error, about the deployments of that host, until it is accepted again", async () => {
  const { answers } = useForge();
  const refused = await answers(() => Promise.reject(rejected));
  expect(refused).toMatchObject([{ kind: "login", state: "open", about: "github", deployments: [deployment] }]);
  expect(wordsOf(refused[0]!, "open")).toMatchObject({
    title: "github: the login is refused",
    severity: "error",
    lines: [{ text: "the token was rejected (401); since 2026-12-01 12:00 UTC or earlier" }],
  });
  expect(await answers(async () => ({ name: "bot" }))).toEqual([]);
});

test("a login that expires within two weeks is a warning, and its refusal is news of its own", async () => {
  const { answers } = useForge();
  const soon = await answers(async () => ({ name: "bot", expiresAt: now + 13 * 86_400_000 }));
  expect(wordsOf(soon[0]!, "open")).toMatchObject({
    title: "github: the login expires soon",
    severity: "warning",
    lines: [{ name: "expiry", text: expect.stringContaining("2026-12-14 12:00 UTC") }],
  });
  const refused = await answers(() => Promise.reject(rejected));
  expect(refused[0]?.lines.map(({ name }) => name)).toEqual(["login"]);
});

test("a host that does not answer changes nothing of what is known", async () => {
  const { answers } = useForge();
  await answers(() => Promise.reject(rejected));
  const before = await answers(() => Promise.reject(new Error("cannot be reached")));
  expect(before).toMatchObject([{ state: "open", lines: [{ name: "login", state: "failed" }] }]);
});

test("a forge that is no longer configured is forgotten", async () => {
  const { forge, answers, notices } = useForge();
  await answers(() => Promise.reject(rejected));
  forge.isThere = false;
  await answers(() => Promise.reject(rejected));
  forge.isThere = true;
  expect(notices()).toMatchObject([{ state: "progress" }]);
});

test("the login is asked for again and again, and only what changes is logged", async () => {
  const { forge, logged, notices } = useForge();
  await vi.waitFor(() => expect(logged()).toEqual(["forge login works"]));
  await vi.advanceTimersByTimeAsync(20 * 60_000);
  expect(logged()).toEqual(["forge login works"]);
  forge.answer = () => Promise.reject(rejected);
  await vi.advanceTimersByTimeAsync(5 * 60_000);
  await vi.waitFor(() => expect(logged()).toEqual(["forge login works", "forge login failed"]));
  expect(notices()).toMatchObject([{ state: "open" }]);
});

test("what is open is an error if a part of it has failed", () => {
  expect(severityOf("open", [{ state: "warning" }])).toBe("warning");
  expect(severityOf("open", [{ state: "warning" }, { state: "failed" }])).toBe("error");
  expect(severityOf("closed", [])).toBe("info");
});
