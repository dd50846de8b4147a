/**
 * The evidence behind a skip: the current state of git, Secrets and the cluster, with equal queries shared between
 * callers.
 */
import { createHmac, randomBytes } from "node:crypto";
import { withTimeout } from "../kit/deadline.ts";
import { createShare } from "../kit/share.ts";
import { commitOf } from "../model/git-ref.ts";
import type { ChangedPaths, Checkout, Deployment, Freshness, GitDeployment, UnsteadyFiles } from "../model.ts";
import type { Clock, Secrets, Sources } from "../ports.ts";
import { loginKey, readGitCredentials } from "../access/credentials.ts";
import { mayBecomeParent, mayLeadOutside } from "../model/template-code.ts";
import type { GitPlace, KnownInputs } from "../model/project-inputs.ts";

export interface QueriesDeps {
  readonly sources: Pick<Sources, "heads" | "checkout" | "changes">;
  readonly secrets: Secrets;
  /** Identifies the kluctl that renders: its version and its file. */
  readonly kluctl: () => Promise<string>;
  /**
   * Identifies everything in the cluster that rendering and dry runs depend on: its version, its kinds and their
   * schemas.
   */
  readonly clusterFacts: () => Promise<string>;
  /** Searches the files of a checkout, or of a directory in it. */
  readonly findUnsteady: (root: string, path: string, signal: AbortSignal) => Promise<UnsteadyFiles>;
  readonly clock: Clock;
}

/** What was rendered; its checkout is still available. */
interface Rendered {
  readonly deployment: Deployment;
  readonly checkout: Pick<Checkout, "root" | "commit">;
  readonly signal: AbortSignal;
}

export interface Queries {
  /** A hash of all Secrets that the deployment references; it reveals only whether they are equal. */
  hashSecrets(deployment: Deployment): Promise<string>;
  /** Of the last minute, unless `maxAgeMs` says less. */
  clusterFacts(maxAgeMs?: number): Promise<string>;
  /** Of the last minute, unless `maxAgeMs` says less. */
  kluctl(maxAgeMs?: number): Promise<string>;
  /** The current commit of its source. */
  sourceCommit(deployment: GitDeployment, freshness: Freshness, signal: AbortSignal): Promise<string | undefined>;
  /** The current commits of the git places it includes: `placeText` → commit. Throws if one has no such ref. */
  commitsOf(
    deployment: Deployment,
    places: readonly GitPlace[],
    freshness: Freshness,
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, string>>;
  /** Finds what in the project, or in the places it includes, may render differently another time. */
  findUnsteady(
    rendered: Rendered,
    places: ReadonlyMap<string, string>,
    inputs: Pick<KnownInputs, "charts" | "leadsOutside">,
  ): Promise<Files>;
  /** The files in which two commits of its source differ. */
  changes(deployment: GitDeployment, from: string, to: string, signal: AbortSignal): Promise<ChangedPaths>;
}

export interface Files {
  readonly unsteady?: string | undefined;
  /** Neither the project's directory nor what it includes refers to files outside of it. */
  readonly isSelfContained: boolean;
}

const factsMs = 60_000;
export const mostRemembered = 2_000;
/** Each entry may contain thousands of paths. */
const mostDifferences = 50;
const requestMs = 20_000;

export function createQueries(deps: QueriesDeps): Queries {
  const { sources, secrets, clock } = deps;
  const steadiness = createShare<UnsteadyFiles>({ entries: mostRemembered });
  const differences = createShare<ChangedPaths>({ entries: mostDifferences });
  const facts = createShare<string>({ entries: mostRemembered, maxAgeMs: factsMs, now: () => clock.now() });
  // A keyed hash, so that a memory dump reveals no secrets.
  const hashKey = randomBytes(32);

  async function hashSecrets({ key, spec }: Deployment): Promise<string> {
    const refs = [...spec.gitCredentials, ...spec.ociCredentials, ...spec.helmCredentials];
    const names = new Set(refs.map(({ secretName }) => secretName));
    if (spec.decryption?.secretName !== undefined) names.add(spec.decryption.secretName);
    const hash = createHmac("sha256", hashKey);
    for (const name of [...names].toSorted()) {
      const data = await secrets.get(key.namespace, name, spec.serviceAccountName);
      const entries = data && Object.entries(data).toSorted(([a], [b]) => (a < b ? -1 : 1));
      hash.update(JSON.stringify([name, entries ?? null]));
    }
    return hash.digest("base64");
  }

  const fact = (what: string, ask: () => Promise<string>) => (maxAgeMs?: number) => facts.get(what, ask, { maxAgeMs });

  async function commitsOf(
    deployment: Deployment,
    places: readonly GitPlace[],
    freshness: Freshness,
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, string>> {
    const commits = new Map<string, string>();
    if (places.length === 0) return commits;
    const credentials = await readGitCredentials(deployment, secrets);
    for (const { url, ref } of places) {
      const found =
        ref.commit ??
        commitOf(ref, await sources.heads({ url, credentials }, freshness, withTimeout(requestMs, signal)));
      if (found === undefined) throw new Error(`${url} does not have this ref`);
      commits.set(placeText({ url, ref }), found);
    }
    return commits;
  }

  async function findUnsteady(
    { deployment, checkout, signal }: Rendered,
    places: ReadonlyMap<string, string>,
    { charts, leadsOutside }: Pick<KnownInputs, "charts" | "leadsOutside">,
  ): Promise<Files> {
    const { source, args } = deployment.spec;
    const version = source.kind === "oci" ? source.ref.digest : checkout.commit;
    const own = (path: string) =>
      steadiness.get(`${source.url} ${version} ${path}`, () => deps.findUnsteady(checkout.root, path, signal));
    const included = ([place, commit]: readonly [string, string]) => {
      const { url } = JSON.parse(place) as GitPlace;
      return steadiness.get(`${url} ${commit}`, async () => {
        const credentials = await readGitCredentials(deployment, secrets);
        const other = await sources.checkout({ url, ref: { commit }, path: "", credentials }, undefined, signal);
        try {
          return await deps.findUnsteady(other.root, "", signal);
        } finally {
          await other.release();
        }
      });
    };
    const found: UnsteadyFiles[] = [];
    for (const place of places) found.push(await included(place));
    const project = await own(source.path);
    // An included project may also refer to a parent directory, or contain a value that becomes the name of one.
    const named = JSON.stringify(args ?? {});
    const isSelfContained =
      source.kind !== "oci" &&
      source.path !== "" &&
      !leadsOutside &&
      !mayLeadOutside(named) &&
      !mayBecomeParent(named) &&
      [project, ...found].every(({ outside }) => outside === undefined);
    if (!isSelfContained) found.push(await own(""));
    else {
      // Files it does not read do not matter; charts are searched for up to the repository's root.
      found.push(project);
      if (charts) for (const path of chartsAbove(source.path)) found.push(await own(path));
    }
    const why = found.map(({ templates, charts: ofCharts }) => templates ?? (charts ? ofCharts : undefined));
    return { unsteady: why.find((one) => one !== undefined), isSelfContained };
  }

  async function changes(
    deployment: GitDeployment,
    from: string,
    to: string,
    signal: AbortSignal,
  ): Promise<ChangedPaths> {
    const answer = await differences.get(`${loginKey(deployment)} ${from} ${to}`, async () => {
      const credentials = await readGitCredentials(deployment, secrets);
      const repository = { url: deployment.spec.source.url, credentials };
      return sources.changes(repository, from, to, AbortSignal.timeout(requestMs));
    });
    signal.throwIfAborted();
    return answer;
  }

  async function sourceCommit(
    deployment: GitDeployment,
    freshness: Freshness,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { source } = deployment.spec;
    if (source.ref.commit !== undefined) return source.ref.commit;
    const credentials = await readGitCredentials(deployment, secrets);
    const repository = { url: source.url, credentials };
    return commitOf(source.ref, await sources.heads(repository, freshness, withTimeout(requestMs, signal)));
  }

  return {
    hashSecrets,
    clusterFacts: fact("cluster", deps.clusterFacts),
    kluctl: fact("kluctl", deps.kluctl),
    sourceCommit,
    commitsOf,
    findUnsteady,
    changes,
  };
}

/** The directories outside the project where kluctl 2.24 and newer looks for its charts: every parent directory. */
function chartsAbove(path: string): readonly string[] {
  const parts = path.split("/");
  return parts.map((_, above) => [...parts.slice(0, above), ".helm-charts"].join("/"));
}

export function placeText(place: GitPlace): string {
  return JSON.stringify(place);
}
