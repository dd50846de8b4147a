/** Writes the model kluctl as an executable that a server can start. */
import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { cacheDir } from "../cache.ts";

export interface ModelKluctlOptions {
  /** Socket of the journal. */
  readonly socket: string;
  /** Pause between two objects. */
  readonly pauseMs: number;
  /** Path of the real kluctl, if it does the deploying. */
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
