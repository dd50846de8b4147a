/** PGP keys for a test, created by the real gpg. */
import { execFile } from "node:child_process";
import { mkdir, mkdtemp } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { onTestFinished } from "vitest";
import type { MasterKeys } from "./sops.ts";

export interface TestPgpKey {
  /** ASCII-armored, with the secret key. */
  readonly armored: string;
  masterKeys(dataKey: Buffer): Promise<MasterKeys>;
}

export async function createPgpKey(dir: string): Promise<TestPgpKey> {
  await mkdir(dir, { recursive: true });
  const home = await mkdtemp(join(dir, "gpg-"));
  const env = { PATH: process.env["PATH"], GNUPGHOME: home };
  const gpg = async (args: readonly string[], input?: Buffer) => {
    const running = promisify(execFile)("gpg", ["--batch", "--quiet", ...args], { env });
    // Only if gpg reads its input: writing to a process that has exited breaks the pipe.
    if (input) running.child.stdin?.end(input);
    return (await running).stdout;
  };
  onTestFinished(async () => void (await promisify(execFile)("gpgconf", ["--kill", "gpg-agent"], { env })));
  const user = "test@example.com";
  await gpg(["--passphrase", "", "--quick-generate-key", user, "rsa2048", "encrypt,sign", "never"]);
  const listed = await gpg(["--with-colons", "--list-keys"]);
  const [, fp = ""] = /^fpr:+([0-9A-F]+):/m.exec(listed) ?? [];
  return {
    armored: await gpg(["--armor", "--export-secret-keys"]),
    async masterKeys(dataKey) {
      const enc = await gpg(["--trust-model", "always", "--armor", "--encrypt", "--recipient", fp], dataKey);
      return { pgp: [{ created_at: "2026-01-01T00:00:00Z", enc, fp }] };
    },
  };
}
