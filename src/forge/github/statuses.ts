/** Commit statuses: https://docs.github.com/rest/commits/statuses */
import type { CommitKey, CommitStatus } from "../../model.ts";
import { shorten } from "../../kit/shorten.ts";
import { combinedStatusAnswer } from "./answers.ts";
import type { Client, GithubCall } from "./client.ts";

const maxDescriptionLength = 140;
const perPage = 100;
/** More statuses than any commit has: GitHub shows the newest of each name. */
const maxPages = 10;

const states: Readonly<Record<CommitStatus["state"], string>> = {
  pending: "pending",
  success: "success",
  failure: "failure",
  // GitHub has no such state; "error" does not let a required check pass.
  canceled: "error",
};

export function createStatuses(client: Client) {
  async function write(commit: CommitKey, status: CommitStatus, signal?: AbortSignal): Promise<void> {
    const { context, state, description, url } = status;
    await client.ask(
      "POST /repos/{owner}/{repo}/statuses/{sha}",
      {
        sha: commit.commit,
        context,
        state: states[state],
        description: shorten(description, maxDescriptionLength),
        ...(url !== undefined && { target_url: url }),
      },
      statusCall(commit, signal),
    );
  }

  return {
    write,
    /** Ends an earlier status that would block a merge. Statuses cannot be deleted. */
    async end(commit: CommitKey, context: string, signal?: AbortSignal): Promise<void> {
      const state = await find(commit, context, signal);
      if (state === undefined || state === "success") return;
      await write(commit, { context, state: "success", description: "replaced by the check run of this name" }, signal);
    },
  };

  /** Returns the state of the newest status of this name. GitHub compares names without regard to case. */
  async function find(commit: CommitKey, context: string, signal?: AbortSignal): Promise<string | undefined> {
    const call = statusCall(commit, signal);
    for (let page = 1; page <= maxPages; page++) {
      const asked = { ref: commit.commit, per_page: perPage, page };
      const answer = await client.ask("GET /repos/{owner}/{repo}/commits/{ref}/status", asked, call);
      const { statuses } = client.read(combinedStatusAnswer, answer, call);
      const found = statuses.find((one) => one.context.toLowerCase() === context.toLowerCase());
      if (found !== undefined || statuses.length < perPage) return found?.state;
    }
    return undefined;
  }
}

export function statusCall({ repoName, commit }: CommitKey, signal: AbortSignal | undefined): GithubCall {
  return { what: `set the status of ${repoName}@${commit}`, repoName, permission: "statuses", signal };
}
