/** Explains why jobs failed and when they are retried: from the deployments' statuses and the previews' reports. */
import type { Reports } from "../ports.ts";
import type { ListedJob } from "../../jobs/queued-jobs.ts";
import type { PageJob } from "../web/facts.ts";
import { type Deployment, isMalformed, type Key, type MalformedDeployment } from "../model.ts";
import { describeReport } from "../preview/summary.ts";
import type { Retries } from "../reconcile/retries.ts";
import { stateOf } from "../views/state.ts";

export interface JobFacts {
  readonly find: (key: Key) => Deployment | MalformedDeployment | undefined;
  readonly reports: Pick<Reports, "find">;
  readonly retries: Pick<Retries, "nextAt">;
  readonly now: number;
}

export function explainJobs(jobs: readonly ListedJob[], facts: JobFacts): Promise<readonly PageJob[]> {
  return Promise.all(
    jobs.map(async (job) => {
      const { lane, subject, state, at, tries } = job;
      const shown = { lane, subject, state, at, tries };
      const hasFailed = state === "failed" || tries > 0;
      return { ...shown, ...(hasFailed || state === "delayed" ? await explain(job, hasFailed, facts) : {}) };
    }),
  );
}

async function explain(
  { request, state, why, nextAt }: ListedJob,
  hasFailed: boolean,
  { find, reports, retries, now }: JobFacts,
): Promise<Pick<PageJob, "why" | "nextAt">> {
  if (!hasFailed) return { why, nextAt };
  if (request.kind === "preview") {
    const report = await reports.find(request.pullRequest);
    return { why: report ? describeReport(report) : why, nextAt };
  }
  const deployment = request.kind === "reconcile" ? find(request.deployment) : undefined;
  if (deployment === undefined) return { why, nextAt };
  const retryAt = isMalformed(deployment) ? undefined : retries.nextAt(deployment);
  const { why: ofDeployment, nextCheckAt } = stateOf(deployment, now, retryAt);
  return { why: ofDeployment ?? why, nextAt: state === "failed" ? nextCheckAt : nextAt };
}
