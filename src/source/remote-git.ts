/**
 * Runs git commands against remotes: checks the address, provides the login and removes it again, limits the calls per
 * host.
 */
import { resolveHost } from "./address.ts";
import type { Lookup } from "../kit/address.ts";
import { withTimeout } from "../kit/deadline.ts";
import { GitFailure } from "./git.ts";
import type { Git } from "./git.ts";
import { createHosts } from "./hosts.ts";
import { needsFiles, writeLogin } from "./login-files.ts";
import type { LoginSetup } from "./login-files.ts";
import type { Remote } from "./remote.ts";
import type { Slowness } from "./slowness.ts";
import { removeDirectory } from "../kit/work-directories.ts";
import type { WorkDirectories } from "../kit/work-directories.ts";

export interface RemoteGitDeps {
  readonly git: Git;
  readonly work: WorkDirectories;
  readonly env: NodeJS.ProcessEnv;
  readonly lookup: Lookup;
  readonly limits: {
    readonly callsPerHost: number;
    readonly answerMs: number;
    readonly silenceMs: number;
    readonly callMs: number;
  };
  readonly slowness: Slowness;
}

/** Runs one git command against the remote; `args` puts the address after a `--`. */
export type RemoteGit = (
  remote: Remote,
  args: (address: string) => readonly string[],
  options: {
    gitDir?: string | undefined;
    signal?: AbortSignal | undefined;
    /** Throws RemoteBusyError instead of waiting for slow conversations of other callers. */
    leaves?: boolean | undefined;
    /** The command only lists refs, which is fast on any host: one that is silent for long is considered dead. */
    quick?: boolean;
  },
) => Promise<string>;

export function createRemoteGit({ git, work, env, lookup, limits, slowness }: RemoteGitDeps): RemoteGit {
  const hosts = createHosts({ callsPerHost: limits.callsPerHost, now: () => performance.now() });

  async function withLogin<T>(remote: Remote, call: (setup: LoginSetup) => Promise<T>): Promise<T> {
    if (!needsFiles(remote)) return call(await writeLogin(remote, ""));
    const directory = await work.create();
    try {
      return await call(await writeLogin(remote, directory));
    } finally {
      await removeDirectory(directory);
    }
  }

  async function connection(remote: Remote, silenceMs: number): Promise<Record<string, string>> {
    // Behind a proxy, the proxy resolves names; here they may not even exist.
    const proxied = proxyOf(remote, env) !== undefined;
    const addresses = await resolveHost(remote.host, proxied ? async () => [] : lookup);
    const pinned = proxied || remote.protocol === "ssh:" ? [] : addresses;
    return {
      ...(pinned.length > 0 ? { "http.curloptResolve": `${remote.host}:${remote.port}:${pinned.join(",")}` } : {}),
      // Detects silence, not slowness: a server that counts objects sends a few bytes now and then.
      "http.lowSpeedLimit": "1",
      "http.lowSpeedTime": String(Math.ceil(silenceMs / 1_000)),
    };
  }

  return async (remote, args, { gitDir, signal, leaves = false, quick = false }) => {
    const silenceMs = quick ? Math.min(limits.answerMs, limits.silenceMs) : limits.silenceMs;
    const talk = () =>
      withLogin(remote, async ({ env: loginEnv, config }) => {
        const stop = withTimeout(limits.callMs, signal);
        const call = {
          ...(gitDir === undefined ? {} : { at: { gitDir } }),
          protocols: [remote.protocol.slice(0, -1)],
          config: { ...(await connection(remote, silenceMs)), ...config },
          env: loginEnv,
          group: true,
          // A little more than curl's own limit, because curl's error message is better.
          silenceMs: silenceMs + 5_000,
          signal: stop,
        };
        try {
          return await git(args(remote.address), call);
        } catch (error) {
          // GitLab redirects a URL without `.git` to the same URL with it. No other redirect is followed.
          if (!isRedirect(error) || remote.protocol === "ssh:" || remote.address.endsWith(".git")) throw error;
          return await git(args(`${remote.address.replace(/\/+$/, "")}.git`), call);
        }
      });
    const conversation = () => slowness.talk(remote, talk);
    const options = { signal, quick, isSilence };
    if (!leaves) return hosts.talk(remote.hostAndPort, conversation, options);
    return slowness.wait(remote, (leave) => hosts.talk(remote.hostAndPort, conversation, { ...options, leave }));
  };
}

/** git was ended by us, or by curl, because the remote was silent. */
function isSilence(error: unknown): boolean {
  if (!(error instanceof GitFailure)) return false;
  return error.cause instanceof Error || /Operation too slow|timed? ?out/i.test(error.stderr);
}

function isRedirect(error: unknown): boolean {
  return error instanceof GitFailure && /requested URL returned error: 30[1278]/.test(error.stderr);
}

function proxyOf({ protocol }: Remote, env: NodeJS.ProcessEnv): string | undefined {
  if (protocol === "ssh:") return undefined;
  const names = protocol === "http:" ? ["http_proxy"] : ["https_proxy", "HTTPS_PROXY"];
  return [...names, "all_proxy", "ALL_PROXY"].map((name) => env[name]).find((value) => value);
}
