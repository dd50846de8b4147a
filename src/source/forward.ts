/**
 * Which commit a ref names, and whether that is older than what it named before: a replica of a git host may lag behind,
 * so that a step back counts only if git takes it twice.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { SourceError } from "../errors.ts";
import { createShare } from "../kit/share.ts";
import type { Logger } from "../log.ts";
import { commitOf, describeRef, refName } from "../model/git-ref.ts";
import type { Freshness, GitCheckoutSource, GitRef, Heads } from "../model.ts";
import type { Git } from "./git.ts";
import type { FindHeads } from "./heads.ts";
import type { SourceLimits } from "./limits.ts";
import type { Waiting } from "./mirror-fetch.ts";
import type { Mirrors, MirrorView } from "./mirrors.ts";
import type { Remote } from "./remote.ts";

export interface ForwardDeps {
  readonly git: Git;
  readonly mirrors: Pick<Mirrors, "withCommit">;
  readonly findHeads: FindHeads;
  readonly limits: Pick<SourceLimits, "goesBackMs" | "headsMs">;
  readonly log: Logger;
}

export function createForward({ git, mirrors, findHeads, limits: { goesBackMs, headsMs }, log }: ForwardDeps) {
  /** An answer that was requested to repeat an earlier one → the earlier one. */
  const repeated = new WeakMap<Heads, Heads>();
  const ancestries = createShare<boolean>({ maxAgeMs: headsMs, entries: 1_000 });
  /** Commits never change, and neither does what they lead back to. */
  const lineages = createShare<boolean>({ entries: 1_000 });

  function resolvePinned(commit: string): string {
    if (/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/i.test(commit)) return commit.toLowerCase();
    throw new SourceError("ref-not-found", `${JSON.stringify(commit)} is not the full hash of a commit`);
  }

  function commitIn(heads: Heads, ref: GitRef): string {
    if (heads.commits.size === 0) throw new SourceError("empty", "the repository has no commits");
    const commit = commitOf(ref, heads);
    if (commit !== undefined) return commit;
    const inKluctlsWords = `ref ${refName(ref, heads) ?? "HEAD"} not found`;
    throw new SourceError("ref-not-found", `there is no ${JSON.stringify(describeRef(ref)).slice(1, -1)}`, {
      inKluctlsWords,
    });
  }

  /** Resolves the ref. A commit that is an ancestor of the one seen last is accepted only if git returns it twice. */
  async function resolveForward(
    remote: Remote,
    { ref, seen }: GitCheckoutSource,
    freshness: Freshness | undefined,
    waiting: Waiting,
  ): Promise<string> {
    const { signal } = waiting;
    if (ref.commit !== undefined) return resolvePinned(ref.commit);
    const answer = await findHeads(remote, freshness, waiting);
    const first = commitIn(answer, ref);
    const isComparable = seen !== undefined && /^[0-9a-f]{40,64}$/.test(seen);
    if (!isComparable || seen === first || !(await mayGoBack(remote, first, seen, waiting))) return first;
    const earlier = repeated.get(answer);
    if (earlier !== undefined && commitOf(ref, earlier) === first) return first;
    const from = performance.now();
    await sleep(goesBackMs, undefined, { signal });
    // Other deployments with the same first answer wait as well, and share this one.
    const again = await findHeads(remote, { maxAgeMs: performance.now() - from - goesBackMs / 2 }, { signal });
    repeated.set(again, answer);
    const second = commitIn(again, ref);
    log.info({ repo: remote.label, seen, first, second }, "git returned an older commit; checked again");
    return second;
  }

  /**
   * Whether `to` is an ancestor of `from`. After a force push, `from` may be missing from the mirror, or was not shown
   * to this login; then this returns true.
   */
  async function mayGoBack(remote: Remote, to: string, from: string, waiting: Waiting): Promise<boolean> {
    const compare = async (view: MirrorView, signal: AbortSignal) =>
      !(await view.shows(from)) || leadsTo(view, to, from, signal);
    return mirrors.withCommit(remote, to, waiting, (view) =>
      ancestries.get(`${view.id} ${to} ${from}`, (shared) => compare(view, shared), { signal: waiting.signal }),
    );
  }

  /** What leads to a commit was shown together with it: an ancestor that was not shown is none. */
  async function leadsTo({ path, shows }: MirrorView, to: string, from: string, signal: AbortSignal): Promise<boolean> {
    if (!(await shows(to))) return false;
    const how = { at: { gitDir: path }, protocols: [], answers: [1], signal };
    return (await git(["merge-base", to, from], how)).trim() === to;
  }

  return {
    resolveForward,

    /** Whether `ancestor` leads to `commit`, as far as this login was shown both. */
    async contains(remote: Remote, commit: string, ancestor: string, waiting: Waiting): Promise<boolean> {
      return mirrors.withCommit(remote, commit, waiting, (view) =>
        lineages.get(`${view.id} ${ancestor} ${commit}`, (shared) => leadsTo(view, ancestor, commit, shared), {
          signal: waiting.signal,
        }),
      );
    },
  };
}
