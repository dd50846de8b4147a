/** The stored reports and commit statuses of pull requests, and the requests for previews, in memory. */
import {
  type CommitKey,
  type CommitStatus,
  type PullRequestKey,
  type Request,
  pullRequestText,
} from "../../src/model.ts";
import type { PublishMark, Queue, Reports } from "../../src/ports.ts";
import { toOpenReport } from "../../src/model/open-report.ts";
import { isOpen, type Preview, type Report, type RolloutRest, type Staleness } from "../../src/model/report.ts";

export function fakeReports() {
  /** By `pullRequestText`. */
  const saved = new Map<string, Report>();
  const remakes = new Map<string, readonly number[]>();
  const staleness = new Map<string, Staleness>();
  const statuses = new Map<string, readonly CommitStatus[]>();
  const rests = new Map<string, RolloutRest>();
  const groups = new Map<string, ReadonlyMap<string, CommitStatus>>();
  /** By repository, then by commit. */
  const reruns = new Map<string, number>();
  const rollingOut = new Map<string, Map<string, PullRequestKey>>();
  const unsettled = new Map<string, Map<string, CommitKey>>();
  /** By `pullRequestText`. */
  const refused = new Map<string, PullRequestKey>();
  const unpublished = new Map<string, { readonly key: PullRequestKey; readonly at: number }>();
  const commitText = ({ forge, repoName, commit }: CommitKey) => `${forge}:${repoName}@${commit}`;
  const port: Reports = {
    save: (report) => Promise.resolve(void saved.set(pullRequestText(report.pullRequest), report)),
    find: (key) => Promise.resolve(saved.get(pullRequestText(key))),
    open: (repo) =>
      Promise.resolve(
        [...saved.values()]
          .filter((report) => report.repo === repo)
          .filter(isOpen)
          .map(toOpenReport),
      ),
    openInto: (repo, branch) =>
      Promise.resolve(
        [...saved.values()]
          .filter((report) => report.repo === repo && (branch === undefined || report.baseBranch === branch))
          .filter(({ state }) => state === "working" || state === "done")
          .map(({ pullRequest }) => pullRequest),
      ),
    proposing: (repo, head) =>
      Promise.resolve(
        [...saved.values()].filter(
          (report) => report.repo === repo && report.head === head && ["working", "done"].includes(report.state),
        ),
      ),
    setStale(key, stale) {
      if (stale === undefined) staleness.delete(pullRequestText(key));
      else staleness.set(pullRequestText(key), stale);
      return Promise.resolve();
    },
    stale: (key) => Promise.resolve(staleness.get(pullRequestText(key))),
    addRemake(key, at) {
      remakes.set(pullRequestText(key), [...(remakes.get(pullRequestText(key)) ?? []), at]);
      return Promise.resolve();
    },
    remakes: (key) => Promise.resolve(remakes.get(pullRequestText(key)) ?? []),
    mergedAs: ({ forge, repoName, commit }) =>
      Promise.resolve(
        [...saved.values()].filter(
          ({ pullRequest, state, mergeCommit }) =>
            state === "merged" &&
            mergeCommit === commit &&
            pullRequest.forge === forge &&
            pullRequest.repoName === repoName,
        ),
      ),
    setRollingOut(key, repo, mergedAt) {
      const there = rollingOut.get(repo) ?? new Map<string, PullRequestKey>();
      rollingOut.set(repo, there);
      if (mergedAt === undefined) there.delete(pullRequestText(key));
      else there.set(pullRequestText(key), key);
      return Promise.resolve();
    },
    rollingOut: (repo) => Promise.resolve([...(rollingOut.get(repo)?.values() ?? [])]),
    statuses: (commit) => Promise.resolve(statuses.get(commitText(commit)) ?? []),
    groupStatuses: (commit) => Promise.resolve(groups.get(commitText(commit)) ?? new Map()),
    saveGroupStatus(group, status) {
      const known = groups.get(commitText(group)) ?? [];
      return Promise.resolve(void groups.set(commitText(group), new Map([...known, [group.branch, status]])));
    },
    saveStatuses(commit, those) {
      const known = statuses.get(commitText(commit)) ?? [];
      const byContext = new Map([...known, ...those].map((status) => [status.context, status]));
      return Promise.resolve(void statuses.set(commitText(commit), [...byContext.values()]));
    },
    setRolloutRest(commit, rest) {
      if (rest === undefined) rests.delete(commitText(commit));
      else rests.set(commitText(commit), rest);
      return Promise.resolve();
    },
    rolloutRest: (commit) => Promise.resolve(rests.get(commitText(commit))),
    addRerun: (commit) =>
      Promise.resolve(void reruns.set(commitText(commit), (reruns.get(commitText(commit)) ?? 0) + 1)),
    reruns: (commit) => Promise.resolve(reruns.get(commitText(commit)) ?? 0),
    setUnsettled(commit, repo, is) {
      const there = unsettled.get(repo) ?? new Map<string, CommitKey>();
      unsettled.set(repo, there);
      if (is) there.set(commitText(commit), commit);
      else there.delete(commitText(commit));
      return Promise.resolve();
    },
    unsettled: (repo) => Promise.resolve([...(unsettled.get(repo)?.values() ?? [])]),
    setRefused(key, is) {
      if (is) refused.set(pullRequestText(key), key);
      else refused.delete(pullRequestText(key));
      return Promise.resolve();
    },
    refused: (forge) => Promise.resolve([...refused.values()].filter((key) => key.forge === forge)),
    setUnpublished(key) {
      const at = Math.max(Date.now(), (unpublished.get(pullRequestText(key))?.at ?? 0) + 1);
      unpublished.set(pullRequestText(key), { key, at });
      return Promise.resolve(at as PublishMark);
    },
    setPublished(key, mark) {
      if (unpublished.get(pullRequestText(key))?.at === mark) unpublished.delete(pullRequestText(key));
      return Promise.resolve();
    },
    unpublished: (forge, forMs) =>
      Promise.resolve(
        [...unpublished.values()]
          .filter(({ key, at }) => key.forge === forge && at <= Date.now() - forMs)
          .map(({ key }) => key),
      ),
  };
  return { ...port, saved };
}

export function fakeQueue() {
  const requests: Request[] = [];
  const port: Pick<Queue, "enqueue"> = {
    enqueue(those) {
      requests.push(...those);
      return Promise.resolve({ queued: those.length });
    },
  };
  return { ...port, requests };
}

export const headCommit = "1".repeat(40);
export const baseCommit = "b".repeat(40);

export function aPreview(overrides: Partial<Preview> = {}): Preview {
  return {
    deployment: { namespace: "shop", name: "prod" },
    target: "prod",
    cluster: "eu-1",
    state: "done",
    suspended: false,
    counts: { new: 0, changed: 0, deleted: 0, orphan: 0, errors: 0, warnings: 0 },
    drift: 0,
    objects: [],
    objectsLeftOut: 0,
    errors: [],
    warnings: [],
    ...overrides,
  };
}

export function aReport(overrides: Partial<Report> = {}): Report {
  return {
    v: 1,
    pullRequest: { forge: "gitea", repoName: "org/shop", number: 7 },
    url: "https://git.example.com/org/shop/pulls/7",
    baseBranch: "main",
    head: headCommit,
    base: baseCommit,
    state: "done",
    previews: [aPreview()],
    earlierHeads: [],
    restarts: 0,
    startedAt: 1_000,
    finishedAt: 3_000,
    ...overrides,
  };
}
