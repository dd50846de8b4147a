/** The directory the server writes to. */
import { constants } from "node:fs";
import { access, mkdir } from "node:fs/promises";
import { ConfigError } from "../errors.ts";

/** Creates the directory if needed; throws a ConfigError if it cannot be used. */
export async function createDataDir(dir: string): Promise<void> {
  try {
    await mkdir(dir, { recursive: true, mode: 0o700 });
    await access(dir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const why = code === "EEXIST" || code === "ENOTDIR" ? "it is not a directory" : (code ?? message);
    throw new ConfigError(
      `The data directory ${dir} is not writable: ${why}. Make it writable for the server, or set TOWLINE_DATA_DIR to another directory.`,
      { cause: error },
    );
  }
}
