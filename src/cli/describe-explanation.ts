/** Formats an explained delivery as text. Pure. */
import type { GitEvent } from "../model.ts";
import type { Explanation } from "./explain-delivery.ts";
import { plain, table } from "./table.ts";

/** Limits of the lists that are printed. */
const mostPaths = 10;
const mostOthers = 5;

export function describeExplanation(explanation: Explanation): string {
  const { forge, genuine, refused, event, remembered, matched, previews, including } = explanation;
  const { flux, ignored, reason, repos, others } = explanation;
  const reasons = new Map(including.map((one) => [one.deployment, plain(one.reason)]));
  const toRow = (name: string) => [name, reasons.get(name) ?? ""];
  const facts = [
    ["delivery", `${plain(event.delivery)} for forge ${forge}`],
    ["genuine", describeGenuine(genuine, refused)],
    ["event", describeEvent(event)],
    ...(repos.length > 0 ? [["repository", repos.map(plain).join(", ")]] : []),
    ...(event.kind === "push" ? [["changed", remembered ? notKept : describePaths(event.changed)]] : []),
  ];
  const sections = [
    table(facts),
    list(`would be reconciled (${matched.length})`, matched.map(toRow)),
    list(`would be previewed (${previews.length})`, previews.map(toRow)),
    list(
      `would be fetched by Flux (${flux?.matched ?? 0})`,
      (flux?.sources ?? []).map((name) => ["GitRepository", name]),
    ),
    list(
      `not fetched by Flux (${flux?.ignored.length ?? 0})`,
      (flux?.ignored ?? []).map((one) => ["GitRepository", one.source, plain(one.reason)]),
    ),
    list(
      `not affected (${ignored.length})`,
      ignored.map((one) => [one.deployment, plain(one.reason)]),
    ),
    reason === undefined ? "" : `ignored: ${plain(reason)}\n`,
    matched.length + previews.length + ignored.length === 0 && flux === undefined && repos.length > 0
      ? list(
          "sources that deployments follow",
          others
            .slice(0, mostOthers)
            .map(({ follows, count }) => [plain(follows), count === 1 ? "1 deployment" : `${count} deployments`]),
        )
      : "",
    genuine !== false ? "" : "the server would reject it with 401\n",
  ];
  return sections.filter(Boolean).join("\n");
}

function describeGenuine(genuine: Explanation["genuine"], refused: string | undefined): string {
  if (genuine === "unknown") return "unknown: only the headers prove the sender; add them with -H";
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
      return `merge group ${commit.slice(0, 7)} of ${plain(repoName)} for ${plain(branch)}: ${ended ? "ended" : "created"}`;
    }
    case "rerun":
      return `checks of ${event.commit.slice(0, 7)} in ${plain(event.repoName)} requested again`;
    case "ping":
      return "ping";
    case "irrelevant":
      return "an event that Towline ignores";
  }
}

const notKept = "the server does not store paths, so every path counts as changed";

function describePaths({ complete, paths }: { readonly complete: boolean; readonly paths: readonly string[] }): string {
  if (!complete) return "the git host does not list all paths, so every path counts as changed";
  const named = paths.slice(0, mostPaths).map(plain).join(", ");
  return paths.length > mostPaths ? `${named}, and ${paths.length - mostPaths} more` : named || "nothing";
}
