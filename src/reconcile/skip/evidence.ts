/** What a proof is made of: what stands in git, in Secrets and in the cluster right now, asked for once for all who ask. */
import { createHmac, randomBytes } from "node:crypto";
import { commitOf } from "../../git-ref.ts";
import type { ChangedPaths, Deployment, GitDeployment, Repository } from "../../model.ts";
import type { Checkout, Clock, Secrets, Sources, UnsteadyFiles } from "../../ports.ts";
import { loginKey, readGitCredentials } from "../credentials.ts";
import { mayBecomeParent, mayLeadOutside } from "../../template-code.ts";
import type { GitPlace, KnownInputs } from "./inputs.ts";

export interface EvidenceDeps {
  readonly sources: Pick<Sources, "heads" | "checkout" | "changes">;
  readonly secrets: Secrets;
  /** What of the cluster a chart may ask for: its version, its kinds. Equal while they are. */
  readonly clusterFacts: () => Promise<string>;
  /** Looks through the files of a checkout, or of a directory in it. */
  readonly findUnsteady: (root: string, path: string, signal: AbortSignal) => Promise<UnsteadyFiles>;
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
  /** Where its source is, by an answer that was asked for after this time. */
  sourceCommit(deployment: GitDeployment, since: number, signal: AbortSignal): Promise<string | undefined>;
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
    inputs: Pick<KnownInputs, "charts" | "leadsOutside">,
  ): Promise<Files>;
  /** In which files of its source two commits differ. */
  changes(deployment: GitDeployment, from: string, to: string, signal: AbortSignal): Promise<ChangedPaths>;
}

export interface Files {
  readonly unsteady?: string | undefined;
  /** Nothing in the project's directory, or in what it includes, names what lies outside of it. */
  readonly standsAlone: boolean;
}

const longestHeadsMs = 90_000;
const clusterFactsMs = 60_000;
const mostRemembered = 2_000;
/** Each may be thousands of paths. */
const mostDifferences = 50;
const requestMs = 20_000;

export function createEvidence(deps: EvidenceDeps): Evidence {
  const { sources, secrets, clock } = deps;
  const steadiness = new Map<string, Promise<UnsteadyFiles>>();
  const differences = new Map<string, Promise<ChangedPaths>>();
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
  async function headsOf(group: string, repository: Repository, since: number, signal: AbortSignal) {
    const now = clock.now();
    let known = heads.get(group);
    if (known === undefined || known.at <= since) {
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
  const recently = ({ spec }: Deployment) => clock.now() - Math.min(longestHeadsMs, spec.intervalMs * 0.3);

  async function commitsOf(
    deployment: Deployment,
    places: readonly GitPlace[],
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, string>> {
    const commits = new Map<string, string>();
    if (places.length === 0) return commits;
    const credentials = await readGitCredentials(deployment, secrets);
    const since = recently(deployment);
    for (const { url, ref } of places) {
      const group = loginKey({
        ...deployment,
        spec: { ...deployment.spec, source: { kind: "git", url, ref, path: "" } },
      });
      const found = ref.commit ?? commitOf(ref, await headsOf(group, { url, credentials }, since, signal));
      if (found === undefined) throw new Error(`${url} has no such ref`);
      commits.set(placeText({ url, ref }), found);
    }
    return commits;
  }

  const isSteady = (id: string, look: () => Promise<UnsteadyFiles>) => once(steadiness, mostRemembered, id, look);

  async function findUnsteady(
    { deployment, checkout, signal }: Rendered,
    places: ReadonlyMap<string, string>,
    { charts, leadsOutside }: Pick<KnownInputs, "charts" | "leadsOutside">,
  ): Promise<Files> {
    const { source, args } = deployment.spec;
    const version = source.kind === "oci" ? source.ref.digest : checkout.commit;
    const own = (path: string) =>
      isSteady(`${source.url} ${version} ${path}`, () => deps.findUnsteady(checkout.root, path, signal));
    const included = ([place, commit]: readonly [string, string]) => {
      const { url } = JSON.parse(place) as GitPlace;
      return isSteady(`${url} ${commit}`, async () => {
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
    // What is included may name a directory above as well, or hold a value that becomes the name of one.
    const named = JSON.stringify(args ?? {});
    const standsAlone =
      source.kind !== "oci" &&
      source.path !== "" &&
      !leadsOutside &&
      !mayLeadOutside(named) &&
      !mayBecomeParent(named) &&
      [project, ...found].every(({ outside }) => outside === undefined);
    if (!standsAlone) found.push(await own(""));
    else {
      // What it does not read may be as it likes; charts are looked for up to the repository's root.
      found.push(project);
      if (charts) for (const path of chartsAbove(source.path)) found.push(await own(path));
    }
    const why = found.map(({ templates, charts: ofCharts }) => templates ?? (charts ? ofCharts : undefined));
    return { unsteady: why.find((one) => one !== undefined), standsAlone };
  }

  async function changes(
    deployment: GitDeployment,
    from: string,
    to: string,
    signal: AbortSignal,
  ): Promise<ChangedPaths> {
    const answer = await once(differences, mostDifferences, `${loginKey(deployment)} ${from} ${to}`, async () => {
      const credentials = await readGitCredentials(deployment, secrets);
      const repository = { url: deployment.spec.source.url, credentials };
      return sources.changes(repository, from, to, AbortSignal.timeout(requestMs));
    });
    signal.throwIfAborted();
    return answer;
  }

  async function sourceCommit(
    deployment: GitDeployment,
    since: number,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { source } = deployment.spec;
    if (source.ref.commit !== undefined) return source.ref.commit;
    const credentials = await readGitCredentials(deployment, secrets);
    const repository = { url: source.url, credentials };
    const notBefore = Math.max(since, recently(deployment));
    const answer = await headsOf(loginKey(deployment), repository, notBefore, signal);
    return commitOf(source.ref, answer);
  }

  return { hashSecrets, clusterFacts, sourceCommit, commitsOf, findUnsteady, changes };
}

/** Where kluctl finds the charts of a project besides the project itself: 2.24 and newer, in every directory above. */
function chartsAbove(path: string): readonly string[] {
  const parts = path.split("/");
  return parts.map((_, above) => [...parts.slice(0, above), ".helm-charts"].join("/"));
}

export function placeText(place: GitPlace): string {
  return JSON.stringify(place);
}

/** Asks once for all who ask for the same; what failed is asked anew. */
function once<T>(known: Map<string, Promise<T>>, most: number, id: string, ask: () => Promise<T>): Promise<T> {
  let answer = known.get(id);
  if (answer === undefined) {
    answer = ask();
    known.set(id, answer);
    answer.catch(() => known.delete(id));
    evict(known, most);
  }
  return answer;
}

/** What came first goes first. */
export function evict(map: Map<string, unknown>, most = mostRemembered): void {
  for (const key of map.keys()) {
    if (map.size <= most) return;
    map.delete(key);
  }
}
