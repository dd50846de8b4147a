/** Finds the kluctl binary and checks its version. */
import { stat } from "node:fs/promises";
import { KilledError, KluctlUnavailableError } from "../errors.ts";
import { findProgram } from "../kit/find-program.ts";

/** The oldest version with the results and sources we rely on. */
const oldest = [2, 22, 1] as const;

export interface BinaryDeps {
  /** A path, or a name to look up on PATH. */
  readonly binary: string;
  readonly searchPath: string;
  /** Runs `<path> version` and returns its output. */
  readonly askVersion: (path: string) => Promise<string>;
}

export interface Binary {
  readonly path: string;
  /** Identity of the file; changes when the file at the path is replaced. */
  readonly file: string;
  readonly version: string;
}

/**
 * Returns a function that finds the binary or throws KluctlUnavailableError. The version is queried once per file
 * identity, so that a broken binary can be replaced while the server runs.
 */
export function createBinary({ binary, searchPath, askVersion }: BinaryDeps): () => Promise<Binary> {
  let known: { readonly file: string; readonly version: Promise<string> } | undefined;

  async function ask(path: string): Promise<string> {
    try {
      return toVersion(await askVersion(path), path);
    } catch (error) {
      known = undefined;
      if (error instanceof KluctlUnavailableError) throw error;
      if (error instanceof KilledError && error.why === "stopped") throw error;
      throw new KluctlUnavailableError(`${path} cannot be run: ${(error as Error).message}`);
    }
  }

  return async () => {
    const path = await find(binary, searchPath);
    const { mtimeMs, size, ino } = await stat(path);
    const file = `${path} ${ino} ${size} ${mtimeMs}`;
    if (known?.file !== file) known = { file, version: ask(path) };
    return { path, file, version: await known.version };
  };
}

/** Whether the version is this minor version or newer. */
export function isSince({ version }: Pick<Binary, "version">, major: number, minor: number): boolean {
  return !isOlder(version.split(".").map(Number), [major, minor]);
}

async function find(binary: string, searchPath: string): Promise<string> {
  const path = await findProgram(binary, searchPath);
  if (path !== undefined) return path;
  const where = binary.includes("/") ? `an executable file at ${binary}` : `${binary} on PATH`;
  throw new KluctlUnavailableError(`kluctl not found: looked for ${where} (set TOWLINE_KLUCTL to its path).`);
}

function toVersion(output: string, path: string): string {
  const match = /^v?(\d+)\.(\d+)\.(\d+)(?=$|[-+\s])/.exec(output.trim());
  if (match === null) throw new KluctlUnavailableError(`${path} does not print a version, so it may not be kluctl.`);
  const version = match.slice(1).join(".");
  if (isOlder(match.slice(1).map(Number), oldest)) {
    throw new KluctlUnavailableError(
      `kluctl ${version} at ${path} is too old: ${oldest.join(".")} or newer is needed (set TOWLINE_KLUCTL to another binary)`,
    );
  }
  return version;
}

function isOlder(version: readonly number[], than: readonly number[]): boolean {
  const index = than.findIndex((part, at) => part !== version[at]);
  return index !== -1 && (version[index] ?? 0) < (than[index] ?? 0);
}
