/** An explained delivery, for people. Pure. */
import type { GitEvent } from "../model.ts";
import type { Explanation } from "./explain-delivery.ts";
import { plain, table } from "./table.ts";

/** So many of a long list are named. */
const mostPaths = 10;
const mostOthers = 5;

export function describeExplanation(explanation: Explanation): string {
  const { forge, genuine, refused, event, remembered, matched, previews, ignored, reason, repos, others } = explanation;
  const facts = [
    ["delivery", `${plain(event.delivery)} for forge ${forge}`],
    ["genuine", describeGenuine(genuine, refused)],
    ["event", describeEvent(event)],
    ...(repos.length > 0 ? [["repository", repos.map(plain).join(", ")]] : []),
    ...(event.kind === "push" ? [["changed", remembered ? notKept : describePaths(event.changed)]] : []),
  ];
  const sections = [
    table(facts),
    list(
      `would be looked at (${matched.length})`,
      matched.map((name) => [name]),
    ),
    list(
      `would be previewed (${previews.length})`,
      previews.map((name) => [name]),
    ),
    list(
      `not concerned (${ignored.length})`,
      ignored.map((one) => [one.deployment, plain(one.reason)]),
    ),
    reason === undefined ? "" : `nothing is done: ${plain(reason)}\n`,
    matched.length + previews.length + ignored.length === 0 && repos.length > 0
      ? list(
          "what the deployments follow instead",
          others
            .slice(0, mostOthers)
            .map(({ follows, count }) => [plain(follows), count === 1 ? "1 deployment" : `${count} deployments`]),
        )
      : "",
    genuine !== false ? "" : "the server would answer 401 and look no further\n",
  ];
  return sections.filter(Boolean).join("\n");
}

function describeGenuine(genuine: Explanation["genuine"], refused: string | undefined): string {
  if (genuine === "unknown") return "not known: the payload alone is no proof; its headers can be given as well";
  return genuine ? "yes" : `no. ${refused ?? ""}`;
}

function list(title: string, rows: readonly (readonly string[])[]): string {
  return rows.length === 0 ? "" : `${title}\n${table(rows).replaceAll(/^/gm, "  ").trimEnd()}\n`;
}

function describeEvent(event: GitEvent): string {
  switch (event.kind) {
    case "push": {
      const to = event.after === undefined ? "deleted" : `${event.change}, now at ${event.after.slice(0, 7)}`;
      return `push of ${plain(event.ref)} to ${plain(event.repoName)}: ${to}`;
    }
    case "pull-request": {
      const from = event.fork ? ", from a fork" : "";
      const { repoName, number, action, head, baseBranch } = event;
      return `pull request ${plain(repoName)}#${number} ${action}: ${head.slice(0, 7)} into ${plain(baseBranch)}${from}`;
    }
    case "merge-group": {
      const { repoName, commit, branch, ended } = event;
      return `group ${commit.slice(0, 7)} of a merge queue of ${plain(repoName)}: ${ended ? "ended" : "made"}, in ${plain(branch)}`;
    }
    case "ping":
      return "ping";
    case "irrelevant":
      return "none that matters here";
  }
}

const notKept = "which paths is not remembered, so every path counts as changed";

function describePaths({ complete, paths }: { readonly complete: boolean; readonly paths: readonly string[] }): string {
  if (!complete) return "the host does not list all paths, so every path counts as changed";
  const named = paths.slice(0, mostPaths).map(plain).join(", ");
  return paths.length > mostPaths ? `${named}, and ${paths.length - mostPaths} more` : named || "nothing";
}
