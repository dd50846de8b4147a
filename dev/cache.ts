import { homedir } from "node:os";
import { join } from "node:path";

/**
 * The directory that survives between runs and is shared by all checkouts: tools, and a Node if the installed one is
 * too old.
 */
export function cacheDir(env: NodeJS.ProcessEnv = process.env): string {
  return env["TOWLINE_CACHE"] || join(env["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "towline");
}
