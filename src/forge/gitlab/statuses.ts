/**
 * Commit statuses on GitLab, which are jobs of a pipeline. A status that names no pipeline can make GitLab create
 * another pipeline next to the commit's own, and a merge request then waits for the wrong one.
 */
import { createHash } from "node:crypto";
import { z } from "zod";
import type { CommitKey, CommitStatus, StatusForm } from "../../model.ts";
import { type Answer, type Ask, readAnswer } from "../ask.ts";
import { createMemory } from "../memory.ts";
import { shorten } from "../../kit/shorten.ts";
import { MergeRequest, Pipeline } from "./answers.ts";
import { type GitlabApi, createGitlabApi } from "./api.ts";

/** GitLab refuses longer names, descriptions and URLs. */
const maxTextLength = 255;
/** How long a commit's pipelines are cached: the statuses of one commit are written in quick succession. */
const pipelinesLifetimeMs = 15_000;

/** `running` is never used: it can neither be set twice nor be followed by `pending`. */
const states = { pending: "pending", success: "success", failure: "failed", canceled: "canceled" } as const;

type Target = { readonly pipelineId: number } | { readonly ref: string | undefined };

export type SetStatus = (commit: CommitKey, status: CommitStatus, signal?: AbortSignal) => Promise<StatusForm>;

export function createSetStatus(ask: Ask): SetStatus {
  const known = createMemory<readonly Target[]>(pipelinesLifetimeMs);

  return async function setStatus({ repoName, commit }, status, signal) {
    const api = createGitlabApi(ask, { signal, excuses: (answer) => isThatAlready(answer, status.state) });
    // If there is no pipeline yet, the next lookup finds the one that this status creates, or the commit's own.
    const find = () => findTargets(api, repoName, commit);
    const targets = await known.get(
      `${repoName}@${commit}`,
      find,
      ([target]) => target !== undefined && "pipelineId" in target,
    );
    for (const target of targets) {
      await api.commits.editStatus(repoName, commit, states[status.state], {
        ...target,
        name: shortenName(status.context),
        description: shorten(status.description, maxTextLength),
        ...(status.url !== undefined && status.url.length <= maxTextLength && { targetUrl: status.url }),
      });
    }
    return "status";
  };
}

/**
 * Returns the commit's newest own pipeline, and the one that GitLab created for an earlier status: a pending status
 * there has to be completed there.
 */
async function findTargets({ pipelines, commits }: GitlabApi, repoName: string, sha: string): Promise<Target[]> {
  const firstPage = { perPage: 100, page: 1 };
  const newestFirst = { sha, orderBy: "id", sort: "desc", ...firstPage } as const;
  const request = `the pipelines of ${repoName}@${sha}`;
  const all = readAnswer(z.array(Pipeline), { json: await pipelines.all(repoName, newestFirst), request });
  const own = all.find(({ source }) => source !== "external");
  const made = all.find(({ source }) => source === "external");
  const targets = [own, made].filter((pipeline) => pipeline !== undefined).map(({ id }) => ({ pipelineId: id }));
  if (targets.length > 0) return targets;

  // GitLab is going to create a pipeline. By default it picks any branch that contains the commit, and finds none for a
  // fork's commit.
  const json = await commits.allMergeRequests(repoName, sha, firstPage);
  const requests = readAnswer(z.array(MergeRequest), { json, request: `the merge requests of ${sha}` });
  const proposal = requests.find((one) => one.state === "opened" && one.sha === sha);
  const fork = proposal?.source_project_id !== proposal?.target_project_id;
  return [{ ref: fork ? `refs/merge-requests/${proposal?.iid}/head` : proposal?.source_branch }];
}

const Refusal = z.object({ message: z.string() });
/** GitLab's names for the transitions of a job to a state. */
const transitions = new Map<string, CommitStatus["state"]>([
  ["enqueue from :pending", "pending"],
  ["enqueue from :running", "pending"],
  ["success from :success", "success"],
  ["drop from :failed", "failure"],
  ["cancel from :canceled", "canceled"],
]);

/** Whether GitLab refused because the status has this state already. GitLab then keeps the earlier description. */
function isThatAlready({ status, json }: Pick<Answer, "status" | "json">, state: CommitStatus["state"]): boolean {
  if (status !== 400) return false;
  const { data } = Refusal.safeParse(json);
  const transition = /^Cannot transition status via :(\w+ from :\w+)/.exec(data?.message ?? "")?.[1];
  return transition !== undefined && transitions.get(transition) === state;
}

/** Shortens a name so that different names stay different. */
function shortenName(context: string): string {
  if ([...context].length <= maxTextLength) return context;
  const digest = createHash("sha256").update(context).digest("hex").slice(0, 8);
  return `${shorten(context, maxTextLength - digest.length - 1)}-${digest}`;
}
