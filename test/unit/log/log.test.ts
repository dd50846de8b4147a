import { expect, test } from "vitest";
import { createLogger, type LoggerOptions } from "../../../src/log.ts";

test("a line is JSON with the level as a word, the time under both names, and the message last", () => {
  const { log, lines } = useLog();
  log.info({ delivery: "7c1e" }, "push accepted");
  const [line = ""] = lines();
  expect(JSON.parse(line)).toEqual({
    level: "info",
    time: isoTime,
    ts: isoTime,
    delivery: "7c1e",
    msg: "push accepted",
  });
  expect(line).toMatch(/^\{"level":"info",.*"msg":"push accepted"\}$/);
});

test("secrets are removed by the names of their fields", () => {
  const { log, lines } = useLog();
  log.info({
    token: "t",
    request: { headers: { authorization: "a" }, body: { password: "p" } },
    forge: { webhookSecrets: ["s"] },
  });
  expect(JSON.parse(lines()[0] ?? "")).toMatchObject({
    token: "***",
    request: { headers: "***", body: { password: "***" } },
    forge: { webhookSecrets: "***" },
  });
});

test("secrets are removed from errors, lists and child loggers' fields, and the logged objects do not change", () => {
  const { log, lines } = useLog();
  const error = Object.assign(new Error("refused"), { headers: { authorization: "hunter2" }, code: 401 });
  const entry = { err: error, tried: [{ token: "hunter2", user: "ann" }, "plain"] };
  log.child({ login: { password: "hunter2" } }).warn(entry, "no");

  expect(lines()[0]).not.toContain("hunter2");
  expect(JSON.parse(lines()[0] ?? "")).toMatchObject({
    login: { password: "***" },
    err: { type: "Error", message: "refused", headers: "***", code: 401, stack: expect.stringContaining("refused") },
    tried: [{ token: "***", user: "ann" }, "plain"],
  });
  expect(entry.tried[0]).toEqual({ token: "hunter2", user: "ann" });
  expect(error.headers).toEqual({ authorization: "hunter2" });
});

test("known secrets are removed everywhere, also where JSON or URLs encode them", () => {
  const secret = 'p"ss/w\\rd ü1';
  const { log, lines } = useLog({ secrets: [secret] });
  log.info(
    { deep: { deeper: { deepest: { text: `x${secret}y` } } }, url: `https://h/?t=${encodeURIComponent(secret)}` },
    secret,
  );
  log.error({ err: new Error(`failed with ${secret}`) }, "failed");
  for (const line of lines()) {
    expect(line).not.toMatch(/ss\/w|%5Crd/);
    expect(() => JSON.parse(line) as unknown).not.toThrow();
  }
  expect(JSON.parse(lines()[0] ?? "")).toMatchObject({ deep: { deeper: { deepest: { text: "x***y" } } }, msg: "***" });
});

test.each(["json", "pretty"] as const)("no outside text can start a line of its own (%s)", (format) => {
  const { log, lines } = useLog({ format });
  const evil = 'x\n{"level":"info","msg":"forged"}\r\u001b[2K\u009b2K\u2028forged';
  log.info({ ref: evil }, evil);
  expect(lines()).toHaveLength(1);
  expect(lines()[0]).not.toMatch(/[\u001b\u009b\u2028\r]/);
});

test("an error's stack keeps its lines, but indented", () => {
  const { log, lines } = useLog({ format: "pretty" });
  log.error({ err: new Error("broken\nINFO forged") }, "failed");
  expect(lines().length).toBeGreaterThan(3);
  expect(
    lines()
      .slice(1)
      .every((line) => line.startsWith("  ")),
  ).toBe(true);
});

test("no line reaches 64 KiB, because kluctl's client would abort the stream", () => {
  const { log, lines } = useLog();
  log.info({ name: "shop", output: "ü".repeat(100_000) }, "one long field");
  log.info({ name: "shop", list: Array.from({ length: 9_000 }, (_, i) => `item ${i}`) }, "many fields");
  for (const line of lines()) {
    expect(Buffer.byteLength(line)).toBeLessThan(64 * 1024);
    expect(JSON.parse(line)).toMatchObject({
      level: "info",
      name: "shop",
      cut: true,
      msg: expect.stringContaining("field") as string,
    });
  }
});

test("lines below the log level are not written", () => {
  const { log, lines } = useLog({ level: "warn" });
  log.info("no");
  log.warn("yes");
  expect(lines()).toHaveLength(1);
});

const isoTime = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) as string;

function useLog(options: Partial<LoggerOptions> = {}) {
  let text = "";
  const destination = { write: (line: string) => void (text += line) };
  const log = createLogger({ level: "info", format: "json", destination, ...options });
  return { log, lines: () => text.trimEnd().split("\n") };
}
