/** The model kluctl as a program that a server can start. */
import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { cacheDir } from "../cache.ts";

export interface ModelKluctlOptions {
  /** Of the journal. */
  readonly socket: string;
  /** Between two objects. */
  readonly pauseMs: number;
  /** Path of the real kluctl, if it does the work. */
  readonly real?: string | undefined;
}

export async function writeModelKluctl(
  path: string,
  { socket, pauseMs, real = "-" }: ModelKluctlOptions,
): Promise<void> {
  const quote = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;
  const program = join(import.meta.dirname, "model-kluctl.ts");
  const command = [process.execPath, "--no-warnings", program, socket, String(pauseMs), real].map(quote).join(" ");
  const script = `#!/bin/sh
NODE_COMPILE_CACHE=${quote(join(cacheDir(), "compiled"))} exec ${command} "$@"
`;
  await writeFile(path, script);
  await chmod(path, 0o755);
}
