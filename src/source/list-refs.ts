/** Asks remotes for their refs, with `git ls-remote`. */
import type { Heads } from "../model.ts";
import { parseLsRemote, parseRefs } from "./ls-remote.ts";
import type { Waiting } from "./mirror-fetch.ts";
import type { RemoteGit } from "./remote-git.ts";
import type { Remote } from "./remote.ts";

export interface ListRefs {
  /** The branches and tags. */
  all(remote: Remote, waiting: Partial<Waiting>): Promise<Heads>;
  /** Refs by their whole names; those that do not exist are absent. */
  named(remote: Remote, names: readonly string[], waiting: Partial<Waiting>): Promise<ReadonlyMap<string, string>>;
}

/** `observe` gets the duration, and whether the remote answered. */
export function createListRefs(remoteGit: RemoteGit, observe?: (seconds: number, ok: boolean) => void): ListRefs {
  async function ask(remote: Remote, names: readonly string[], waiting: Partial<Waiting>): Promise<string> {
    const { signal, leaves } = waiting;
    const from = performance.now();
    let ok = false;
    try {
      const output = await remoteGit(remote, (address) => ["ls-remote", "--symref", "--", address, ...names], {
        signal,
        leaves,
        quick: true,
      });
      ok = true;
      return output;
    } finally {
      observe?.((performance.now() - from) / 1_000, ok);
    }
  }

  return {
    all: async (remote, waiting) => parseLsRemote(await ask(remote, [], waiting)),
    named: async (remote, names, waiting) => parseRefs(await ask(remote, names, waiting), names),
  };
}
