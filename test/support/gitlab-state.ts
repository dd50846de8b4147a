/** The state of the simulated GitLab and the actions of its users, behind gitlab-host.ts. */
import { randomBytes } from "node:crypto";
import type { GitlabDeployment, GitlabEnvironment } from "./gitlab-deployments.ts";

export interface Person {
  readonly id: number;
  readonly username: string;
  readonly token: string;
  /** Ids of the projects in which the user is a developer. */
  readonly developerOf: Set<number>;
  /** Ids of the projects in which the user is a maintainer. */
  readonly maintainerOf: Set<number>;
  /** Ids of the projects in which the user may read and comment. */
  readonly reporterOf: Set<number>;
  /** The token has the scope `read_api` instead of `api`. */
  onlyReads?: boolean;
}

/** In GitLab's terms, including the fields that it never returns. */
export interface ProjectHook {
  readonly id: number;
  url: string;
  push_events: boolean;
  tag_push_events: boolean;
  merge_requests_events: boolean;
  alert_status: "executable" | "temporarily_disabled" | "disabled";
  token?: string;
  signing_token?: string;
}

export interface Project {
  readonly id: number;
  readonly path: string;
  readonly branches: Map<string, string>;
  readonly commits: Set<string>;
  readonly requests: MergeRequest[];
  readonly pipelines: Pipeline[];
  readonly environments: GitlabEnvironment[];
  readonly deployments: GitlabDeployment[];
  readonly hooks: ProjectHook[];
}

export interface MergeRequest {
  readonly id: number;
  readonly iid: number;
  readonly source: Project;
  readonly sourceBranch: string;
  targetBranch: string;
  sha: string;
  state: "opened" | "closed" | "locked" | "merged";
  draft: boolean;
  updatedAt: Date;
  notes: Note[];
}

export interface Note {
  readonly id: number;
  readonly author: Person;
  readonly system: boolean;
  readonly createdAt: Date;
  body: string;
}

export interface Pipeline {
  readonly id: number;
  readonly sha: string;
  readonly ref: string;
  /** `external`: created for a status that named no pipeline. */
  readonly source: "push" | "merge_request_event" | "external";
  readonly jobs: Job[];
}

export interface Job {
  readonly id: number;
  readonly name: string;
  readonly author: Person;
  status: "created" | "pending" | "running" | "success" | "failed" | "canceled" | "skipped";
  description: string | null;
  targetUrl: string | null;
}

let lastId = 1_000;
export function nextId(): number {
  return ++lastId;
}

function newSha(): string {
  return randomBytes(20).toString("hex");
}

export function newPerson(username: string): Person {
  return {
    id: nextId(),
    username,
    token: `glpat-${randomBytes(10).toString("hex")}`,
    developerOf: new Set(),
    maintainerOf: new Set(),
    reporterOf: new Set(),
  };
}

export function newProject(path: string): Project {
  const main = newSha();
  const release = newSha();
  const branches = new Map([
    ["main", main],
    ["release", release],
  ]);
  const commits = new Set([main, release]);
  const nothing = { requests: [], pipelines: [], environments: [], deployments: [], hooks: [] };
  return { id: nextId(), path, branches, commits, ...nothing };
}

/** Moves a branch, and the merge requests from it. */
export function pushTo(source: Project, branch: string, targets: readonly Project[], sha = newSha()): string {
  source.branches.set(branch, sha);
  source.commits.add(sha);
  for (const target of targets) {
    for (const request of target.requests) {
      if (request.source !== source || request.sourceBranch !== branch || request.state !== "opened") continue;
      request.sha = sha;
      request.updatedAt = new Date();
      // The target keeps it as refs/merge-requests/N/head.
      target.commits.add(sha);
    }
  }
  return sha;
}

export type SetStatusAnswer =
  { readonly status: number; readonly message: string } | { readonly job: Job; readonly pipeline: Pipeline };

/** Follows GitLab's CreateCommitStatusService. */
export function setStatus(
  project: Project,
  author: Person,
  sha: string,
  params: Readonly<Record<string, unknown>>,
): SetStatusAnswer {
  const text = (name: string) => (typeof params[name] === "string" ? params[name] : undefined);
  const [ref, state, name] = [text("ref"), text("state"), text("name") ?? text("context") ?? "default"];
  if (!project.commits.has(sha)) return { status: 404, message: "404 Commit Not Found" };
  for (const field of ["ref", "name", "target_url", "description"]) {
    if ([...(text(field) ?? "")].length > 255) return { status: 400, message: `${field} is too long (maximum is 255)` };
  }
  const matching = project.pipelines
    .filter((pipeline) => pipeline.sha === sha && (ref === undefined || pipeline.ref === ref))
    .filter((pipeline) => params["pipeline_id"] === undefined || pipeline.id === params["pipeline_id"])
    .toSorted((a, b) => b.id - a.id);
  if (params["pipeline_id"] !== undefined && matching.length === 0) {
    return { status: 404, message: "404 Pipeline for pipeline_id, sha and ref Not Found" };
  }
  const found = ref ?? matching[0]?.ref ?? [...project.branches].find(([, head]) => head === sha)?.[0];
  if (found === undefined) return { status: 404, message: "404 References for commit Not Found" };
  const pipeline = matching[0] ?? { id: nextId(), sha, ref: found, source: "external", jobs: [] };

  const unfinished = pipeline.jobs.find(
    (job) => job.name === name && job.author === author && ["pending", "running"].includes(job.status),
  );
  const job: Job = unfinished ?? {
    ...{ id: nextId(), name, author, status: "created", description: null, targetUrl: null },
  };
  const refusal = transition(job, state);
  if (refusal !== undefined) return { status: 400, message: refusal };
  job.description = text("description") ?? job.description;
  job.targetUrl = text("target_url") ?? job.targetUrl;
  if (unfinished === undefined) pipeline.jobs.push(job);
  if (matching[0] === undefined) project.pipelines.push(pipeline);
  return { job, pipeline };
}

function transition(job: Job, state: string | undefined): string | undefined {
  const from = job.status;
  switch (state) {
    case "pending":
      if (from !== "created") return cannot("enqueue", from);
      break;
    case "running":
      if (from === "running") return cannot("run", from);
      break;
    case "success":
    case "failed":
    case "canceled":
    case "skipped":
      break;
    default:
      return "state does not have a valid value";
  }
  job.status = state;
  return undefined;
}

function cannot(event: string, from: string): string {
  return `Cannot transition status via :${event} from :${from} (Reason(s): Status cannot transition via "${event}")`;
}

/** The newest job of each name in each pipeline, as in `GET …/statuses`. */
export function latestJobs(project: Project, sha: string): { readonly job: Job; readonly pipeline: Pipeline }[] {
  return project.pipelines
    .filter((pipeline) => pipeline.sha === sha)
    .flatMap((pipeline) => {
      const latest = new Map(pipeline.jobs.map((job) => [job.name, { job, pipeline }]));
      return [...latest.values()];
    });
}
