/** kluctl's own configuration file: its controller takes from it what neither an option nor a variable says. */
import { join } from "node:path";
import { ConfigError } from "../errors.ts";
import { readConfigFile } from "./file.ts";

export interface KluctlFile {
  readonly path: string;
  /** By key, in lower case: an option's name without the dashes. */
  readonly values: Readonly<Record<string, unknown>>;
}

/** In kluctl's order; it takes these endings, and reads all of them as YAML. */
const names = ["config.json", "config.yaml", "config.yml", "config"];

/** The first one that is there. Throws a ConfigError for one that cannot be read. */
export function findKluctlFile(
  env: Readonly<Record<string, string | undefined>>,
  readFile: (path: string) => string,
): KluctlFile | undefined {
  const directories = ["/etc/kluctl", ...(env["HOME"] ? [join(env["HOME"], ".kluctl")] : [])];
  for (const path of directories.flatMap((directory) => names.map((name) => join(directory, name)))) {
    if (!isThere(path, readFile)) continue;
    const content = readConfigFile(path, readFile) ?? {};
    if (typeof content !== "object" || Array.isArray(content)) {
      throw new ConfigError(`the configuration file ${path} has to be a map of kluctl's options`);
    }
    return {
      path,
      values: Object.fromEntries(Object.entries(content).map(([key, value]) => [key.toLowerCase(), value as unknown])),
    };
  }
  return undefined;
}

/** What cannot be read is there: ignoring it would start another server than was asked for. A directory is no file. */
function isThere(path: string, readFile: (path: string) => string): boolean {
  try {
    readFile(path);
    return true;
  } catch (error) {
    return !["ENOENT", "ENOTDIR", "EISDIR"].includes((error as NodeJS.ErrnoException).code ?? "");
  }
}
