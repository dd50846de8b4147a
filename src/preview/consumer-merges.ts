/**
 * The merge of a pull request as the deployments see it that include its repository: their own project at the commit that they
 * follow, with the merge, or its base, in place of what they include.
 */
import { join } from "node:path";
import { SourceError } from "../errors.ts";
import {
  type Credentials,
  type GitDeployment,
  keyText,
  type LocalOverride,
  type Merged,
  type Placed,
  type RepoId,
  type Stubbed,
} from "../model.ts";
import { commitOf } from "../model/git-ref.ts";
import { includedCommitsOf } from "../model/included-commits.ts";
import { includesFrom, isOf } from "../model/includes.ts";
import { toRepoKey } from "../model/repo-key.ts";
import { repoId } from "../model/repo-url.ts";
import type { Sources } from "../ports.ts";

export interface ConsumerMerges {
  mergeFor(deployment: GitDeployment): ConsumerMerge;
  /** Never rejects; the merge itself is released by its owner. */
  release(): Promise<void>;
}

export interface ConsumerMerge {
  readonly merge: Merged;
  readonly commits: ConsumerCommits;
}

/** Other commits of the two repositories than those of the merge. */
export interface ConsumerCommits {
  /** The commit of the deployment's own repository that is rendered. Throws SourceError. */
  readonly own: (signal: AbortSignal) => Promise<string>;
  /**
   * The commit of the included repository that the last reconciliation rendered, or an older one. `undefined`: it is not
   * recorded, or there are several.
   */
  readonly included: string | undefined;
  /** The project at a commit of its own repository, with another commit of the included one. */
  at(own: string, included: string): Sides;
}

/** Both throw like Merged. */
interface Sides {
  project(path: string, signal: AbortSignal): Promise<Placed>;
  stubbed(path: string, signal: AbortSignal): Promise<Stubbed>;
}

export interface ConsumerMergesInput {
  /** The merge of the pull request. */
  readonly library: Merged;
  /** The included repository, under each of its names. */
  readonly repos: ReadonlySet<RepoId>;
  /** Of all the deployments; their own source is the same repository, too. */
  readonly credentials: Credentials;
  readonly sources: Pick<Sources, "heads" | "merge">;
}

/** Clones nothing before it is needed; deployments at the same commit share a clone. */
export function createConsumerMerges({ library, repos, credentials, sources }: ConsumerMergesInput): ConsumerMerges {
  const opened = new Map<string, Promise<Merged>>();
  const commits = new Map<string, Promise<string>>();

  function findCommit(deployment: GitDeployment, signal: AbortSignal): Promise<string> {
    const { url, ref } = deployment.spec.source;
    const name = JSON.stringify(ref);
    const known = commits.get(name);
    if (known !== undefined) return known;
    const finding = sources.heads({ url, credentials: credentials.git }, undefined, signal).then((heads) => {
      const commit = commitOf(ref, heads);
      if (commit === undefined) {
        throw new SourceError("ref-not-found", `the ref that ${keyText(deployment.key)} follows does not exist`);
      }
      return commit;
    });
    commits.set(name, finding);
    return finding;
  }

  /** A commit is its own merge into itself. */
  async function open(deployment: GitDeployment, signal: AbortSignal): Promise<Merged> {
    const commit = await findCommit(deployment, signal);
    const known = opened.get(commit);
    if (known !== undefined) return known;
    const { url } = deployment.spec.source;
    const both = { head: commit, base: commit, isMerged: true, tip: commit };
    const opening = sources.merge({ url, credentials: credentials.git, ...both }, signal).then((merge) => {
      if (merge.kind === "merged") return merge;
      throw new SourceError("refused", `${commit.slice(0, 7)} cannot be checked out`);
    });
    opened.set(commit, opening);
    return opening;
  }

  function mergeFor(deployment: GitDeployment): ConsumerMerge {
    const urls = (includesFrom(deployment, repos) ?? []).map(({ url }) => url);
    const toOverrides = (path: string): LocalOverride[] =>
      urls.flatMap((url) => {
        const repoKey = toRepoKey(url);
        return repoKey === undefined ? [] : [{ repoKey, isGroup: false, path }];
      });

    /** Without a commit: the merge, or what it is deployed from. */
    function place(own?: string, included?: string): Sides {
      return {
        async project(path, signal) {
          const project = await (await open(deployment, signal)).project(path, signal, own);
          const { projectDir } = await library.project("", signal, included);
          return { ...project, overrides: toOverrides(projectDir) };
        },
        async stubbed(path, signal) {
          const project = await (await open(deployment, signal)).stubbed(path, signal, own);
          const { projectDir, encrypted } = await library.stubbed("", signal, included);
          // As if it were below the project, of which it is a part.
          const below = join(path, repoId(urls[0] ?? "") ?? "included");
          const files = [...encrypted].map(([file, digest]) => [join(below, file), digest] as const);
          return {
            ...project,
            encrypted: new Map([...project.encrypted, ...files]),
            overrides: toOverrides(projectDir),
          };
        },
      };
    }

    /** `of`: the base of the pull request's merge, or another commit of the own repository, which gets that base. */
    function placeSides(of: string | undefined): Sides {
      const isMerge = of === undefined;
      return place(isMerge || of === library.base ? undefined : of, isMerge ? undefined : library.base);
    }

    const merge: Merged = {
      kind: "merged",
      head: library.head,
      base: library.base,
      changed: library.changed,
      project: (path, signal, of) => placeSides(of).project(path, signal),
      stubbed: (path, signal, of) => placeSides(of).stubbed(path, signal),
      async baseHosts(signal) {
        const own = await open(deployment, signal);
        return [...(await own.baseHosts(signal)), ...(await library.baseHosts(signal))];
      },
      // The pull request has no line of another repository.
      line: () => Promise.resolve(undefined),
      release: () => Promise.resolve(),
    };
    const recorded = includedCommitsOf(deployment).filter(
      ({ url, ref }) => isOf(url, repos) && ref.startsWith("refs/heads/"),
    );
    const [included, ...others] = new Set(recorded.map(({ commit }) => commit));
    const commits: ConsumerCommits = {
      own: (signal) => findCommit(deployment, signal),
      included: others.length > 0 ? undefined : included,
      at: place,
    };
    return { merge, commits };
  }

  return {
    mergeFor,
    async release() {
      const all = await Promise.allSettled(opened.values());
      const made = all.filter((one) => one.status === "fulfilled").map(({ value }) => value);
      await Promise.all(made.map((one) => one.release()));
    },
  };
}
