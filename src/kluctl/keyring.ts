/**
 * A gpg keyring for one run, so that a run can use neither another run's keys nor those of the user that runs the
 * server.
 */
import { readdir } from "node:fs/promises";
import { dirname } from "node:path";
import { KluctlUnavailableError, PrepareError } from "../errors.ts";
import { type ProcessLimits, runProcess } from "./process.ts";

export interface Keyring {
  /** Imports keys, given as name in the Secret → path of the armored key. Throws PrepareError. */
  import(keys: ReadonlyMap<string, string>, signal: AbortSignal): Promise<void>;
  /** Stops the agent that gpg may have left running with the keys in its memory. Never rejects. */
  close(): Promise<void>;
}

export interface KeyringDeps {
  /** `GNUPGHOME` of the run. */
  readonly home: string;
  readonly searchPath: string;
  readonly limits: Omit<ProcessLimits, "timeoutMs">;
  /** Called with the reason if an agent could not be stopped; it exits by itself when its directory is removed. */
  readonly onLeft: (error: unknown) => void;
}

/** The agent's sockets are in the keyring's directory, and a socket's path has at most 107 bytes. */
const longestHome = 107 - "/S.gpg-agent.browser".length;
const patienceMs = 20_000;

export function createKeyring({ home, searchPath, limits, onLeft }: KeyringDeps): Keyring {
  const run = (command: string, args: readonly string[], signal: AbortSignal) =>
    runProcess({
      name: command,
      command,
      args,
      env: { PATH: searchPath, GNUPGHOME: home, HOME: home, LC_ALL: "C.UTF-8" },
      cwd: home,
      limits: { ...limits, timeoutMs: patienceMs },
      signal,
    });

  return {
    async import(keys, signal) {
      if (keys.size > 0 && Buffer.byteLength(home) > longestHome) {
        const most = `more than the ${longestHome} bytes that gpg's sockets allow`;
        throw new KluctlUnavailableError(`The path ${home} has ${most}: choose a shorter TOWLINE_DATA_DIR.`);
      }
      for (const [name, path] of keys) {
        const { exitCode, stderr } = await run("gpg", ["--batch", "--quiet", "--import", path], signal);
        if (exitCode === 0) continue;
        if (exitCode === 126 || exitCode === 127) {
          throw new KluctlUnavailableError("PGP keys need gpg, which is not on the server's PATH: install gnupg.");
        }
        const words = stderr.replaceAll(`${dirname(home)}/`, "").trim();
        throw new PrepareError(`failed to import '${name}' data from decryption Secret: ${words}`);
      }
    },

    async close() {
      try {
        if ((await readdir(home)).length === 0) return; // gpg has not run
        const { exitCode, stderr } = await run("gpgconf", ["--kill", "gpg-agent"], new AbortController().signal);
        if (exitCode !== 0) onLeft(new Error(stderr.trim()));
      } catch (error) {
        onLeft(error);
      }
    },
  };
}
