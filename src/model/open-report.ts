/** What is known of all open pull requests of a repository without reading their whole reports. Pure. */
import { nameOfPreview, type Report } from "./report.ts";

/** What is known of an open pull request. */
export interface OpenReport extends Pick<
  Report,
  "pullRequest" | "baseBranch" | "head" | "base" | "mendable" | "startedAt"
> {
  readonly state: "working" | "done";
  /** Whether it was compared with deployments that follow its repository; absent if that was not recorded. */
  readonly affects?: boolean | undefined;
  /** The names of the deployments that it shows; absent if they are not known yet, or are too many to list. */
  readonly shows?: readonly string[] | undefined;
}

/** All open pull requests of a repository are listed at once, for each push and each deploy. */
const longestShows = 4_000;

export function toOpenReport(report: Report & { readonly state: OpenReport["state"] }): OpenReport {
  const { pullRequest, baseBranch, head, base, mendable, startedAt, state, previews } = report;
  const affects = state === "working" ? undefined : previews.some(({ includes }) => !includes);
  const names = previews.map(nameOfPreview);
  const isKnown = state === "done" || names.length > 0;
  const shows = isKnown && names.join().length <= longestShows ? names : undefined;
  return { pullRequest, baseBranch, head, base, mendable, startedAt, state, affects, shows };
}

/** Whether it shows the deployment, or may do so. `name`: as `nameOfPreview` has it. */
export function mayShow({ shows }: Pick<OpenReport, "shows">, name: string): boolean {
  return shows === undefined || shows.includes(name);
}

/** Whether it is into this branch. The name of the default branch is known to the remote only: `undefined` may be any. */
export function isInto({ baseBranch }: Pick<OpenReport, "baseBranch">, branch: string | undefined): boolean {
  return branch === undefined || baseBranch === branch;
}
