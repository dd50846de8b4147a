/** What a proof is made of: what stands in git, in Secrets and in the cluster right now, asked for once for all who ask. */
import { createHmac, randomBytes } from "node:crypto";
import { commitOf } from "../../git-ref.ts";
import type { Deployment, GitDeployment, Repository } from "../../model.ts";
import type { Checkout, Clock, Secrets, Sources, UnsteadyFiles } from "../../ports.ts";
import { loginKey, readGitCredentials } from "../credentials.ts";
import type { GitPlace } from "./inputs.ts";

export interface EvidenceDeps {
  readonly sources: Pick<Sources, "heads" | "checkout">;
  readonly secrets: Secrets;
  /** What of the cluster a chart may ask for: its version, its kinds. Equal while they are. */
  readonly clusterFacts: () => Promise<string>;
  /** Looks through the files of a checkout. */
  readonly findUnsteady: (root: string, signal: AbortSignal) => Promise<UnsteadyFiles>;
  readonly clock: Clock;
}

/** What was rendered, and may be read to its end. */
interface Rendered {
  readonly deployment: Deployment;
  readonly checkout: Pick<Checkout, "root" | "commit">;
  readonly signal: AbortSignal;
}

export interface Evidence {
  /** All Secrets that it names, as one text that tells nothing but whether they are the same. */
  hashSecrets(deployment: Deployment): Promise<string>;
  /** At most a minute old. */
  clusterFacts(): Promise<string>;
  /** Where its source is. */
  sourceCommit(deployment: GitDeployment, signal: AbortSignal): Promise<string | undefined>;
  /** Where the places are that it includes: `placeText` → commit. Throws if one has no such ref. */
  commitsOf(
    deployment: Deployment,
    places: readonly GitPlace[],
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, string>>;
  /** What of the project, or of the places that it includes, may render differently another time. */
  findUnsteady(
    rendered: Rendered,
    places: ReadonlyMap<string, string>,
    options: { charts: boolean },
  ): Promise<string | undefined>;
}

const longestHeadsMs = 90_000;
const clusterFactsMs = 60_000;
const mostRemembered = 2_000;
const requestMs = 20_000;

export function createEvidence(deps: EvidenceDeps): Evidence {
  const { sources, secrets, clock } = deps;
  const steadiness = new Map<string, Promise<UnsteadyFiles>>();
  const heads = new Map<string, { readonly at: number; readonly answer: ReturnType<Sources["heads"]> }>();
  let facts: { readonly at: number; readonly answer: Promise<string> } | undefined;
  // Nobody who reads this memory learns a secret from it.
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

  function clusterFacts(): Promise<string> {
    const now = clock.now();
    if (facts === undefined || now - facts.at > clusterFactsMs) {
      const answer = deps.clusterFacts();
      const asked = { at: now, answer };
      answer.catch(() => {
        if (facts === asked) facts = undefined;
      });
      facts = asked;
    }
    return facts.answer;
  }

  /** One question for all that ask for the same within that time. */
  async function headsOf(group: string, repository: Repository, maxAgeMs: number, signal: AbortSignal) {
    const now = clock.now();
    let known = heads.get(group);
    if (known === undefined || now - known.at > maxAgeMs) {
      const answer = sources.heads(repository, undefined, AbortSignal.timeout(requestMs));
      const asked = { at: now, answer };
      answer.catch(() => {
        if (heads.get(group) === asked) heads.delete(group);
      });
      heads.delete(group);
      heads.set(group, asked);
      evict(heads);
      known = asked;
    }
    signal.throwIfAborted();
    return known.answer;
  }

  /** As old as this the answer of a remote may be: a fraction of the interval, for nobody expects more of an interval. */
  const headsAgeMs = ({ spec }: Deployment) => Math.min(longestHeadsMs, spec.intervalMs * 0.3);

  async function commitsOf(
    deployment: Deployment,
    places: readonly GitPlace[],
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, string>> {
    const commits = new Map<string, string>();
    if (places.length === 0) return commits;
    const credentials = await readGitCredentials(deployment, secrets);
    const maxAgeMs = headsAgeMs(deployment);
    for (const { url, ref } of places) {
      const group = loginKey({
        ...deployment,
        spec: { ...deployment.spec, source: { kind: "git", url, ref, path: "" } },
      });
      const found = ref.commit ?? commitOf(ref, await headsOf(group, { url, credentials }, maxAgeMs, signal));
      if (found === undefined) throw new Error(`${url} has no such ref`);
      commits.set(placeText({ url, ref }), found);
    }
    return commits;
  }

  function isSteady(id: string, look: () => Promise<UnsteadyFiles>): Promise<UnsteadyFiles> {
    let known = steadiness.get(id);
    if (known === undefined) {
      known = look();
      steadiness.set(id, known);
      known.catch(() => steadiness.delete(id));
      evict(steadiness);
    }
    return known;
  }

  async function findUnsteady(
    { deployment, checkout, signal }: Rendered,
    places: ReadonlyMap<string, string>,
    { charts }: { charts: boolean },
  ): Promise<string | undefined> {
    const { source } = deployment.spec;
    const version = source.kind === "oci" ? source.ref.digest : checkout.commit;
    const looks = [
      () => isSteady(`${source.url} ${version}`, () => deps.findUnsteady(checkout.root, signal)),
      ...[...places].map(([place, commit]) => () => {
        const { url } = JSON.parse(place) as GitPlace;
        return isSteady(`${url} ${commit}`, async () => {
          const credentials = await readGitCredentials(deployment, secrets);
          const other = await sources.checkout({ url, ref: { commit }, path: "", credentials }, undefined, signal);
          try {
            return await deps.findUnsteady(other.root, signal);
          } finally {
            await other.release();
          }
        });
      }),
    ];
    for (const look of looks) {
      const unsteady = await look();
      const why = unsteady.templates ?? (charts ? unsteady.charts : undefined);
      if (why !== undefined) return why;
    }
    return undefined;
  }

  async function sourceCommit(deployment: GitDeployment, signal: AbortSignal): Promise<string | undefined> {
    const { source } = deployment.spec;
    if (source.ref.commit !== undefined) return source.ref.commit;
    const credentials = await readGitCredentials(deployment, secrets);
    const repository = { url: source.url, credentials };
    const answer = await headsOf(loginKey(deployment), repository, headsAgeMs(deployment), signal);
    return commitOf(source.ref, answer);
  }

  return { hashSecrets, clusterFacts, sourceCommit, commitsOf, findUnsteady };
}

export function placeText(place: GitPlace): string {
  return JSON.stringify(place);
}

/** What came first goes first. */
export function evict(map: Map<string, unknown>): void {
  for (const key of map.keys()) {
    if (map.size <= mostRemembered) return;
    map.delete(key);
  }
}
