/**
 * The only place where git is started. It gets an environment of its own: nothing from the server's unless listed here,
 * no configuration of the machine or a user, no prompts, no hooks, and only the protocols that a call needs.
 */
import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { GitError, GitPluginError, simpleGit } from "simple-git";
import type { SimpleGitOptions } from "simple-git";
import { SourceError } from "../errors.ts";
import { writeOnce } from "../kit/write-once.ts";

/** Bytes of the end of stderr that are kept. They include messages of the remote, so their content is untrusted. */
const keptOfStderr = 8 * 1024;
/** Bytes that half a million refs take. All output is held in memory, and a remote could send without end. */
const mostPrintedAtAll = 64 * 1024 * 1024;

/** git failed, was stopped, or could not be started. */
export class GitFailure extends GitError {
  override name = "GitFailure";
  /** The end of stderr. */
  readonly stderr: string;

  constructor(stderr: Buffer, stopped: Error | undefined) {
    super(undefined, "git failed");
    this.stderr = stderr.subarray(-keptOfStderr).toString("utf8");
    this.cause = stopped;
  }
}

export interface GitCall {
  /** The repository (as GIT_DIR), or the working tree to run in. */
  readonly at?: { readonly gitDir: string } | { readonly tree: string };
  /** The allowed protocols, as in GIT_ALLOW_PROTOCOL. */
  readonly protocols: readonly string[];
  readonly config?: Readonly<Record<string, string>> | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** Exit codes besides 0 that are results, not failures. */
  readonly answers?: readonly number[] | undefined;
  /** Whether git starts helpers (for http, ssh) that must end with it. */
  readonly group?: boolean | undefined;
  /** Ends git when it has printed nothing for this long. */
  readonly silenceMs?: number | undefined;
  /** Bytes of output after which git is ended, if lower than the default. */
  readonly mostPrinted?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Runs git and returns what it printed. Untrusted values may be among the arguments only after a `--`. simple-git waits
 * another 50 ms for a command that prints nothing at all, so no call here uses `--quiet`.
 */
export type Git = (args: readonly string[], call: GitCall) => Promise<string>;

/**
 * simple-git can only signal the process it started, and git's helpers survive git and stay connected to the remote. In
 * a process group of their own, all of them end together.
 */
const asGroup = `set -m
git "$@" &
trap 'kill -TERM -- "-$!"' INT TERM
while :; do wait "$!"; code=$?; kill -0 "$!" 2>/dev/null || exit "$code"; done
`;

// The part of the server's environment that git gets: how to find programs, proxies and certificate authorities.
const inherited = [
  "PATH",
  "TZ",
  "TMPDIR",
  "http_proxy",
  "https_proxy",
  "HTTPS_PROXY",
  "all_proxy",
  "ALL_PROXY",
  "no_proxy",
  "NO_PROXY",
];
const inheritedTrust = ["SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH"];

const hardening: Readonly<Record<string, string>> = {
  "core.hooksPath": "/dev/null",
  "core.fsmonitor": "false",
  "submodule.recurse": "false",
  "fetch.recurseSubmodules": "false",
  // A redirect would send the login to its target.
  "http.followRedirects": "false",
  "protocol.version": "2",
  "transfer.fsckObjects": "true",
  "transfer.bundleURI": "false",
  // Old and harmless: many long-lived repositories have such objects, and kluctl reads them.
  "fetch.fsck.zeroPaddedFilemode": "ignore",
  "fetch.fsck.badTimezone": "ignore",
  "fetch.fsck.badEmail": "ignore",
  "fetch.fsck.missingEmail": "ignore",
  "fetch.fsck.missingNameBeforeEmail": "ignore",
  "fetch.fsck.missingSpaceBeforeEmail": "ignore",
  "fetch.fsck.missingSpaceBeforeDate": "ignore",
  // Housekeeping runs before `fetch` returns, while its lock is held, so nothing changes during a clone.
  "gc.autoDetach": "false",
  "maintenance.autoDetach": "false",
  "gc.auto": "1000",
  "gc.autoPackLimit": "50",
  "gc.bigPackThreshold": "256m",
  "advice.detachedHead": "false",
  "init.defaultBranch": "main",
};

// simple-git rejects these where untrusted text could set them. Only this file and login-files.ts do.
const ours: SimpleGitOptions["unsafe"] = {
  allowUnsafeConfigEnvCount: true,
  allowUnsafeCustomBinary: true,
  allowUnsafeConfigPaths: true,
  allowUnsafeFsMonitor: true,
  allowUnsafeHooksPath: true,
  allowUnsafeSshCommand: true,
  allowUnsafeTemplateDir: true,
};

export function createGit({ home, env }: { home: string; env: NodeJS.ProcessEnv }): Git {
  const base: Record<string, string> = {
    ...pick(env, [...inherited, ...inheritedTrust]),
    HOME: home,
    LC_ALL: "C",
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_CONFIG_GLOBAL: "/dev/null",
    GIT_ATTR_NOSYSTEM: "1",
    GIT_TERMINAL_PROMPT: "0",
    GIT_LFS_SKIP_SMUDGE: "1",
    GIT_SSH_VARIANT: "ssh",
  };

  return async function git(args, { at, protocols, config, env: callEnv, answers = [], group, silenceMs, ...call }) {
    const { signal, mostPrinted = mostPrintedAtAll } = call;
    await mkdir(home, { recursive: true, mode: 0o700 }); // a cleanup of temporary files may have removed it
    const script = join(home, "git-group.sh");
    // Written atomically: bash would run a half-written script without an error.
    if (group && !existsSync(script)) await writeOnce(script, asGroup);
    const environment = {
      ...base,
      GIT_ALLOW_PROTOCOL: protocols.join(":"),
      ...configEnv({ ...hardening, ...config }),
      ...callEnv,
      ...(at !== undefined && "gitDir" in at ? { GIT_DIR: at.gitDir } : {}),
    };
    const flooded = new AbortController();
    const options: Partial<SimpleGitOptions> = {
      unsafe: ours,
      // Wait until the helpers have ended too; otherwise the files they leave could not be removed.
      completion: { onClose: true, onExit: 2_000 },
      allowEnvironment: Object.keys(environment),
      // By default, simple-git treats a failure without a message as success.
      errors: (error, { exitCode, stdErr }) => {
        // git may have ended, with output of the shell, before simple-git reports that it was aborted.
        const stopped = error instanceof GitPluginError ? error : toError(options.abort);
        if (stopped === undefined && [0, ...answers].includes(exitCode)) return undefined;
        return new GitFailure(Buffer.concat(stdErr), stopped);
      },
    };
    if (group) options.binary = ["bash", script];
    options.abort = AbortSignal.any([flooded.signal, ...(signal === undefined ? [] : [signal])]);
    if (silenceMs !== undefined) options.timeout = { block: silenceMs };
    const printed = simpleGit(at !== undefined && "tree" in at ? at.tree : home, options)
      .env(environment)
      .outputHandler((_command, stdout, stderr) => {
        let bytes = 0;
        const count = (chunk: Buffer): void => {
          bytes += chunk.length;
          if (bytes > mostPrinted) flooded.abort();
        };
        stdout.on("data", count);
        stderr.on("data", count);
      })
      .raw([...args]);
    return printed.catch((error: unknown) => {
      if (flooded.signal.aborted) throw new SourceError("refused", "it has too many refs, or its output is too large");
      throw error;
    });
  };
}

function toError(signal: AbortSignal | undefined): Error | undefined {
  return signal?.aborted ? new Error("git was stopped", { cause: signal.reason }) : undefined;
}

/** Passes configuration in the environment, because arguments are visible to every user of the machine. */
function configEnv(config: Readonly<Record<string, string>>): Record<string, string> {
  const entries = Object.entries(config);
  const env: Record<string, string> = { GIT_CONFIG_COUNT: String(entries.length) };
  entries.forEach(([key, value], i) => {
    env[`GIT_CONFIG_KEY_${i}`] = key;
    env[`GIT_CONFIG_VALUE_${i}`] = value;
  });
  return env;
}

function pick(env: NodeJS.ProcessEnv, names: readonly string[]): Record<string, string> {
  return Object.fromEntries(names.flatMap((name) => (env[name] ? [[name, env[name]]] : [])));
}
