import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { DestinationStream } from "pino";
import { expect, onTestFinished, test } from "vitest";
import { ConfigError } from "../../../src/errors.ts";
import { createAuditLog } from "../../../src/log/audit.ts";
import { createLogger } from "../../../src/log.ts";

const loggerFor = (destination: DestinationStream) =>
  createLogger({ level: "info", format: "json", secrets: ["very-secret"], destination });

function aLog() {
  const lines: string[] = [];
  const log = createLogger({ level: "error", format: "json", destination: { write: (line) => void lines.push(line) } });
  return { log, lines };
}

test("without a file, audit lines go to the log with a mark, whatever the log level is", () => {
  const { log, lines } = aLog();
  createAuditLog({ log, loggerFor }).info({ name: "shop" }, "deploy ok");
  log.info("something else");
  expect(lines.map((line) => JSON.parse(line) as unknown)).toMatchObject([
    { audit: true, logger: "audit", level: "info", name: "shop", msg: "deploy ok" },
  ]);
});

test("with a file, audit lines are appended to it, without secrets", () => {
  const dir = mkdtempSync(join(tmpdir(), "towline-audit-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const file = join(dir, "audit.log");
  const { log, lines } = aLog();
  for (const name of ["a", "b"])
    createAuditLog({ file, log, loggerFor }).info({ name, ref: "very-secret" }, "deploy ok");
  const written = readFileSync(file, "utf8").trimEnd().split("\n");
  expect(written.map((line) => (JSON.parse(line) as { name: string }).name)).toEqual(["a", "b"]);
  expect(written.join()).not.toContain("very-secret");
  expect(lines).toEqual([]);
  const nowhere = () => createAuditLog({ file: join(dir, "no/audit.log"), log, loggerFor });
  expect(nowhere).toThrow(ConfigError);
  expect(nowhere).toThrow("TOWLINE_AUDIT_FILE");
});
