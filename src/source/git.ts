/**
 * The one place where git is started. It gets an environment of its own: nothing from the server's, no configuration
 * of the machine or a user, no prompts, no hooks, and only the protocols that a call is meant to speak.
 */
import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { GitError, GitPluginError, simpleGit } from "simple-git";
import type { SimpleGitOptions } from "simple-git";
import { SourceError } from "../errors.ts";
import { writeOnce } from "./write-once.ts";

/** Its last words. The remote's own are among them, so that they may be any. */
const keptOfStderr = 8 * 1024;
/** What half a million refs take. All of it is held in memory, and a remote could go on for ever. */
const mostPrintedAtAll = 64 * 1024 * 1024;

/** git ended with a failure, was stopped, or could not be started. */
export class GitFailure extends GitError {
  override name = "GitFailure";
  /** The end of it. */
  readonly stderr: string;

  constructor(stderr: Buffer, stopped: Error | undefined) {
    super(undefined, "git failed");
    this.stderr = stderr.subarray(-keptOfStderr).toString("utf8");
    this.cause = stopped;
  }
}

export interface GitCall {
  /** The repository (as GIT_DIR), or the working tree to be in. */
  readonly at?: { readonly gitDir: string } | { readonly tree: string };
  /** The protocols that may be spoken, as in GIT_ALLOW_PROTOCOL. */
  readonly protocols: readonly string[];
  readonly config?: Readonly<Record<string, string>> | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** Exit codes besides 0 that are an answer and no failure. */
  readonly answers?: readonly number[] | undefined;
  /** Has helpers (for http, ssh) that have to end when it is ended. */
  readonly group?: boolean | undefined;
  /** Ends git when it has printed nothing for so long. */
  readonly silenceMs?: number | undefined;
  /** Bytes after which git is ended, if fewer than for others. */
  readonly mostPrinted?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Runs git and gives back what it printed. Nothing from outside may be among the arguments except behind a `--`.
 * simple-git waits another 50 ms for a command that prints nothing at all, so none here is told to be quiet.
 */
export type Git = (args: readonly string[], call: GitCall) => Promise<string>;

/**
 * simple-git can only signal the process it started, and git dies without its helpers, which would stay connected to
 * the remote. In a process group of their own all of them end together.
 */
const asGroup = `set -m
git "$@" &
trap 'kill -TERM -- "-$!"' INT TERM
while :; do wait "$!"; code=$?; kill -0 "$!" 2>/dev/null || exit "$code"; done
`;

// What of the server's own environment git may see: how to find programs, proxies and authorities.
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
  // A redirect would take the login along to wherever it leads.
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
  // Tidying up happens before fetch returns, under its lock: nothing changes behind the back of a clone.
  "gc.autoDetach": "false",
  "maintenance.autoDetach": "false",
  "gc.auto": "1000",
  "gc.autoPackLimit": "50",
  "gc.bigPackThreshold": "256m",
  "advice.detachedHead": "false",
  "init.defaultBranch": "main",
};

// simple-git refuses these, rightly, where outside text could fill them. Only this file and login-files.ts do.
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
    await mkdir(home, { recursive: true, mode: 0o700 }); // whoever cleans up temporary files may have taken it away
    const script = join(home, "git-group.sh");
    // Whole: bash would take the half of it for a git that has nothing to say.
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
      // Not before its helpers have ended too: what they leave behind could not be cleared away.
      completion: { onClose: true, onExit: 2_000 },
      allowEnvironment: Object.keys(environment),
      // simple-git's own judgement takes a failure without a message for a success.
      errors: (error, { exitCode, stdErr }) => {
        // git may have ended, with words of the shell's, before simple-git could say that it was told to.
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

/** Configuration by environment, because arguments are visible to every user of the machine. */
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
