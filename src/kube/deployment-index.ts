/** Indexes the watched deployments by name, by repository and by included repository, and notifies subscribers of changes. */
import type { Logger } from "../log.ts";
import {
  type AnyDeployment,
  type Deployment,
  type DeploymentChange,
  followsGit,
  type GitDeployment,
  isMalformed,
  type Key,
  keyText,
  type RepoId,
} from "../model.ts";
import { includedBy } from "../model/includes.ts";

export interface DeploymentIndex {
  /** Stores a new version; does nothing if this version is known already. */
  set(entry: AnyDeployment): void;
  /** Removes exactly this resource; a newer resource of the same name stays. */
  remove(entry: AnyDeployment): void;
  find(key: Key): AnyDeployment | undefined;
  all(): readonly AnyDeployment[];
  tracking(repo: RepoId): readonly GitDeployment[];
  including(repo: RepoId): readonly Deployment[];
  /** What is known already is reported as `added` before this returns. */
  onChange(callback: (change: DeploymentChange) => void): void;
}

export function createDeploymentIndex(log: Logger): DeploymentIndex {
  const known = new Map<string, AnyDeployment>();
  const byRepo = createGroups<GitDeployment>();
  const byInclude = createGroups<Deployment>();
  const callbacks: ((change: DeploymentChange) => void)[] = [];

  function emit(change: DeploymentChange, to: readonly ((change: DeploymentChange) => void)[] = callbacks): void {
    for (const callback of to) {
      try {
        callback(change);
      } catch (error) {
        log.error({ deployment: keyText(change.deployment.key), err: error }, "could not handle a change");
      }
    }
  }

  function set(entry: AnyDeployment): void {
    const id = keyText(entry.key);
    const previous = known.get(id);
    if (previous !== undefined && previous.uid !== entry.uid) return (remove(previous), set(entry)); // deleted and created again
    if (previous?.resourceVersion === entry.resourceVersion) return;
    unindex(previous);
    known.set(id, entry);
    if (followsGit(entry)) byRepo.add(entry.repo, id, entry);
    if (!isMalformed(entry)) for (const repo of includedBy(entry)) byInclude.add(repo, id, entry);
    emit(
      previous === undefined ? { kind: "added", deployment: entry } : { kind: "changed", deployment: entry, previous },
    );
  }

  function remove(entry: AnyDeployment): void {
    const previous = known.get(keyText(entry.key));
    if (previous?.uid !== entry.uid) return;
    unindex(previous);
    known.delete(keyText(entry.key));
    emit({ kind: "removed", deployment: entry, previous });
  }

  function unindex(entry: AnyDeployment | undefined): void {
    if (entry === undefined) return;
    const id = keyText(entry.key);
    if (followsGit(entry)) byRepo.remove(entry.repo, id);
    for (const repo of includedBy(entry)) byInclude.remove(repo, id);
  }

  return {
    set,
    remove,
    find: (key) => known.get(keyText(key)),
    all: () => [...known.values()],
    tracking: byRepo.get,
    including: byInclude.get,
    onChange(callback) {
      callbacks.push(callback);
      for (const deployment of known.values()) emit({ kind: "added", deployment }, [callback]);
    },
  };
}

function createGroups<Entry>() {
  const groups = new Map<RepoId, Map<string, Entry>>();
  return {
    get: (repo: RepoId): Entry[] => [...(groups.get(repo)?.values() ?? [])],
    add(repo: RepoId, id: string, entry: Entry): void {
      const group = groups.get(repo) ?? new Map<string, Entry>();
      groups.set(repo, group.set(id, entry));
    },
    remove(repo: RepoId, id: string): void {
      const group = groups.get(repo);
      group?.delete(id);
      if (group?.size === 0) groups.delete(repo);
    },
  };
}

export type ResourceVersion = Pick<AnyDeployment, "uid" | "resourceVersion">;

/** The API server orders the versions of one object; events may arrive twice or out of order. */
export function isNewer(entry: ResourceVersion, than: ResourceVersion): boolean {
  if (entry.uid !== than.uid) return true;
  if (!/^\d+$/.test(entry.resourceVersion) || !/^\d+$/.test(than.resourceVersion)) return true;
  return BigInt(entry.resourceVersion) > BigInt(than.resourceVersion);
}
