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
    /** Ends earlier statuses that would block a merge. Statuses cannot be deleted. */
    async end(commit: CommitKey, contexts: readonly string[], signal?: AbortSignal): Promise<void> {
      const states = await findStates(commit, contexts, signal);
      for (const context of contexts) {
        const state = states.get(context.toLowerCase());
        if (state === undefined || state === "success") continue;
        const description = "replaced by the check run of this name";
        await write(commit, { context, state: "success", description }, signal);
      }
    },
  };

  /** The states of the newest statuses of these names, by name in lower case: GitHub ignores the case of names. */
  async function findStates(
    commit: CommitKey,
    contexts: readonly string[],
    signal?: AbortSignal,
  ): Promise<ReadonlyMap<string, string>> {
    const call = statusCall(commit, signal);
    const wanted = new Set(contexts.map((context) => context.toLowerCase()));
    const found = new Map<string, string>();
    for (let page = 1; page <= maxPages && found.size < wanted.size; page++) {
      const asked = { ref: commit.commit, per_page: perPage, page };
      const answer = await client.ask("GET /repos/{owner}/{repo}/commits/{ref}/status", asked, call);
      const { statuses } = client.read(combinedStatusAnswer, answer, call);
      for (const { context, state } of statuses) {
        const name = context.toLowerCase();
        if (wanted.has(name) && !found.has(name)) found.set(name, state);
      }
      if (statuses.length < perPage) break;
    }
    return found;
  }
}

export function statusCall({ repoName, commit }: CommitKey, signal: AbortSignal | undefined): GithubCall {
  return { what: `set the status of ${repoName}@${commit}`, repoName, permission: "statuses", signal };
}
