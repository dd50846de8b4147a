/** The page's data, from the same functions as the command line's output. */
import { lanes } from "../../jobs/lanes.ts";
import type { JobQueue } from "../../jobs/queue.ts";
import type { PageDeployment, PageFacts, PageMissed, PageRequest } from "../web/facts.ts";
import type { ForgeConfig, TargetConfig } from "../config.ts";
import type { MissedWebhooks } from "../intake/missed-webhooks.ts";
import { describeMissReason } from "../intake/why-missed.ts";
import { createCommitUrls } from "../forge/commit-url.ts";
import type { KubeClient } from "../kube/client.ts";
import type { WatchedDeployments } from "../apis/deployments.ts";
import { listStoredCommands } from "../kube/stored-commands.ts";
import { createStoredResults } from "../kube/stored-results.ts";
import {
  type Deployment,
  followsGit,
  isMalformed,
  type Key,
  keyText,
  type MalformedDeployment,
  manualKinds,
  type ManualKind,
  manualResultField,
  type ManualResults,
  type MissedPushes,
  type PullRequestKey,
  pullRequestText,
  type RepoId,
  type SweepPace,
} from "../model.ts";
import { reposOfDeployments } from "../model/includes.ts";
import type { ManifestStore, SentNotifications, SweepPaceStore, Reports } from "../ports.ts";
import { type Attention, attentionOf, attentions } from "../preview/attention.ts";
import { createShare } from "../kit/share.ts";
import type { ReportManifests } from "../model/manifests.ts";
import { compareText } from "../kit/compare-text.ts";
import { describeProposal, findProposals } from "../preview/proposals.ts";
import { showDrift, showStatusProblems } from "../views/show-result.ts";
import { showTarget, type ShownTarget } from "../views/notifications.ts";
import { nameOf, type ShownReport, showReport } from "../views/show-report.ts";
import { stateOf } from "../views/state.ts";
import { traceCommit } from "../views/trace.ts";
import { explainJobs } from "./explain-jobs.ts";
import { createKnownCommits, type KnownCommitsDeps } from "./known-commits.ts";
import { markStale, type Report } from "../model/report.ts";
import { createNewerCommits, type NewerCommitsDeps } from "./newer-commits.ts";
import { showStored } from "./show-stored.ts";

export interface PageFactsDeps extends KnownCommitsDeps, NewerCommitsDeps {
  readonly deployments: Pick<WatchedDeployments, "all" | "find">;
  readonly sources: KnownCommitsDeps["sources"];
  readonly client: Pick<KubeClient, "list">;
  readonly resultsNamespace: string;
  readonly reports: Pick<Reports, "open" | "find" | "stale">;
  readonly manifests: Pick<ManifestStore, "find">;
  readonly queue: Pick<JobQueue, "depth" | "jobs" | "find">;
  readonly forges: () => readonly ForgeConfig[];
  readonly missedWebhooks: Pick<MissedWebhooks, "missed">;
  readonly sweepPaces: Pick<SweepPaceStore, "all">;
  readonly targets: () => readonly TargetConfig[];
  readonly sentNotifications: Pick<SentNotifications, "read">;
}

/** Per forge; the store has more. */
const deliveriesShown = 100;
const pullRequestsShown = 200;
/** Redis, which is blocked while it sends a report of up to a megabyte, is asked for it once in this time. */
const reportKeptMs = 1_000;
/** Each takes megabytes, and a reader asks for one deployment after the other. */
const [mostUnpacked, unpackedKeptMs] = [4, 5_000];

export function createPageFacts(
  deps: PageFactsDeps,
): PageFacts & { describe(keys: readonly Key[]): readonly PageDeployment[] } {
  const {
    deployments,
    client,
    resultsNamespace,
    deliveries,
    reports,
    manifests,
    queue,
    forges,
    retries,
    knownSecrets,
    clock,
  } = deps;
  const urls = new WeakMap<readonly ForgeConfig[], ReturnType<typeof createCommitUrls>>();

  function commitUrl(repo: RepoId, commit: string): string | undefined {
    const current = forges();
    const known = urls.get(current) ?? createCommitUrls(current);
    urls.set(current, known);
    return known(repo, commit);
  }
  const results = createStoredResults(client, resultsNamespace);
  const findKnownCommits = createKnownCommits(deps);
  const findNewerCommits = createNewerCommits(deps);

  const unpacked = createShare<ReportManifests | undefined>({ entries: mostUnpacked, maxAgeMs: unpackedKeptMs });
  const lately = new Map<string, Promise<ShownReport | undefined>>();

  /** Readers of one pull request, who may be anybody with its link, share what was read. */
  function reportOf(key: PullRequestKey): Promise<ShownReport | undefined> {
    const id = pullRequestText(key).toLowerCase();
    const before = lately.get(id);
    if (before !== undefined) return before;
    const read = readReport(key);
    lately.set(id, read);
    setTimeout(() => lately.delete(id), reportKeptMs).unref();
    read.catch(() => lately.delete(id));
    return read;
  }

  async function readReport(key: PullRequestKey): Promise<ShownReport | undefined> {
    const [report, stale] = await Promise.all([reports.find(key), reports.stale(key)]);
    if (report === undefined) return undefined;
    return showReport(markStale(report, stale));
  }

  const urlOf = (repo: RepoId | undefined, commit: string | undefined) =>
    repo === undefined || !commit ? undefined : commitUrl(repo, commit);
  const repoOf = (deployment: Deployment | MalformedDeployment) =>
    followsGit(deployment) ? deployment.repo : undefined;

  function describe(deployment: Deployment | MalformedDeployment): PageDeployment {
    const retryAt = isMalformed(deployment) ? undefined : retries.nextAt(deployment);
    const state = stateOf(deployment, clock.now(), retryAt);
    const repo = repoOf(deployment);
    return { ...state, commitUrl: urlOf(repo, state.commit), deployedCommitUrl: urlOf(repo, state.deployedCommit) };
  }

  /** Of the repositories that deployments follow at this forge. */
  function pacesOn(forge: string, paces: readonly SweepPace[]) {
    const here = new Set(
      deployments
        .all()
        .filter(followsGit)
        .filter(({ spec }) => deps.hostsOfRepo(spec.source.url).sending.includes(forge))
        .map(({ repo }) => repo as string),
    );
    const shown = paces
      .filter(({ repo }) => here.has(repo))
      .map(({ repo, pace, everyMs }) => ({ repo, pace, everyMs }));
    return shown.toSorted((a, b) => a.everyMs - b.everyMs || compareText(a.repo, b.repo));
  }

  return {
    describe: (keys) => keys.flatMap((key) => deployments.find(key) ?? []).map(describe),
    deployments: () => deployments.all().map(describe),
    async newerCommits() {
      const newer = await findNewerCommits();
      return deployments.all().flatMap((deployment) => {
        const found = newer.get(keyText(deployment.key));
        const { namespace, name } = deployment.key;
        return found ? [{ namespace, name, ...found, commitUrl: urlOf(repoOf(deployment), found.commit) }] : [];
      });
    },
    async details(key) {
      const deployment = deployments.find(key);
      if (deployment === undefined) return undefined;
      const { status } = deployment;
      const known = findKnownCommits(deployment);
      const stored = await results.list(key).then(
        (list) => ({
          results: list.map((one) => ({ ...one, commitUrl: urlOf(repoOf(deployment), one.commit) })),
        }),
        (error: unknown) => ({
          results: [],
          resultsProblem: `Cannot read the stored results: ${error instanceof Error ? error.message : String(error)}`,
        }),
      );
      const { newer, described } = await known;
      return {
        deployment: describe(deployment),
        commits: described,
        newer: newer && { ...newer, commitUrl: urlOf(repoOf(deployment), newer.commit) },
        conditions: status.conditions.map(({ observedGeneration: _, ...condition }) => condition),
        prepareError: status.lastPrepareError,
        drift: showDrift(status.lastDriftDetectionResult?.document),
        deployErrors: showStatusProblems(status.lastDeployResult?.document, "errors"),
        validateErrors: showStatusProblems(status.lastValidateResult?.document, "errors"),
        requests: manualKinds.flatMap((kind) => showRequest(kind, status) ?? []),
        ...stored,
      };
    },
    async result(key, id) {
      const stored = await results.read(key, id);
      return stored && showStored(stored, knownSecrets());
    },
    async forges() {
      const paces = await deps.sweepPaces.all();
      return Promise.all(
        forges().map(async ({ id, kind, webhooks }) => {
          const sweeps = webhooks ? pacesOn(id, paces) : [];
          const missed = webhooks ? (await deps.missedWebhooks.missed(id)).map((one) => showMissed(one, id)) : [];
          const all = (await deliveries.latest(id)).toSorted((a, b) => b.at - a.at);
          const lastVerifiedAt = all.find(({ refused }) => refused === undefined)?.at;
          return {
            id,
            kind,
            ...(!webhooks && { polled: true as const }),
            ...(missed.length > 0 && { missed }),
            ...(sweeps.length > 0 && { sweeps }),
            lastVerifiedAt,
            deliveries: all.slice(0, deliveriesShown),
          };
        }),
      );
    },
    async pullRequests() {
      const open = (await Promise.all(reposOfDeployments(deployments.all()).map((repo) => reports.open(repo)))).flat();
      const newest = open.toSorted((a, b) => b.startedAt - a.startedAt).slice(0, pullRequestsShown);
      const found = await Promise.all(newest.map(({ pullRequest }) => reports.find(pullRequest)));
      const rank = ({ attention }: { attention: Attention }) => attentions.indexOf(attention);
      const shown = found.filter((report) => report !== undefined).map(listReport);
      return shown.toSorted((a, b) => rank(a) - rank(b));
    },
    pullRequest: (key) => reportOf(key),
    async manifests(key, deployment) {
      const id = pullRequestText(key).toLowerCase();
      const [report, stored] = await Promise.all([reportOf(key), unpacked.get(id, () => manifests.find(key))]);
      if (stored === undefined || stored.startedAt !== report?.startedAt) return undefined;
      const found = stored.deployments.find((one) => one.deployment === deployment);
      return (
        found && { ...found, objects: found.objects.map(({ ref, ...rest }) => ({ object: nameOf(ref), ...rest })) }
      );
    },
    async queue() {
      const [counts, jobs] = await Promise.all([
        Promise.all(lanes.map(async (lane) => ({ lane, ...(await queue.depth(lane)) }))),
        queue.jobs(),
      ]);
      const find = (key: Key) => deployments.find(key);
      return { lanes: counts, jobs: await explainJobs(jobs, { find, reports, retries, now: clock.now() }) };
    },
    notifications: async () => readTargets(deps),
    async trace(commit) {
      const [stored, known] = await Promise.all([
        listStoredCommands(client, resultsNamespace),
        Promise.all(forges().map(({ id }) => deliveries.latest(id))),
      ]);
      const traced = { commit, deliveries: known.flat() };
      const repos = reposOfDeployments(deployments.all());
      const pullRequests = await findProposals(reports, { ...traced, repos });
      const facts = { ...traced, deployments: deployments.all(), results: stored, pullRequests };
      return traceCommit({ ...facts, now: clock.now() });
    },
  };
}

function showMissed({ reason, ...missed }: MissedPushes, forge: string): PageMissed {
  return reason === undefined ? missed : { ...missed, reason: describeMissReason(reason, forge) };
}

function showRequest(kind: ManualKind, status: ManualResults): PageRequest | undefined {
  const found = status[manualResultField(kind)];
  if (found === undefined) return undefined;
  const { startTime, endTime, reconcileId, resultId, commandError } = found;
  return {
    kind,
    job: reconcileId,
    startedAt: Date.parse(startTime),
    endedAt: endTime === undefined ? undefined : Date.parse(endTime),
    error: commandError?.slice(0, longestError),
    resultId,
  };
}

/** The full text is in the conditions. */
const longestError = 2_000;

function listReport(report: Report) {
  const { pullRequest, title, author, openedAt, startedAt, finishedAt = startedAt } = report;
  return {
    ...describeProposal(report),
    pullRequest,
    title,
    author,
    openedAt,
    attention: attentionOf(report),
    at: finishedAt,
  };
}

async function readTargets({
  targets,
  sentNotifications,
}: Pick<PageFactsDeps, "targets" | "sentNotifications">): Promise<readonly ShownTarget[]> {
  return Promise.all(
    targets().map(async ({ id, kind }) => showTarget(id, kind, (await sentNotifications.read(id))?.record)),
  );
}
