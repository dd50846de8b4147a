/** Parses the output of `git ls-remote --symref`. Pure. */
import type { Heads } from "../model.ts";

const line = /^(?:ref: (?<target>\S+)|(?<commit>[0-9a-f]{40}|[0-9a-f]{64}))\t(?<name>[^\t]+)$/;

export function parseLsRemote(output: string): Heads {
  const commits = new Map<string, string>();
  let defaultRef: string | undefined;
  let headCommit: string | undefined;
  for (const text of output.split("\n")) {
    const { target, commit, name } = line.exec(text)?.groups ?? {};
    if (name === undefined) continue;
    if (name === "HEAD") {
      if (target !== undefined) defaultRef = target;
      else headCommit = commit;
    } else if (commit !== undefined && /^refs\/(?:heads|tags)\//.test(name)) {
      // An annotated tag is listed twice, the second time (`^{}`) with the commit it points to.
      commits.set(name.replace(/\^\{\}$/, ""), commit);
    }
  }
  defaultRef ??= headCommit === undefined ? undefined : guessDefault(headCommit, commits);
  return { defaultRef, commits };
}

/** Parses the output for refs requested by name. git matches names as suffixes, so it lists others too. */
export function parseRefs(output: string, names: readonly string[]): ReadonlyMap<string, string> {
  const found = output.split("\n").flatMap((text) => {
    const { commit, name } = line.exec(text)?.groups ?? {};
    return commit !== undefined && name !== undefined && names.includes(name) ? [[name, commit] as const] : [];
  });
  return new Map(found);
}

/** Guesses the default branch. Simple servers, and fetches, report only HEAD's commit, not the branch it points to. */
export function guessDefault(head: string, commits: ReadonlyMap<string, string>): string | undefined {
  const usual = ["refs/heads/main", "refs/heads/master"];
  return [...usual, ...commits.keys()].find((name) => name.startsWith("refs/heads/") && commits.get(name) === head);
}
