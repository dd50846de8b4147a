/** `towline trace`: where a commit is deployed. */
import { createDeliveries } from "../redis/deliveries.ts";
import { findQueued } from "../../jobs/queued.ts";
import { createReports } from "../redis/reports.ts";
import { ConfigError } from "../errors.ts";
import { listStoredCommands } from "../kube/stored-commands.ts";
import { followsGit } from "../model.ts";
import { findProposals } from "../preview/proposals.ts";
import {
  toldOf,
  type Trace,
  traceCommit,
  type TracedDeployment,
  type TracedPullRequest,
  type TraceStep,
} from "../views/trace.ts";
import { listAllDeployments } from "./list-deployments.ts";
import { clusterConfig, type ClusterConfig, type ClusterFlags, withClusterFlags } from "./cluster.ts";
import type { Define } from "./commands.ts";
import { ageText, forPrograms, type Format, isForPeople, outputOption } from "./output.ts";
import { withRedis } from "./redis.ts";
import { plain, table } from "./table.ts";
import { resolveRevision } from "./working-copy.ts";

interface Flags extends ClusterFlags {
  readonly output: Format;
}

const help = `
Shows the progress of a commit in each deployment that it affects:

  received, queued    When the webhook arrived; from the server's Redis, if it can be reached
  rendered, applied   From the stored results and the status of the KluctlDeployment
  healthy             From the Ready condition and, if enabled, the validation
  unchanged           Rendered, and nothing differs from the deployed objects; or a dry run
  superseded          A newer commit was pushed before the reconciliation and was deployed instead
  suspended           Not deployed until the deployment is resumed
  in progress         A reconciliation is running, or was interrupted when the server stopped: no outcome yet

For the head of an open pull request, it shows what merging it would change.
Only the last commit of a push is deployed. For another commit of the push, the last one is shown instead, and named.

Examples:
  towline trace 3f2c1ab
  towline trace HEAD -n shop
  until towline trace HEAD > /dev/null; do sleep 2; done     Wait in a script after a push

Exit codes:
  0  Applied, unchanged or superseded in all deployments that the commit affects
  1  Not deployed, or not yet; or no record of the commit
  2  Invalid command line or configuration`;

const settled: readonly TracedDeployment["state"][] = ["applied", "unchanged", "superseded"];

export const defineTrace: Define = (command, { env, out, err }, onCode) => {
  withClusterFlags(command)
    .argument("<commit>", "Hash, at least seven characters; in a git working copy also a revision such as HEAD")
    .addOption(outputOption())
    .addHelpText("after", help)
    .action(async (given: string, flags: Flags) => {
      const isHash = /^[0-9a-f]{7,64}$/i.test(given);
      const commit = isHash ? given.toLowerCase() : await resolveRevision(process.cwd(), given);
      if (commit === undefined) {
        throw new ConfigError(
          `${JSON.stringify(given)} is not a commit; use at least seven characters of its hash or, in a working copy, a revision such as HEAD`,
        );
      }
      const cluster = clusterConfig(env, flags);
      const { config, kubernetes } = cluster;
      const { createKubeClient } = await import("../kube/client.ts"); // `--help` does not wait for it
      const client = createKubeClient(kubernetes);
      /** Sources that could not be read. The rest is shown nevertheless. */
      const unknown: string[] = [];
      const orElse = <T>(what: string, found: Promise<T>, nothing: T): Promise<T> =>
        found.catch((error: unknown) => {
          unknown.push(`${what}: ${error instanceof Error ? error.message : String(error)}\n`);
          return nothing;
        });
      try {
        const [found, results] = await Promise.all([
          listAllDeployments(client, { ...cluster, err }),
          orElse("cannot read stored results", listStoredCommands(client, config.results.namespace), []),
        ]);
        const deployments = found.map(({ deployment }) => deployment);
        const memory = withRedis(config, async (connection, log) => {
          const { redis, forges } = config;
          const all = createDeliveries({ connection, prefix: redis.prefix, log });
          const deliveries = (await Promise.all(forges.map(({ id }) => all.latest(id)))).flat();
          const repos = deployments.filter(followsGit).map(({ repo }) => repo);
          const reports = createReports({ connection, prefix: redis.prefix });
          return {
            deliveries,
            pullRequests: await findProposals(reports, { commit, repos, deliveries }),
            queued: await findQueued(connection, redis.prefix, toldOf(commit, deliveries)),
          };
        });
        const none = { deliveries: [], pullRequests: [], queued: new Set<string>() };
        const remembered = await orElse("cannot read deliveries and pull requests", memory, none);
        unknown.forEach(err);
        const { namespaces } = cluster;
        const trace = traceCommit({ commit, deployments, namespaces, results, ...remembered, now: Date.now() });
        out(isForPeople(flags.output) ? toText(commit, trace, cluster) : (forPrograms(flags.output, [trace]) ?? ""));
        const isSettled = ({ state }: TracedDeployment) => settled.some((one) => one === state);
        onCode(trace.deployments.length > 0 && trace.deployments.every(isSettled) ? 0 : 1);
      } finally {
        client.close();
      }
    });
};

function noRecord(watched: readonly string[]): string {
  const only = watched.length === 0 ? "" : `The server watches only these namespaces: ${watched.join(", ")}.\n`;
  return `No record of this commit. Possible reasons: no deployment follows its branch, it has not been reconciled yet, or
a newer commit was there first. \`towline get deliveries\` shows what webhooks reported, \`towline get deployments -o wide\`
what each deployment follows.
${only}`;
}

function toText(commit: string, trace: Trace, { watched, namespaces, areNamed }: ClusterConfig): string {
  const { commit: whole = commit, within, deliveries, deployments, ignored, pullRequests } = trace;
  const [first] = deliveries;
  const pushed = first ? `, pushed to ${plain(first.repoName ?? "")} ${plain(first.ref ?? "")}` : "";
  const blocks = deployments.map(
    ({ deployment, state, steps }) => `${deployment}: ${state}\n${table(rowsOf(steps)).replaceAll(/^(?=.)/gm, "  ")}`,
  );
  const others = ignored.map((one) => [`  ${one.deployment}`, plain(one.reason)]);
  const along =
    within === undefined
      ? ""
      : `\nThe last commit of the same push is ${within.slice(0, 12)}, whose progress is shown here.`;
  const nowhere = deployments.length === 0 && pullRequests.length === 0;
  const where = areNamed ? ` in ${namespaces.join(", ")}` : "";
  const isKnown = ignored.length > 0 || (areNamed && deliveries.length > 0);
  return [
    `commit ${whole.slice(0, 12)}${pushed}${along}\n`,
    ...blocks,
    ...pullRequests.map(describeProposed),
    nowhere ? (isKnown ? `It affects no deployment${where}.\n` : noRecord(watched)) : "",
    others.length > 0 ? `not affected\n${table(others)}` : "",
  ]
    .filter(Boolean)
    .join("\n");
}

function describeProposed({ url, words, verdict, previews }: TracedPullRequest): string {
  const rows = previews.map((one) => [`  ${one.deployment}`, plain(one.verdict)]);
  const about = [verdict, url ?? ""].filter(Boolean).map((line) => `  ${plain(line)}\n`);
  return `${plain(words)}\n${about.join("")}${rows.length > 0 ? table(rows) : ""}`;
}

function rowsOf(steps: readonly TraceStep[]): string[][] {
  const begin = steps.find(({ at }) => at !== undefined)?.at;
  return steps.map(({ step, at, words }) => {
    const time = at === undefined ? "" : new Date(at).toISOString().slice(0, 19).replace("T", " ");
    const after = at === undefined || begin === undefined || at <= begin ? "" : `+${ageText(at - begin)}`;
    return [time, after, step === "note" ? "" : step, plain(words)];
  });
}
