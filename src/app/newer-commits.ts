/**
 * Which deployments of a list have a newer commit that waits. Everything is looked up for all of them together, and only for
 * those that may have one: nothing but the length of the queue while nothing waits.
 */
import { loginKey, readGitCredentials } from "../access/credentials.ts";
import { within } from "../kit/deadline.ts";
import { createLimit } from "../kit/limit.ts";
import { createShare } from "../kit/share.ts";
import type { Logger } from "../log.ts";
import { type AnyDeployment, followsGit, type GitDeployment, type Key, keyText, type KnownHeads } from "../model.ts";
import type { DeliveryRecord } from "../model/delivery-record.ts";
import type { Clock, Secrets, Sources } from "../ports.ts";
import type { FoundJob } from "../../jobs/queued-jobs.ts";
import type { Deliveries } from "../redis/deliveries.ts";
import type { Retries } from "../reconcile/retries.ts";
import { findNewerCommits, mayHaveNewerCommit, type NewerCommit } from "../views/newer-commit.ts";

export interface NewerCommitsDeps {
  readonly deployments: { all(): readonly AnyDeployment[] };
  /** By `namespace/name`. */
  readonly findJobs: (deployments: readonly Key[]) => Promise<ReadonlyMap<string, FoundJob>>;
  readonly secrets: Secrets;
  readonly sources: Pick<Sources, "knownHeads">;
  readonly deliveries: Pick<Deliveries, "latest">;
  readonly forges: () => readonly { readonly id: string }[];
  readonly retries: Pick<Retries, "nextAt">;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Many readers of the list share what was found. */
const keptMs = 2_000;
/** The list does not wait for longer: without git's answers, the last pushes decide. */
const waitMs = 500;
/** Logins read for one list, and how long what git answered to one of them is kept. The pushes since are known. */
const [mostLogins, loginsAtOnce, headsKeptMs] = [20, 4, 10_000];

/** By `namespace/name`. Throws QueueUnavailableError. */
export type FindNewerCommits = () => Promise<ReadonlyMap<string, NewerCommit>>;

export function createNewerCommits(deps: NewerCommitsDeps): FindNewerCommits {
  const { clock, log } = deps;
  const lists = createShare<ReadonlyMap<string, NewerCommit>>({ entries: 1, maxAgeMs: keptMs });
  const answers = createShare<KnownHeads | undefined>({ entries: 1_000, maxAgeMs: headsKeptMs });
  const reading = createLimit(loginsAtOnce);

  async function find(): Promise<ReadonlyMap<string, NewerCommit>> {
    const deployments = deps.deployments.all().filter(followsGit);
    const jobs = await deps.findJobs(deployments.map(({ key }) => key));
    const open = deployments.filter((one) => mayHaveNewerCommit(one, jobs.get(keyText(one.key))));
    const [heads, deliveries] = open.length === 0 ? [new Map<string, KnownHeads>(), []] : await readHeads(open);
    return findNewerCommits(deployments, {
      jobs,
      headsOf: (one) => heads.get(loginKey(one)),
      retryAtOf: (one) => deps.retries.nextAt(one),
      deliveries,
      now: clock.now(),
    });
  }

  async function readHeads(
    deployments: readonly GitDeployment[],
  ): Promise<[ReadonlyMap<string, KnownHeads>, readonly DeliveryRecord[]]> {
    const users = new Map(deployments.map((one) => [loginKey(one), one]));
    const heads = new Map<string, KnownHeads>();
    const asked = [...users].slice(0, mostLogins).map(async ([key, user]) => {
      const found = await answers.get(key, () => reading.run(() => headsKnownTo(user)));
      if (found !== undefined) heads.set(key, found);
    });
    const [deliveries] = await Promise.all([
      Promise.all(deps.forges().map(({ id }) => deps.deliveries.latest(id))),
      within(waitMs, Promise.allSettled(asked), () => undefined),
    ]);
    return [heads, deliveries.flat()];
  }

  async function headsKnownTo(deployment: GitDeployment): Promise<KnownHeads | undefined> {
    try {
      const credentials = await readGitCredentials(deployment, deps.secrets);
      return await deps.sources.knownHeads({ url: deployment.spec.source.url, credentials });
    } catch (error) {
      log.debug({ ...deployment.key, error: (error as Error).message }, "could not show what git answered last");
      return undefined;
    }
  }

  return () => lists.get("", find);
}
