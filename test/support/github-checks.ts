/** The check runs of the local GitHub. Only an App may write them, and a completed one keeps its result. */
import { type Context, type Reply, type Route, invalid, notFound, paged, refusal, within } from "./github-replies.ts";
import type { GithubAnnotation, GithubCheckRun } from "./github-repository.ts";

/** In bytes, although the documentation says characters: https://github.com/github/docs/issues/35252 */
const longestText = 65_535;
const mostAnnotations = 50;

interface Sent {
  readonly name?: string;
  readonly head_sha?: string;
  readonly status?: string;
  readonly conclusion?: string;
  readonly details_url?: string;
  readonly output?: { readonly title: string; readonly summary: string; readonly annotations?: GithubAnnotation[] };
}

/** GitHub's answer to a user's token, also with all permissions. */
function asInstallation(level: "read" | "write", answer: (context: Context) => Reply): Route["answer"] {
  return within("checks", level, (context) =>
    context.caller.kind === "installation" || level === "read"
      ? answer(context)
      : refusal(403, "You must authenticate via a GitHub App."),
  );
}

function problemOf({ output, conclusion, status, details_url: url }: Sent): Reply | undefined {
  if (output !== undefined && Buffer.byteLength(output.summary) > longestText) {
    return invalid("CheckRun", "summary", `summary exceeds a maximum bytesize of ${longestText}`);
  }
  if ((output?.annotations?.length ?? 0) > mostAnnotations) {
    return invalid("CheckRun", "annotations", `annotations exceeds a maximum quantity of ${mostAnnotations}`);
  }
  if (status === "completed" && conclusion === undefined) {
    return invalid("CheckRun", "conclusion", "conclusion is required with the status completed");
  }
  if (url !== undefined && !/^https?:\/\//.test(url)) {
    return invalid("CheckRun", "details_url", "details_url must use http(s) scheme");
  }
  return undefined;
}

function write(run: GithubCheckRun, { status, conclusion, details_url: url, output }: Sent): void {
  run.status = conclusion === undefined ? (status ?? run.status) : "completed";
  run.conclusion = conclusion ?? null;
  run.details_url = url ?? run.details_url;
  run.title = output?.title ?? run.title;
  run.summary = output?.summary ?? run.summary;
  run.annotations.push(...(output?.annotations ?? []));
}

export const checkRoutes: readonly Route[] = [
  {
    method: "POST",
    template: "/repos/{owner}/{repo}/check-runs",
    answer: asInstallation("write", ({ repository, logins, body }) => {
      const sent = body as Sent;
      const { name = "", head_sha: sha = "" } = sent;
      if (!repository.commits.has(sha)) return refusal(422, `No commit found for SHA: ${sha}`, []);
      if (name === "") return refusal(422, "Invalid request. For 'properties/name', is too short.", []);
      const problem = problemOf(sent);
      if (problem !== undefined) return problem;
      const made: GithubCheckRun = {
        ...{ id: repository.checkRuns.length + 1, sha, name, app: logins.appObject, status: "queued" },
        ...{ conclusion: null, details_url: null, title: null, summary: null, annotations: [] },
      };
      write(made, sent);
      repository.checkRuns.push(made);
      return { status: 201, body: repository.showCheckRun(made) };
    }),
  },
  {
    method: "PATCH",
    template: "/repos/{owner}/{repo}/check-runs/{check_run_id}",
    answer: asInstallation("write", ({ repository, logins, params, body }) => {
      const run = repository.checkRuns.find(({ id }) => String(id) === params["check_run_id"]);
      if (run === undefined) return notFound;
      if (run.app["id"] !== logins.appObject.id) return refusal(403, "Invalid app_id: the run belongs to another App.");
      // GitHub keeps the result without an error: a test has to see that a client relies on a change.
      if (run.status === "completed") return refusal(422, "The local GitHub changes no completed run.", []);
      const problem = problemOf(body as Sent);
      if (problem !== undefined) return problem;
      write(run, body as Sent);
      return { status: 200, body: repository.showCheckRun(run) };
    }),
  },
  {
    method: "GET",
    template: "/repos/{owner}/{repo}/commits/{ref}/check-runs",
    answer: asInstallation("read", (context) => {
      const { repository, params, query } = context;
      const sha = params["ref"] ?? "";
      if (!repository.commits.has(sha)) return refusal(422, `No commit found for SHA: ${sha}`, []);
      const [name, app] = [query.get("check_name"), query.get("app_id")];
      const all = repository.checkRuns
        .filter((run) => run.sha === sha && (name === null || run.name === name))
        .filter((run) => app === null || String(run.app["id"]) === app);
      const shown = query.get("filter") === "all" ? all : [...new Map(all.map((run) => [run.name, run])).values()];
      const path = `/repos/${repository.fullName}/commits/${sha}/check-runs`;
      const { body, ...reply } = paged(context, path, shown.map(repository.showCheckRun));
      return { ...reply, body: { total_count: shown.length, check_runs: body } };
    }),
  },
];
