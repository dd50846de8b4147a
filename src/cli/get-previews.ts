/** `towline get previews`: open pull requests and what merging each would change. */
import { createReports } from "../redis/reports.ts";
import { followsGit, pullRequestText } from "../model.ts";
import { reposOfDeployments } from "../model/includes.ts";
import { type Allowance, allowancesOf, isSamePullRequest } from "../preview/allowances.ts";
import { describeReport } from "../preview/summary.ts";
import { nameOfPreview, type Report } from "../model/report.ts";
import { type ClusterFlags, withClusterFlags } from "./cluster.ts";
import type { Define } from "./commands.ts";
import { ageText, listing, type Format, isForPeople, orDash, outputOption, short } from "./output.ts";
import { withServerStore } from "./server-store.ts";
import { plain, table } from "./table.ts";

interface Flags extends ClusterFlags {
  readonly output: Format;
}

const help = `
Lists the pull requests that the server has previewed, for repositories that KluctlDeployments of the cluster follow or
include. The results are stored in the server's Redis, so this command needs the server's configuration.

Examples:
  towline get previews
  towline get previews -o wide                                    With the deployments
  towline get previews -o json | jq '.[].previews[].objects'      With the changed objects, secrets masked

Exit codes:
  0  Success
  1  Cannot reach the cluster or Redis
  2  Invalid command line or configuration`;

export const defineGetPreviews: Define = (command, { env, columns, out, err }) => {
  withClusterFlags(command)
    .addOption(outputOption())
    .addHelpText("after", help)
    .action(async (flags: Flags) => {
      const now = Date.now();
      const all = await withServerStore({ env, flags, err }, async ({ found, connection, prefix }) => {
        const following = found.map(({ deployment }) => deployment).filter(followsGit);
        const allowances = following.flatMap((deployment) => allowancesOf(deployment, now));
        const repos = reposOfDeployments(found.map(({ deployment }) => deployment));
        const reports = createReports({ connection, prefix });
        const open = (await Promise.all(repos.map((repo) => reports.open(repo)))).flat();
        return Promise.all(
          open.map(async ({ pullRequest }) => {
            const report = await reports.find(pullRequest);
            const allowed = allowances.filter((one) =>
              isSamePullRequest(one.pullRequest, pullRequestText(pullRequest)),
            );
            return report && { ...report, ...(allowed.length > 0 && { allowed: toAllowed(allowed) }) };
          }),
        );
      });
      const reports = all.filter((report) => report !== undefined).sort((a, b) => b.startedAt - a.startedAt);
      if (reports.length === 0 && isForPeople(flags.output)) out("No open pull request has been previewed.\n");
      else out(listing(flags.output, reports, columns, toTable));
    });
};

/** A commit of a fork that may be previewed, until the last allowance of a deployment expires. */
interface Allowed {
  readonly head: string;
  readonly until: string;
}

function toAllowed(allowances: readonly Allowance[]): Allowed[] {
  const byHead = Map.groupBy(allowances, ({ head }) => head);
  return [...byHead].map(([head, those]) => ({
    head,
    until:
      those
        .map(({ until }) => until)
        .sort()
        .at(-1) ?? "",
  }));
}

interface Listed extends Report {
  readonly allowed?: readonly Allowed[];
}

function toTable(reports: readonly Listed[], wide: boolean): string {
  const now = Date.now();
  const someAllowed = reports.some(({ allowed }) => allowed !== undefined);
  const head = [
    ...["PULL REQUEST", "INTO", "HEAD", "STATE", "AGE", "VERDICT"],
    ...(someAllowed ? ["ALLOWED"] : []),
    ...(wide ? ["DEPLOYMENTS"] : []),
  ];
  const rows = reports.map((report) => {
    const { pullRequest, baseBranch, head: commit, state, startedAt, finishedAt, previews, allowed = [] } = report;
    const names = previews.map(nameOfPreview).join(", ");
    const verdict = plain(describeReport(report));
    const age = ageText(now - (finishedAt ?? startedAt));
    const allowedText = allowed
      .map((one) => `${short(one.head)} for ${ageText(Date.parse(one.until) - now)}`)
      .join(", ");
    return [
      pullRequestText(pullRequest),
      plain(baseBranch),
      short(commit),
      state,
      age,
      verdict,
      ...(someAllowed ? [orDash(allowedText)] : []),
      ...(wide ? [names] : []),
    ];
  });
  return table([head, ...rows]);
}
