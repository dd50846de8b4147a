/** `towline preview`: previews a working copy like a pull request, or allows the preview of a fork. */
import { followsGit } from "../model.ts";
import { renderComment } from "../comment/comment.ts";
import { repoId } from "../model/repo-url.ts";
import type { Report } from "../model/report.ts";
import { allowPreview } from "./allow-preview.ts";
import { listAllDeployments } from "./list-deployments.ts";
import { clusterConfig, type ClusterFlags, withClusterFlags } from "./cluster.ts";
import type { Define } from "./commands.ts";
import { untilInterrupted } from "./interrupt.ts";
import { dataOption, toData } from "./output.ts";
import { createProgress, hasColours } from "./terminal.ts";
import { renderReportText } from "./report-text/report-text.ts";
import { openWorkingCopy, type WorkingCopy } from "./working-copy.ts";

type PreviewFormat = "text" | "markdown" | "json" | "yaml";

interface Flags extends ClusterFlags {
  readonly into?: string;
  readonly fetch: boolean;
  readonly allow?: string;
  readonly output: PreviewFormat;
}

const help = `
Prints what merging the working copy, with its uncommitted changes, would change in the live cluster: what is dangerous
first, then a diff for each deployment. With -o markdown, it prints the comment that a pull request would get. The merge with
the newest commit of the target branch happens in a temporary directory; the working copy is not changed. kluctl then
compares the result with the cluster for each KluctlDeployment that follows the repository and branch.

kluctl runs with your own permissions (KUBECONFIG). Requirements: git, kluctl, and permission to read KluctlDeployments and
to dry-run their objects. Values of Secrets are masked. Nothing is changed except by git fetch.

Examples:
  towline preview                              This working copy, merged into the remote's default branch
  towline preview ~/src/shop --into release    Another working copy and branch
  towline preview -n shop                      Only deployments of one namespace
  FORCE_COLOR=1 towline preview | less -R      Page by page, with colors, which are otherwise for terminals only
  towline preview -o markdown | glow -         The comment of a pull request, shown by a Markdown reader

With --allow nothing is compared locally. By default no server compares a pull request from a fork with a cluster. A user who
may update the KluctlDeployments can review the fork and allow one commit: the server then previews this commit like a branch
of the repository, for deployments in the selected namespaces that follow it. The allowance expires after seven days or with
the next push to the fork.

  towline preview --allow github:org/shop#7 3f2c1ab0c7d94e8d1f0a6b5c4e3d2f1a0b9c8d7e

Exit codes:
  0  All affected deployments were compared
  1  Merge conflict, rendering failed, or cannot reach the cluster
  2  Invalid command line or configuration`;

/** More than the limit of any forge. */
const maxLength = 250_000;

export const definePreview: Define = (command, { env, out, err }, onCode) => {
  withClusterFlags(command)
    .argument("[directory]", "Git working copy, or a directory in it; with --allow the full hash of the commit", ".")
    .option("--into <branch>", "Branch to merge into; default: the remote's default branch")
    .option("--no-fetch", "Do not fetch the branch first")
    .option(
      "--allow <pull-request>",
      "Allow the server to preview this pull request from a fork at that commit: forge:org/repo#number",
    )
    .addOption(dataOption(["text", "markdown"]))
    .addHelpText("after", help)
    .action(async (directory: string, flags: Flags) => {
      if (flags.allow !== undefined) {
        const isAllowed = await allowPreview({ pullRequest: flags.allow, commit: directory }, flags, { env, out, err });
        return onCode(isAllowed ? 0 : 1);
      }
      const cluster = clusterConfig(env, flags);
      const { config, kubernetes, namespaces } = cluster;
      const { createKubeClient } = await import("../kube/client.ts"); // `--help` does not wait for these
      const { previewLocally } = await import("../app/local-preview.ts");
      const client = createKubeClient(kubernetes);
      const progress = createProgress(err);
      let copy: WorkingCopy | undefined;
      try {
        progress.show("reading the working copy");
        copy = await openWorkingCopy(directory, flags);
        const repos = new Set(copy.urls.map(repoId));
        const found = (await listAllDeployments(client, { ...cluster, err }))
          .map(({ deployment }) => deployment)
          .filter(followsGit);
        const deployments = found.filter(({ repo }) => repos.has(repo));
        progress.show(`comparing with the cluster (${deployments.length} deployments follow the repository)`);
        const opened = copy;
        const report = await untilInterrupted((signal) =>
          previewLocally({ copy: opened, deployments, client, config, env, signal }),
        );
        progress.clear();
        if (report === undefined) return onCode(1);
        if (copy.warning !== undefined) err(`${copy.warning}\n`);
        if (copy.dirty) err("the preview includes uncommitted changes\n");
        if (copy.isMerged) err(`nothing to merge: the working copy is already in ${copy.baseBranch}\n`);
        if (deployments.length === 0) err(describeNoMatch(copy, found, namespaces));
        out(formatReport(report, flags.output, { color: hasColours() }));
        onCode(isComplete(report) ? 0 : 1);
      } finally {
        progress.clear();
        await copy?.release();
        client.close();
      }
    });
};

/** Formats the report for `-o`. */
export function formatReport(report: Report, format: PreviewFormat, options: { readonly color: boolean }): string {
  switch (format) {
    case "text":
      return `${renderReportText(report, options)}\n`;
    case "markdown":
      return `${renderComment(report, { maxLength, marker: "" })}\n`;
    case "json":
    case "yaml":
      return toData(format, report);
  }
}

function isComplete({ obstacle, previews }: Report): boolean {
  return obstacle === undefined && previews.every(({ state, counts }) => state === "done" && counts.errors === 0);
}

function describeNoMatch(
  { urls }: WorkingCopy,
  others: readonly { readonly repo: string }[],
  namespaces: readonly string[],
): string {
  const followed = [...new Set(others.map(({ repo }) => repo))].slice(0, 5).join(", ") || "nothing";
  const where = namespaces.length === 0 ? "this cluster" : namespaces.join(", ");
  const ids = [...new Set(urls.map((url) => repoId(url) ?? url))].join(", ");
  return `no KluctlDeployment follows ${ids}; deployments in ${where} follow ${followed}\n`;
}
