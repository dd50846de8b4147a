/** Deployments on the local GitHub, with the rules that GitHub documents: https://docs.github.com/rest/deployments */
import { githubExample } from "./github-openapi.ts";
import type { GithubRepository, GithubUser } from "./github-repository.ts";
import type { Reply } from "./github-replies.ts";

interface DeploymentStatus {
  readonly id: number;
  readonly state: string;
  readonly description: string;
  readonly environment_url: string;
}

export interface GithubDeployment {
  readonly id: number;
  readonly sha: string;
  readonly task: string;
  readonly environment: string;
  readonly production: boolean;
  readonly creator: GithubUser;
  /** Oldest first. */
  readonly statuses: DeploymentStatus[];
}

type Body = Readonly<Record<string, unknown>>;
type Refuse = (status: number, message: string) => Reply;

let lastId = 7_000;
const maxDescriptionLength = 140;

const isLong = (text: unknown) => [...String(text ?? "")].length > maxDescriptionLength;

/** Newest first. An absent filter matches everything; environments have the same name whatever its case. */
export function findDeployments({ deployments }: GithubRepository, query: URLSearchParams): GithubDeployment[] {
  const [sha, task, environment] = ["sha", "task", "environment"].map((name) => query.get(name)?.toLowerCase());
  return deployments
    .filter((one) => sha === undefined || one.sha === sha)
    .filter((one) => task === undefined || one.task.toLowerCase() === task)
    .filter((one) => environment === undefined || one.environment.toLowerCase() === environment)
    .toReversed();
}

export function createDeployment(repository: GithubRepository, creator: GithubUser, body: Body, refuse: Refuse): Reply {
  const { ref = "", task = "deploy", environment = "production", description } = body as Record<string, string>;
  const { auto_merge = true, required_contexts, production_environment = environment === "production" } = body;
  if (!repository.commits.has(ref)) return refuse(422, `No ref found for: ${ref}`);
  if (isLong(description)) return refuse(422, "Validation Failed: description is too long (maximum is 140 characters)");
  // The commits of these tests are never up to date with the default branch.
  if (auto_merge !== false) return refuse(409, `Conflict merging main into ${ref}.`);
  const newest = new Map(repository.statuses.filter((one) => one.sha === ref).map((one) => [one.context, one.state]));
  const required = Array.isArray(required_contexts) ? (required_contexts as string[]) : [...newest.keys()];
  if (required.some((context) => newest.get(context) !== "success")) {
    return refuse(409, `Conflict: Commit status checks failed for ${ref}.`);
  }
  const production = production_environment === true;
  const made = { id: ++lastId, sha: ref, task, environment, production, creator, statuses: [] };
  repository.deployments.push(made);
  return { status: 201, body: showDeployment(made) };
}

export function addDeploymentStatus(
  { deployments }: GithubRepository,
  deployment: GithubDeployment,
  body: Body,
  refuse: Refuse,
): Reply {
  const { state = "", description = "", environment_url = "" } = body as Record<string, string>;
  if (isLong(description)) return refuse(422, "Validation Failed: description is too long (maximum is 140 characters)");
  if (environment_url !== "" && !/^https?:\/\//.test(environment_url)) {
    return refuse(422, "Validation Failed: environment_url must use http(s) scheme");
  }
  const made = { id: ++lastId, state, description, environment_url };
  deployment.statuses.push(made);
  if (state === "success" && body["auto_inactive"] !== false) {
    const earlier = deployments.filter(({ id, environment, production }) => {
      return id < deployment.id && environment === deployment.environment && !production;
    });
    for (const { statuses } of earlier) {
      if (statuses.at(-1)?.state === "success") statuses.push({ ...made, id: ++lastId, state: "inactive" });
    }
  }
  return { status: 201, body: showDeploymentStatus(made) };
}

export function showDeployment({ production, statuses: _, creator, ...deployment }: GithubDeployment) {
  const example = githubExample("deployment");
  const by = { ...(example["creator"] as object), ...creator };
  return { ...example, ...deployment, ref: deployment.sha, production_environment: production, creator: by };
}

export function showDeploymentStatus(status: DeploymentStatus) {
  const { environment_url: _, ...example } = githubExample("deployment-status");
  const { environment_url: url, ...shown } = status;
  // Without a URL, GitHub returns an empty one, which its own description does not allow.
  return { ...example, ...shown, ...(url !== "" && { environment_url: url }) };
}

/** `prod 1a2b: in_progress → success` for each deployment, oldest first. */
export function shownDeployments({ deployments }: GithubRepository): string[] {
  return deployments.map(({ environment, sha, statuses }) => {
    const states = statuses.map(({ state }) => state).join(" → ");
    return `${environment} ${sha.slice(0, 4)}: ${states}`;
  });
}
