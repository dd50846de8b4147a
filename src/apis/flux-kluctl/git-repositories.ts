/**
 * The Flux GitRepositories that legacy KluctlDeployments reference: watched only in namespaces where one is referenced.
 */
import { collectionOf, isKindServed, type Kind } from "../../kube/kind.ts";
import { readOrNothing } from "../../kube/read-or-nothing.ts";
import { ApiError } from "../../errors.ts";
import type { Logger } from "../../log.ts";
import { type Key, keyText } from "../../model.ts";
import type { KubeClient } from "../../kube/client.ts";
import { startWatch, type Watch } from "../../kube/watch.ts";
import { type FoundGitRepository, type GitRepository, parseGitRepository } from "./git-repository.ts";

export interface GitRepositoriesDeps {
  readonly client: KubeClient;
  readonly log: Logger;
  /** Called when a GitRepository was added, changed or removed. */
  readonly onChange: (key: Key) => void;
  readonly retryMs?: number | undefined;
}

export interface GitRepositories {
  /** Reads it from the API server. */
  get(key: Key): Promise<FoundGitRepository>;
  /** From memory; `pending` until its namespace has been listed, which the first call starts. */
  find(key: Key): FoundGitRepository | "pending";
  /** Checks again whether the cluster has GitRepositories. */
  refresh(): Promise<void>;
  stop(): Promise<void>;
}

interface Namespace {
  /** Milliseconds of the process's clock. */
  readonly begunAt: number;
  readonly watch: Watch;
  readonly known: Map<string, GitRepository>;
}

/** While a list is pending, no deployment is served; one namespace that is never listed must not prevent that for good. */
const longestListMs = 30_000;

/** Newest first; the fields that are read are the same in all of them. */
const versions = ["v1", "v1beta2", "v1beta1"];

/** The API version in which the cluster serves GitRepositories; `none` if it does not. */
type Version = string;

export interface GitRepositoryReader {
  /** Reads it from the API server. */
  get(key: Key): Promise<FoundGitRepository>;
  /** Looks the version up, unless it is known already. */
  look(): Promise<Version>;
  known(): Version | undefined;
}

export function createGitRepositoryReader(client: Pick<KubeClient, "request">): GitRepositoryReader {
  let version: Version | undefined;

  async function look(): Promise<Version> {
    if (version === undefined || version === "none") version = await findVersion();
    return version;
  }

  async function findVersion(): Promise<Version> {
    for (const candidate of versions) {
      if (await isKindServed(client, kindIn(candidate))) return candidate;
    }
    return "none";
  }

  return {
    look,
    known: () => version,
    async get({ namespace, name }) {
      const served = await look();
      if (served === "none") return "not-served";
      const path = `${collectionOf(kindIn(served), namespace)}/${encodeURIComponent(name)}`;
      try {
        const found = await readOrNothing(client, path);
        if (found === undefined) version = await findVersion(); // perhaps this API version was removed
        return parseGitRepository(found);
      } catch (error) {
        if (error instanceof ApiError && error.status === 403) return "forbidden";
        throw error;
      }
    },
  };
}

function kindIn(version: Version): Kind {
  return { apiVersion: `source.toolkit.fluxcd.io/${version}`, plural: "gitrepositories" };
}

export function createGitRepositories({ client, log, onChange, retryMs }: GitRepositoriesDeps): GitRepositories {
  const namespaces = new Map<string, Namespace>();
  /** GitRepositories that were looked up before it was known whether the cluster has any. */
  const wanted = new Map<string, Key>();
  const reader = createGitRepositoryReader(client);

  function begin(namespace: string, served: string): Namespace {
    const known = new Map<string, GitRepository>();
    const take = (object: unknown): GitRepository | undefined => {
      const repository = parseGitRepository(object);
      if (repository) known.set(keyText(repository.key), repository);
      return repository;
    };
    const notify = (repository: GitRepository | undefined) => repository && onChange(repository.key);
    const watch = startWatch({
      client,
      log,
      retryMs,
      path: collectionOf(kindIn(served), namespace),
      what: "Flux's GitRepositories",
      missing: "their definition was removed from the cluster",
      onList(objects) {
        const before = [...known.values()];
        known.clear();
        [...before, ...objects.map(take)].forEach(notify);
      },
      onEvent(type, object) {
        const repository = take(object);
        if (repository && type === "DELETED") known.delete(keyText(repository.key));
        notify(repository);
      },
    });
    const begun = { begunAt: performance.now(), watch, known };
    namespaces.set(namespace, begun);
    void watch.listed.then(() => wantedIn(namespace).forEach(onChange));
    return begun;
  }

  function wantedIn(namespace: string): Key[] {
    return [...wanted.values()].filter((key) => key.namespace === namespace);
  }

  return {
    get: reader.get,
    find(key) {
      wanted.set(keyText(key), key);
      const version = reader.known();
      if (version === undefined) return "pending";
      if (version === "none") return "not-served";
      const { begunAt, watch, known } = namespaces.get(key.namespace) ?? begin(key.namespace, version);
      if (watch.synced()) return known.get(keyText(key));
      if (watch.status() === 403) return "forbidden";
      return performance.now() - begunAt > longestListMs ? "unread" : "pending";
    },
    async refresh() {
      const before = reader.known();
      if ((await reader.look()) !== before) [...wanted.values()].forEach(onChange);
      for (const [namespace, { watch }] of namespaces) {
        if (!watch.synced()) wantedIn(namespace).forEach(onChange);
      }
    },
    async stop() {
      await Promise.all([...namespaces.values()].map(({ watch }) => watch.stop()));
    },
  };
}
