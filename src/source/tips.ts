/** Reads what `git for-each-ref` prints of a mirror: what the remote had when it was last fetched from. Pure. */
import type { Heads } from "../model.ts";
import { guessDefault } from "./ls-remote.ts";

export const tipsFormat = "--format=%(objectname)%09%(*objectname)%09%(*objecttype)%09%(refname)";

/** Where a fetch puts what HEAD is on the remote. */
export const remoteHead = "refs/remote/HEAD";

export interface Tips {
  /** All that some ref points to. */
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
    nested ||= type === "tag"; // git before 2.45 tells only what the outer one points to
  }
  const defaultRef = head && guessDefault(head, commits);
  return { commits: all, heads: nested || defaultRef === undefined ? undefined : { defaultRef, commits } };
}
