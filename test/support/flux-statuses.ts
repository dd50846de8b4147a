/** The writer of commit statuses, with Flux's controllers played by the test. */
import { createFluxStatuses } from "../../src/reporting/flux-statuses.ts";
import { createCommitStatusWriter } from "../../src/reporting/write-commit-status.ts";
import type { aDeployment } from "./deployments.ts";
import { fakeForge } from "./fake-forge.ts";
import { fakeQueue, fakeReports } from "./fake-reports.ts";
import { fakeDeployments, fakeSecrets, fakeSources, silentLog } from "./fakes.ts";
import { aFluxSource, fakeFlux, type PlayedStatus } from "./flux.ts";

export const [old, pushed, later] = ["a".repeat(40), "c".repeat(40), "d".repeat(40)];
export const before: PlayedStatus = { attempted: old, applied: old, ready: ["True", "ReconciliationSucceeded"] };
export const applied: PlayedStatus = { attempted: pushed, applied: pushed, ready: ["True", "ReconciliationSucceeded"] };
export const inProgress = ["Unknown", "Progressing", "Reconciliation in progress"] as const;

export const { repo } = aFluxSource();
export const secret = "s3cr3t-of-the-server";

export function useFluxStatuses({
  deployments = [] as ReturnType<typeof aDeployment>[],
  restMs = 0,
  lastMove = () => Promise.resolve(undefined as string | undefined),
} = {}) {
  const forge = fakeForge();
  const flux = fakeFlux();
  const sources = fakeSources({ "refs/heads/main": pushed });
  const reports = { current: fakeReports() };
  const cluster = fakeDeployments(...deployments);
  const fluxStatuses = createFluxStatuses({
    ...{ ...flux, sources, lastMove, restMs, log: silentLog },
    createMask: () => (text) => text.replaceAll(secret, "*****"),
  });
  const write = (commit = pushed, pushedTo?: string) =>
    createCommitStatusWriter({
      urlOf: () => undefined,
      forges: new Map([["gitea", forge]]),
      reports: reports.current,
      queue: fakeQueue(),
      deployments: { ...cluster, synced: () => true },
      secrets: fakeSecrets(),
      sources,
      lastMove,
      followedRepos: () => flux.fluxSources.all().map((source) => source.repo),
      writeEnvironments: () => Promise.resolve(),
      flux: fluxStatuses,
      log: silentLog,
    })({ kind: "commit-status", commit: { forge: "gitea", repoName: "org/shop", commit }, repo, pushedTo });
  /** What was written since the last time; a summary that repeats its only line is left out. */
  const news = () => {
    const written = forge.statuses.splice(0).map(({ status }) => status);
    const shown = written.filter(
      (one) =>
        one.context !== "towline" || !written.some((other) => other !== one && other.description === one.description),
    );
    return shown.map(({ context, state, description }) => `${context} ${state} ${description}`);
  };
  return { forge, flux, sources, reports, write, news, unsettled: () => reports.current.unsettled(repo) };
}
