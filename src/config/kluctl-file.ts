/** kluctl's own configuration file, which its controller uses below options and variables. */
import { join } from "node:path";
import { ConfigError } from "../errors.ts";
import { readConfigFile } from "./file.ts";

export interface KluctlFile {
  readonly path: string;
  /** By key in lower case: an option's name without the leading dashes. */
  readonly values: Readonly<Record<string, unknown>>;
}

/** Names in kluctl's order; kluctl reads all of them as YAML. */
const names = ["config.json", "config.yaml", "config.yml", "config"];

/** The first existing file. Throws a ConfigError if it cannot be read. */
export function findKluctlFile(
  env: Readonly<Record<string, string | undefined>>,
  readFile: (path: string) => string,
): KluctlFile | undefined {
  const directories = ["/etc/kluctl", ...(env["HOME"] ? [join(env["HOME"], ".kluctl")] : [])];
  for (const path of directories.flatMap((directory) => names.map((name) => join(directory, name)))) {
    if (!isThere(path, readFile)) continue;
    const content = readConfigFile(path, readFile) ?? {};
    if (typeof content !== "object" || Array.isArray(content)) {
      throw new ConfigError(`the configuration file ${path} must be a mapping of kluctl's options`);
    }
    return {
      path,
      values: Object.fromEntries(Object.entries(content).map(([key, value]) => [key.toLowerCase(), value as unknown])),
    };
  }
  return undefined;
}

/** An unreadable file exists: ignoring it would start a server with the wrong options. A directory does not count. */
function isThere(path: string, readFile: (path: string) => string): boolean {
  try {
    readFile(path);
    return true;
  } catch (error) {
    return !["ENOENT", "ENOTDIR", "EISDIR"].includes((error as NodeJS.ErrnoException).code ?? "");
  }
}
