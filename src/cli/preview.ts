/** `towline preview`: the comment of a pull request that is not one yet. */
import { followsGit } from "../model.ts";
import { renderComment } from "../preview/comment.ts";
import { repoId } from "../repo-url.ts";
import type { Report } from "../report.ts";
import { allowPreview } from "./allow-preview.ts";
import { listOfBothApis } from "./both-apis.ts";
import { clusterConfig, type ClusterFlags, withClusterFlags } from "./cluster.ts";
import type { Define } from "./commands.ts";
import { untilInterrupted } from "./interrupt.ts";
import { dataOption, toData } from "./output.ts";
import { createProgress } from "./terminal.ts";
import { openWorkingCopy, type WorkingCopy } from "./working-copy.ts";

interface Flags extends ClusterFlags {
  readonly into?: string;
  readonly fetch: boolean;
  readonly allow?: string;
  readonly output: "markdown" | "json" | "yaml";
}

const help = `
What merging the working copy would change in the live cluster, as the very comment that a pull request would get. All that is
there counts, committed or not. It is merged on the side into the newest state of the branch, and the working copy stays as
it is. Then the real kluctl compares it with the cluster for each KluctlDeployment that follows the repository and branch.

It runs kluctl with your own rights (KUBECONFIG), and needs: git, kluctl, and the rights to read KluctlDeployments and to
dry-run what they deploy. Values of Secrets are masked. Nothing is changed but what git fetch brings.

  towline preview                              the working copy of this directory, into the remote's default branch
  towline preview ~/src/shop --into release    another one, into another branch
  towline preview -n shop | glow -             only deployments of one namespace, shown by a markdown reader

With --allow nothing is compared here. A pull request from a fork is compared with a cluster by no server unless somebody who may
change the KluctlDeployments has read it, and says so: then the server renders this one commit, with all that a branch of the repository
gets, for the deployments of these namespaces that follow it. It holds for seven days, and ends with the next push to the fork.

  towline preview --allow github:org/shop#7 3f2c1ab0c7d94e8d1f0a6b5c4e3d2f1a0b9c8d7e

Exit codes:
  0  all that is concerned could be compared
  1  something could not: it does not merge, it cannot be rendered, or the cluster cannot be asked
  2  the command line or the configuration is wrong`;

/** More than any forge takes. */
const maxLength = 250_000;

export const definePreview: Define = (command, { env, out, err }, onCode) => {
  withClusterFlags(command)
    .argument(
      "[directory]",
      "a working copy of git, or a directory in one; with --allow the full hash of the commit",
      ".",
    )
    .option("--into <branch>", "what it would be merged into; the remote's default branch if left out")
    .option("--no-fetch", "take that branch as it was fetched last")
    .option(
      "--allow <pull-request>",
      "let the server preview this one from a fork, at that commit: forge:org/repo#number",
    )
    .addOption(dataOption("markdown"))
    .addHelpText("after", help)
    .action(async (directory: string, flags: Flags) => {
      if (flags.allow !== undefined) {
        const isTold = await allowPreview({ pullRequest: flags.allow, commit: directory }, flags, { env, out, err });
        return onCode(isTold ? 0 : 1);
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
        const found = (await listOfBothApis(client, { ...cluster, err }))
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
        if (copy.dirty) err("with changes that are not committed\n");
        if (copy.isMerged) err(`all of it is in ${copy.baseBranch} already: there is nothing to merge\n`);
        if (deployments.length === 0) err(describeNobody(copy, found, namespaces));
        const text = `${renderComment(report, { maxLength, marker: "" })}\n`;
        out(flags.output === "markdown" ? text : toData(flags.output, report));
        onCode(isWhole(report) ? 0 : 1);
      } finally {
        progress.clear();
        await copy?.release();
        client.close();
      }
    });
};

function isWhole({ obstacle, previews }: Report): boolean {
  return obstacle === undefined && previews.every(({ state, counts }) => state === "done" && counts.errors === 0);
}

function describeNobody(
  { urls }: WorkingCopy,
  others: readonly { readonly repo: string }[],
  namespaces: readonly string[],
): string {
  const followed = [...new Set(others.map(({ repo }) => repo))].slice(0, 5).join(", ") || "nothing";
  const where = namespaces.length === 0 ? "this cluster" : namespaces.join(", ");
  const ids = [...new Set(urls.map((url) => repoId(url) ?? url))].join(", ");
  return `no KluctlDeployment follows ${ids}; those of ${where} follow ${followed}\n`;
}
