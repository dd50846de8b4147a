/** Merges a pull request in a clone of its own. */
import { join } from "node:path";
import type { Limit } from "../kit/limit.ts";
import { removeDirectory, type WorkDirectories } from "../kit/work-directories.ts";
import type { Logger } from "../log.ts";
import type { Merge, MergeSource } from "../model.ts";
import { checkPath, type Clone, findProject } from "./clone.ts";
import { explained } from "./explain.ts";
import type { Git } from "./git.ts";
import type { SourceLimits } from "./limits.ts";
import { createMergeClones, type EncryptedFiles } from "./merge-clones.ts";
import { mergeInto } from "./merge.ts";
import type { Mirrors } from "./mirrors.ts";
import { findNamedHosts } from "./named-hosts.ts";
import { readLine } from "./read-line.ts";
import type { Remote } from "./remote.ts";
import { checkTreeSize } from "./tree-size.ts";

export interface OpenMergeDeps {
  readonly git: Git;
  readonly work: Pick<WorkDirectories, "create">;
  readonly mirrors: Pick<Mirrors, "withCommit">;
  /** Limits how many clones are made at once. */
  readonly clones: Limit;
  /** Without it, merges are not available with placeholders for encrypted values. */
  readonly encrypted: EncryptedFiles | undefined;
  readonly proposed: SourceLimits["proposed"];
  cloneInto(root: string, from: Pick<Clone, "path" | "namespace">, remote: Remote, signal: AbortSignal): Promise<void>;
  readonly log: Logger;
}

export function createOpenMerge({
  git,
  work,
  mirrors,
  clones,
  encrypted = noEncrypted,
  proposed,
  cloneInto,
  log,
}: OpenMergeDeps): (remote: Remote, source: MergeSource, signal: AbortSignal) => Promise<Merge> {
  /** Never fails: the work is done by then, and a remaining directory is swept at the next start. */
  async function release(root: string): Promise<void> {
    await removeDirectory(root).catch((err: unknown) => log.warn({ err, root }, "could not remove a checkout"));
  }

  return async function openMerge(remote: Remote, source: MergeSource, signal: AbortSignal): Promise<Merge> {
    const { head, base, isMerged } = source;
    const trusted = isMerged ? source.tip : base;
    // All commits must be in the mirror before it is cloned; a mirror keeps the commits it has.
    for (const commit of new Set([base, trusted ?? base]))
      await mirrors.withCommit(remote, commit, { signal }, () => Promise.resolve());
    const slot = await work.create();
    const root = join(slot, "clone");
    try {
      const { shows } = await mirrors.withCommit(remote, head, { signal }, async (view) => {
        const most = proposed;
        // Runs in parallel with the clone, so that it takes no extra time; the clone has no working tree yet.
        const checked = await Promise.allSettled([
          most && checkTreeSize(git, { mirror: view.path, commit: head, most }, signal),
          cloneInto(root, view, remote, signal),
        ]);
        for (const one of checked) if (one.status === "rejected") throw one.reason;
        return view;
      });
      const merge = await clones.run(() => mergeInto(git, { root, head, base, isMerged }, signal), { signal });
      if ("changed" in merge) {
        const clone = async (copy: string, copying: AbortSignal) => cloneInto(copy, { path: root }, remote, copying);
        let named: Promise<readonly string[]> | undefined;
        const made = createMergeClones({ git, work, encrypted, slot, root, base, shows, clone, remove: release });
        return {
          kind: "merged",
          head,
          base,
          changed: merge.changed,
          project: async (path, asking, of) =>
            explained(remote, asking, async () => {
              checkPath(path);
              const { root: copy, ...placed } = await made.get(asking, of);
              return { ...placed, projectDir: await findProject(copy, path) };
            }),
          stubbed: async (path, asking, of) =>
            explained(remote, asking, async () => {
              checkPath(path);
              const { root: copy, ...placed } = await made.stubbed(asking, of);
              return { ...placed, projectDir: await findProject(copy, path) };
            }),
          baseHosts: async (asking) =>
            explained(remote, asking, async () =>
              trusted === undefined ? [] : (named ??= findNamedHosts(git, { root, commit: trusted }, asking)),
            ),
          line: async (path, line, asking) => readLine((await made.get(asking)).root, path, line),
          async release() {
            await made.release();
            await release(slot);
          },
        };
      }
      await removeDirectory(slot);
      return { kind: "conflict", paths: merge.conflicts };
    } catch (error) {
      await removeDirectory(slot);
      throw error;
    }
  };
}

const noEncrypted: EncryptedFiles = {
  find: () => Promise.resolve(new Map()),
  stub: () => Promise.resolve(new Map()),
};
