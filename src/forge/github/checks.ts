/** Check runs, which only Apps can write: https://docs.github.com/rest/checks/runs */
import type { z } from "zod";
import type { CommitKey, CommitStatus, StatusDetails } from "../../model.ts";
import { shorten } from "../../kit/shorten.ts";
import { checkRunsAnswer } from "./answers.ts";
import type { AppClient, Client, GithubCall } from "./client.ts";

/** GitHub documents 65 535 characters, but counts bytes: https://github.com/github/docs/issues/35252 */
export const maxSummaryBytes = 65_535;
/** GitHub's limit for one request. More would need more requests, which a crash could separate. */
const maxAnnotations = 50;
/** GitHub documents 255 characters and 64 KB. */
const [maxAnnotationTitle, maxAnnotationMessage] = [255, 4_000];
const maxTitleLength = 140;
const perPage = 100;
/** GitHub keeps a thousand runs of one name. */
const maxPages = 10;
/** For all names together. */
const oncePages = 2;

/** Of those, a required check accepts success, neutral and skipped. */
const conclusions: Readonly<Record<Exclude<CommitStatus["state"], "pending">, string>> = {
  success: "success",
  failure: "failure",
  // It is unknown what the result would have been: a required check must not pass.
  canceled: "cancelled",
};
const accepted: readonly (string | null)[] = ["success", "neutral", "skipped"];

type Run = z.infer<typeof checkRunsAnswer>["check_runs"][number];

export function createChecks(client: Client, app: AppClient) {
  /**
   * GitHub never lets a completed run change its result. Of several runs with one name, the newest counts: so a new run
   * replaces it.
   */
  async function writeAfter(newest: Run | undefined, commit: CommitKey, status: CommitStatus, signal?: AbortSignal) {
    const call = checkCall(commit, signal);
    const run = toRun(status);
    if (newest !== undefined && newest.status !== "completed") {
      const route = "PATCH /repos/{owner}/{repo}/check-runs/{check_run_id}";
      await client.ask(route, { check_run_id: newest.id, ...run }, call);
    } else {
      const made = { name: status.context, head_sha: commit.commit, ...run };
      await client.ask("POST /repos/{owner}/{repo}/check-runs", made, call);
    }
  }

  /** The App's newest runs of these names on the commit: with one request, unless the commit has very many runs. */
  async function findNewest(
    commit: CommitKey,
    names: readonly string[],
    signal?: AbortSignal,
  ): Promise<ReadonlyMap<string, Run>> {
    const newest = new Map<string, Run>();
    const take = (runs: readonly Run[]) => {
      for (const run of runs) if (run.id > (newest.get(run.name)?.id ?? 0)) newest.set(run.name, run);
    };
    const together = names.length > 1 ? await list(commit, {}, oncePages, signal) : undefined;
    if (together !== undefined) take(together);
    else for (const check_name of names) take((await list(commit, { check_name }, maxPages, signal)) ?? []);
    return newest;
  }

  /** The App's own runs. With more pages than this, `undefined` or, of one name, those of the first pages. */
  async function list(
    commit: CommitKey,
    filter: { readonly check_name?: string },
    pages: number,
    signal: AbortSignal | undefined,
  ): Promise<readonly Run[] | undefined> {
    const call = checkCall(commit, signal);
    const app_id = await app.id(call);
    const asked = { ref: commit.commit, ...filter, app_id, filter: "all", per_page: perPage };
    const own: Run[] = [];
    for (let page = 1; page <= pages; page++) {
      const route = "GET /repos/{owner}/{repo}/commits/{ref}/check-runs";
      const answer = await client.ask(route, { ...asked, page }, call);
      const { check_runs: runs } = client.read(checkRunsAnswer, answer, call);
      const named = runs.filter(({ name }) => filter.check_name === undefined || name === filter.check_name);
      own.push(...named.filter((run) => run.app?.id === app_id));
      if (runs.length < perPage) return own;
    }
    return filter.check_name === undefined ? undefined : own;
  }

  return {
    /** Reads what is there, and returns a function that writes one of these statuses at a time. */
    async open(commit: CommitKey, statuses: readonly CommitStatus[], signal?: AbortSignal) {
      const names = statuses.map(({ context }) => context);
      const newest = await findNewest(commit, names, signal);
      return (status: CommitStatus) => writeAfter(newest.get(status.context), commit, status, signal);
    },
    /** Ends earlier runs that would block a merge. Runs cannot be deleted. */
    async end(commit: CommitKey, contexts: readonly string[], signal?: AbortSignal): Promise<void> {
      const newest = await findNewest(commit, contexts, signal);
      for (const context of contexts) {
        const run = newest.get(context);
        if (run === undefined || (run.status === "completed" && accepted.includes(run.conclusion))) continue;
        const description = "replaced by the commit status of this name";
        await writeAfter(run, commit, { context, state: "success", neutral: true, description }, signal);
      }
    },
  };
}

export function checkCall({ repoName, commit }: CommitKey, signal: AbortSignal | undefined): GithubCall {
  return { what: `write a check run on ${repoName}@${commit}`, repoName, permission: "checks", signal };
}

function toRun({ state, neutral, description, url, details }: CommitStatus) {
  const title = shorten(description, maxTitleLength);
  const output = { title, summary: toSummary(description, details) };
  const links = url === undefined ? {} : { details_url: url };
  if (state === "pending") return { status: "in_progress", output, ...links };
  // GitHub adds annotations to those that are there, so they are sent once, with the result.
  const annotations = toAnnotations(details);
  return {
    status: "completed",
    conclusion: neutral && state === "success" ? "neutral" : conclusions[state],
    output: { ...output, ...(annotations.length > 0 && { annotations }) },
    ...links,
  };
}

function toSummary(description: string, details: StatusDetails | undefined): string {
  if (details?.text && Buffer.byteLength(details.text) <= maxSummaryBytes) return details.text;
  // Indented, so that nothing in it is Markdown.
  return `    ${shorten(description.replaceAll(/\s+/g, " "), 1_000)}`;
}

function toAnnotations(details: StatusDetails | undefined) {
  return (details?.notes ?? []).slice(0, maxAnnotations).map(({ path, line, title, message }) => ({
    path,
    start_line: line,
    end_line: line,
    annotation_level: "failure",
    title: shorten(title, maxAnnotationTitle),
    message: shorten(message, maxAnnotationMessage),
  }));
}
