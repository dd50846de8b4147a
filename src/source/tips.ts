/** Parses the output of `git for-each-ref` in a mirror: the remote's refs at the last fetch. Pure. */
import type { Heads } from "../model.ts";
import { guessDefault } from "./ls-remote.ts";

/** Without the three parts of `refs/namespaces/<namespace>`. */
export const tipsFormat = "--format=%(objectname)%09%(*objectname)%09%(*objecttype)%09%(refname:lstrip=3)";

/** The ref, in a namespace, that a fetch stores the remote's HEAD in. */
export const remoteHead = "refs/remote/HEAD";

export interface Tips {
  /** The commits that any ref points to. */
  readonly commits: readonly string[];
  /** `undefined`: only the remote can tell. */
  readonly heads: Heads | undefined;
}

export function parseTips(output: string): Tips {
  const all: string[] = [];
  const commits = new Map<string, string>();
  let head: string | undefined;
  let nested = false;
  for (const line of output.split("\n")) {
    const [object = "", peeled = "", type, name] = line.split("\t");
    if (name === undefined) continue;
    const commit = peeled || object;
    all.push(commit);
    if (name === remoteHead) head = commit;
    else if (/^refs\/(?:heads|tags)\//.test(name)) commits.set(name, commit);
    nested ||= type === "tag"; // of nested tags, git before 2.45 resolves only the outermost
  }
  const defaultRef = head && guessDefault(head, commits);
  return { commits: all, heads: nested || defaultRef === undefined ? undefined : { defaultRef, commits } };
}
