/** Connects the parts that notify: the watch, the lane's worker, the targets and the record of what they were sent. */
import type { Redis } from "ioredis";
import type { LaneFairness } from "../../jobs/fairness.ts";
import type { JobQueue } from "../../jobs/queue.ts";
import { startWorker } from "../../jobs/worker.ts";
import { readGitCredentials } from "../access/credentials.ts";
import type { WatchedDeployments } from "../apis/deployments.ts";
import type { TargetConfig } from "../config.ts";
import type { LiveConfig } from "../config/live.ts";
import type { MissedWebhooks } from "../intake/missed-webhooks.ts";
import type { LoginChecks } from "../forge/login-checks.ts";
import { createCommitUrls } from "../forge/commit-url.ts";
import { within } from "../kit/deadline.ts";
import type { Logger } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import type { GitDeployment, RepoId } from "../model.ts";
import { createNotifier } from "../notify/create-notifier.ts";
import type { Clock, Forge, Notifier, Secrets, SentNotifications, Sources, Reports } from "../ports.ts";
import { type NotificationWatch, startNotificationWatch } from "../reporting/notifications/notification-watch.ts";
import type { CommitWords } from "../reporting/notifications/notification.ts";
import { createNotify } from "../reporting/notifications/notify.ts";
import { loginNotices } from "../reporting/notifications/login-notices.ts";
import { findFailedPreviews } from "../reporting/notifications/preview-notices.ts";
import { findSilentForges } from "../reporting/notifications/webhook-notices.ts";

export interface NotificationsDeps {
  readonly live: LiveConfig;
  readonly identity: string;
  readonly sentNotifications: SentNotifications;
  readonly deployments: WatchedDeployments;
  readonly secrets: Secrets;
  readonly sources: Sources;
  readonly forges: ReadonlyMap<string, Forge>;
  readonly reports: Reports;
  readonly missedWebhooks: MissedWebhooks;
  readonly logins: Pick<LoginChecks, "states" | "ids">;
  readonly queue: JobQueue;
  readonly consumer: Redis;
  readonly fairness: LaneFairness;
  readonly clusterId: () => Promise<string>;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface Notifications {
  /** Accepts no new jobs; running ones may continue for this long. */
  stop(drainMs: number): Promise<void>;
}

/** Targets that are sent to at the same time. */
const targetsAtOnce = 4;
/** A message is worth more than its commit's title. */
const describeMs = 10_000;

/** Works from the moment at which the configuration has a target. */
export function startNotifications(deps: NotificationsDeps): Notifications {
  const { live } = deps;
  let started: Notifications | undefined;
  const start = (): void => {
    if (live.now.notifications.targets.length > 0) started ??= startWorking(deps);
  };
  live.onChange(start);
  start();
  return { stop: async (drainMs) => started?.stop(drainMs) };
}

function startWorking(deps: NotificationsDeps): Notifications {
  const { live, deployments, reports, queue, consumer, fairness, metrics, clock, log } = deps;
  const clusterName = async () => live.now.clusterName ?? (await deps.clusterId()).slice(0, 8);
  const notifiers = createNotifiers(deps, clusterName);
  const notify = createNotify({
    config: () => live.now.notifications,
    notifierOf: notifiers,
    deployments,
    async otherNotices(all) {
      const forges = live.now.forges.filter(({ webhooks }) => webhooks).map(({ id }) => id);
      const silent = await findSilentForges(forges, deps.missedWebhooks, all);
      const failed = live.now.preview.enabled ? await findFailedPreviews(reports, all) : [];
      return [...silent, ...failed, ...loginNotices(forgesWithLogin(deps), all, clock.now())];
    },
    record: deps.sentNotifications,
    describeCommit: createDescribeCommit(deps),
    pageUrl: () => live.now.page?.publicUrl,
    clusterName,
    again: (target, afterMs) => watch.again(target, afterMs),
    identity: deps.identity,
    observe: (target, result) => metrics.outside.notified(target, result),
    clock,
    log,
  });
  const worker = startWorker({
    ...{ lane: "notify", connection: consumer, prefix: live.now.redis.prefix, fairness, log },
    concurrency: targetsAtOnce,
    work: (request, { signal }) => notify(request, signal),
    observe: { started: (_request, waited) => metrics.jobWaited("notify", waited), finished: () => undefined },
  });
  const targets = () => live.now.notifications.targets.map(({ id }) => id);
  const watch: NotificationWatch = startNotificationWatch({ deployments, targets, queue, log });
  return {
    async stop(drainMs) {
      watch.stop();
      await worker.stop(drainMs);
    },
  };
}

function forgesWithLogin({ logins, forges }: NotificationsDeps) {
  return logins.ids().map((id) => ({
    id,
    state: logins.states().get(id),
    has: (repo: RepoId) => forges.get(id)?.repoName(repo) !== undefined,
  }));
}

/** One for each target, until its configuration changes. */
function createNotifiers({ live, log }: NotificationsDeps, clusterName: () => Promise<string>) {
  const known = new WeakMap<TargetConfig, Notifier>();
  return async function find(id: string): Promise<Notifier | undefined> {
    const target = live.now.notifications.targets.find((one) => one.id === id);
    if (target === undefined) return undefined;
    const found = known.get(target);
    if (found) return found;
    try {
      const made = createNotifier(target, { cluster: await clusterName() });
      known.set(target, made);
      return made;
    } catch (error) {
      log.error({ target: id, error: (error as Error).message }, "a target of notifications cannot be used");
      return undefined;
    }
  };
}

/** From the merged pull request, if it is known, and else from git. */
function createDescribeCommit({ live, forges, secrets, sources, reports, log }: NotificationsDeps) {
  async function fromGit(deployment: GitDeployment, commit: string): Promise<CommitWords> {
    const credentials = await readGitCredentials(deployment, secrets);
    const repository = { url: deployment.spec.source.url, credentials };
    const { subject, author } = await sources.authorship(repository, commit, AbortSignal.timeout(describeMs));
    return { title: subject || undefined, author: author || undefined };
  }

  async function fromForges({ repo }: GitDeployment, commit: string): Promise<CommitWords> {
    for (const forge of forges.values()) {
      const repoName = forge.repoName(repo);
      if (repoName === undefined) continue;
      const [merged] = await reports.mergedAs({ forge: forge.id, repoName, commit });
      if (merged) return { pullRequest: { label: `Pull request #${merged.pullRequest.number}`, url: merged.url } };
    }
    return {};
  }

  return async function describeCommit(deployment: GitDeployment, commit: string): Promise<CommitWords> {
    const { repo } = deployment;
    const url = createCommitUrls(live.now.forges)(repo, commit);
    const orNothing = async (part: Promise<CommitWords>): Promise<CommitWords> =>
      within(describeMs, part, () => ({})).catch((error: unknown) => {
        log.debug({ repo, commit, error: (error as Error).message }, "could not describe a commit");
        return {};
      });
    const git = await orNothing(fromGit(deployment, commit));
    // What the deployment's login cannot read, nobody learns from it.
    return git.title === undefined ? { url } : { url, ...git, ...(await orNothing(fromForges(deployment, commit))) };
  };
}
