/** Errors that only the operator can resolve say how. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { createDataDir } from "../../../src/app/data-dir.ts";
import { startListener } from "../../../src/app/listener.ts";
import { ConfigError } from "../../../src/errors.ts";

const webhooks = { host: "127.0.0.1", port: 0, purpose: "webhooks", variable: "TOWLINE_WEBHOOKS" };

test("if a port is in use, the error names the variable or option that selects another", async () => {
  const first = await startListener(() => undefined, webhooks);
  onTestFinished(() => first.stop(0));
  await expect(startListener(() => undefined, { ...webhooks, port: first.port })).rejects.toThrow(
    `Cannot listen for webhooks on 127.0.0.1:${first.port}: another process listens there; ` +
      "choose another port with TOWLINE_WEBHOOKS_PORT.",
  );
  const metrics = { ...webhooks, port: first.port, purpose: "metrics", variable: "--metrics-bind-address" };
  await expect(startListener(() => undefined, metrics)).rejects.toThrow(/another port with --metrics-bind-address\.$/);
});

test("listening on another machine's address is an error that says so", async () => {
  await expect(startListener(() => undefined, { ...webhooks, host: "192.0.2.1" })).rejects.toThrow(
    /192\.0\.2\.1:0: this machine does not have this address; choose another with TOWLINE_WEBHOOKS_HOST/,
  );
});

test("a data directory that is a file is a configuration error", async () => {
  const dir = await mkdtemp(join(tmpdir(), "towline-test-"));
  onTestFinished(() => rm(dir, { recursive: true }));
  const file = join(dir, "file");
  await writeFile(file, "");
  for (const path of [file, join(file, "below")]) {
    const refused = createDataDir(path);
    await expect(refused).rejects.toBeInstanceOf(ConfigError);
    await expect(refused).rejects.toThrow(`The data directory ${path} is not writable: it is not a directory.`);
  }
  await createDataDir(join(dir, "a", "b"));
});
