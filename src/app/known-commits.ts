/**
 * What the server knows of a deployment's commits without asking git: what they say, and whether a newer one waits. The
 * page shows it beside the rest, so that it is never waited for long, and a failure is no reason to show nothing.
 */
import { readGitCredentials } from "../access/credentials.ts";
import { createBoundedMap } from "../kit/bounded-map.ts";
import { within } from "../kit/deadline.ts";
import { createShare } from "../kit/share.ts";
import type { Logger } from "../log.ts";
import { deployedCommitOf } from "../model/last-deploy.ts";
import { type AnyDeployment, followsGit, type GitDeployment, keyText } from "../model.ts";
import type { JobQueue } from "../../jobs/queue.ts";
import type { Clock, Secrets, Sources } from "../ports.ts";
import { cut, redactVisibly } from "../preview/visible-text.ts";
import type { Deliveries } from "../redis/deliveries.ts";
import type { Retries } from "../reconcile/retries.ts";
import { findNewerCommit, type NewerCommit } from "../views/newer-commit.ts";
import type { PageCommit } from "../web/facts.ts";
import type { LiveForges } from "./live-forges.ts";

export interface KnownCommitsDeps {
  readonly secrets: Secrets;
  readonly sources: Pick<Sources, "knownAuthorship" | "knownHeads">;
  readonly deliveries: Pick<Deliveries, "latest">;
  readonly queue: Pick<JobQueue, "find">;
  readonly hostsOfRepo: LiveForges["hostsOfRepo"];
  readonly retries: Pick<Retries, "nextAt">;
  /** The server's own secrets. */
  readonly knownSecrets: () => readonly string[];
  readonly clock: Clock;
  readonly log: Logger;
}

export interface KnownCommits {
  readonly newer: NewerCommit | undefined;
  /** Those of its commits that the mirror has. */
  readonly described: readonly PageCommit[];
}

/** A fetch may keep the mirror for minutes. */
const waitMs = 500;
/** So long, a mirror that does not have a commit is not searched again. */
const missingMs = 10_000;
const mostKept = 2_000;
const longest = { subject: 200, author: 80 };

/** Resolves within half a second or so, and never rejects. */
export type FindKnownCommits = (deployment: AnyDeployment) => Promise<KnownCommits>;

export function createKnownCommits(deps: KnownCommitsDeps): FindKnownCommits {
  const { sources, clock, log } = deps;
  const described = createBoundedMap<PageCommit>({ entries: mostKept });
  const searches = createShare<PageCommit | undefined>({ entries: mostKept, maxAgeMs: missingMs });

  const orNothing = <T>(about: AnyDeployment, part: Promise<T>): Promise<T | undefined> =>
    within(waitMs, part, () => undefined).catch((error: unknown) => {
      log.debug({ ...about.key, error: (error as Error).message }, "could not show what is known of its commits");
      return undefined;
    });

  const repositoryOf = async (deployment: GitDeployment) => ({
    url: deployment.spec.source.url,
    credentials: await readGitCredentials(deployment, deps.secrets),
  });

  async function findNewer(deployment: AnyDeployment): Promise<NewerCommit | undefined> {
    if (!followsGit(deployment)) return undefined;
    const { key, repo, spec } = deployment;
    const [heads, job, ...deliveries] = await Promise.all([
      orNothing(
        deployment,
        repositoryOf(deployment).then((repository) => sources.knownHeads(repository)),
      ),
      deps.queue.find({ kind: "reconcile", deployment: key, cause: "interval", repo }),
      ...deps.hostsOfRepo(spec.source.url).sending.map((forge) => deps.deliveries.latest(forge)),
    ]);
    const retryAt = deps.retries.nextAt(deployment);
    return findNewerCommit(deployment, { heads, job, deliveries: deliveries.flat(), retryAt, now: clock.now() });
  }

  async function describe(deployment: GitDeployment, commit: string): Promise<PageCommit | undefined> {
    const id = `${keyText(deployment.key)} ${deployment.uid} ${commit}`;
    const known = described.get(id);
    if (known !== undefined) return known;
    const found = await searches.get(id, (signal) => search(deployment, commit, signal), {
      signal: AbortSignal.timeout(waitMs),
    });
    if (found !== undefined) described.set(id, found);
    return found;
  }

  async function search(
    deployment: GitDeployment,
    commit: string,
    signal: AbortSignal,
  ): Promise<PageCommit | undefined> {
    const found = await sources.knownAuthorship(await repositoryOf(deployment), commit, signal);
    if (found === undefined || found.subject === "") return undefined;
    const [subject, author] = await Promise.all([toText(found.subject, "subject"), toText(found.author, "author")]);
    return { commit, subject, author: author || undefined };
  }

  /** Anybody who can push writes it. */
  async function toText(text: string, kind: keyof typeof longest): Promise<string> {
    const line = await redactVisibly(text, deps.knownSecrets());
    const short = cut(line, longest[kind]);
    return short === line ? line : `${short}…`;
  }

  return async function find(deployment) {
    const newer = await orNothing(deployment, findNewer(deployment));
    if (!followsGit(deployment)) return { newer, described: [] };
    const { observedCommit, lastDeployResult } = deployment.status;
    const commits = new Set([observedCommit, deployedCommitOf(lastDeployResult), newer?.commit]);
    const texts = [...commits].map(async (commit) =>
      commit ? orNothing(deployment, describe(deployment, commit)) : undefined,
    );
    return { newer, described: (await Promise.all(texts)).filter((one) => one !== undefined) };
  };
}
