/**
 * Commit statuses on GitLab, which are jobs of a pipeline. One that names no pipeline can make GitLab create another
 * one beside the commit's own, and a merge request then waits for the wrong one.
 */
import { createHash } from "node:crypto";
import { z } from "zod";
import type { CommitKey, CommitStatus } from "../../model.ts";
import { type Answer, type Ask, readAnswer } from "../ask.ts";
import { createMemory } from "../memory.ts";
import { shorten } from "../shorten.ts";
import { MergeRequest, Pipeline } from "./answers.ts";
import { type GitlabApi, createGitlabApi } from "./api.ts";

/** GitLab refuses longer names, descriptions and addresses. */
const maxTextLength = 255;
/** How long a commit's pipelines are remembered: the many statuses of one commit are written one after the other. */
const pipelinesLifetimeMs = 15_000;

/** `running` is never used: it can neither be told twice nor followed by `pending`. */
const states = { pending: "pending", success: "success", failure: "failed", canceled: "canceled" } as const;

type Target = { readonly pipelineId: number } | { readonly ref: string | undefined };

export type SetStatus = (commit: CommitKey, status: CommitStatus, signal?: AbortSignal) => Promise<void>;

export function createSetStatus(ask: Ask): SetStatus {
  const known = createMemory<readonly Target[]>(pipelinesLifetimeMs);

  return async function setStatus({ repoName, commit }, status, signal) {
    const api = createGitlabApi(ask, { signal, excuses: (answer) => isThatAlready(answer, status.state) });
    // Where there is no pipeline yet, the next look finds the one that this status makes, or the commit's own.
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
  };
}

/**
 * The commit's newest own pipeline. Besides, the one that GitLab made for a status that came before it: what is pending
 * there has to end there.
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

  // GitLab is going to make one. Left alone it takes any branch that contains the commit, and finds none for a fork's.
  const json = await commits.allMergeRequests(repoName, sha, firstPage);
  const requests = readAnswer(z.array(MergeRequest), { json, request: `the merge requests of ${sha}` });
  const proposal = requests.find((one) => one.state === "opened" && one.sha === sha);
  const fork = proposal?.source_project_id !== proposal?.target_project_id;
  return [{ ref: fork ? `refs/merge-requests/${proposal?.iid}/head` : proposal?.source_branch }];
}

const Refusal = z.object({ message: z.string() });
/** GitLab's words for what it does to a job in order to reach a state. */
const transitions = new Map<string, CommitStatus["state"]>([
  ["enqueue from :pending", "pending"],
  ["enqueue from :running", "pending"],
  ["success from :success", "success"],
  ["drop from :failed", "failure"],
  ["cancel from :canceled", "canceled"],
]);

/** GitLab refuses to bring about what is there already. What it keeps is the earlier description. */
function isThatAlready({ status, json }: Pick<Answer, "status" | "json">, state: CommitStatus["state"]): boolean {
  if (status !== 400) return false;
  const { data } = Refusal.safeParse(json);
  const transition = /^Cannot transition status via :(\w+ from :\w+)/.exec(data?.message ?? "")?.[1];
  return transition !== undefined && transitions.get(transition) === state;
}

/** Names stay apart from each other however long they are. */
function shortenName(context: string): string {
  if ([...context].length <= maxTextLength) return context;
  const digest = createHash("sha256").update(context).digest("hex").slice(0, 8);
  return `${shorten(context, maxTextLength - digest.length - 1)}-${digest}`;
}
