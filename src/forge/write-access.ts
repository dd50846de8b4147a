/** Checks whether a forge's login may write comments, the states of commits and deployments, without writing any. */
import type { ForgeKind } from "../model.ts";
import { z } from "zod";
import { ConfigError } from "../errors.ts";
import type { AccountOptions } from "./account.ts";
import { type Ask, createAsk, pathOf, type Question, readAnswer } from "./ask.ts";
import type { ReportAs } from "./forge-options.ts";
import { read } from "./github/login.ts";
import { howToGrantChecks } from "./github/set-status.ts";
import { createWire } from "./github/wire.ts";

/**
 * A commit that does not exist, just as there is no comment 0: the requests for them can be refused, but never succeed.
 */
const nothing = "0".repeat(40);

interface Host {
  readonly apiUrl: string | undefined;
  readonly headers: (token: string) => Record<string, string>;
  readonly repository: (name: string) => string;
  /** Requests whose login is checked before their content is. */
  readonly comment: (name: string) => Question;
  readonly status: (name: string) => Question;
  /** Absent: the role that may set statuses suffices. */
  readonly deployment?: (name: string) => Question;
}

const likeGithub = {
  repository: (name: string) => {
    const [owner = "", repo = ""] = name.split("/");
    return pathOf`/repos/${owner}/${repo}`;
  },
  comment: (name: string): Question => ({
    method: "PATCH",
    path: `${likeGithub.repository(name)}/issues/comments/0`,
    body: { body: "-" },
  }),
  status: (name: string): Question => ({
    method: "POST",
    path: `${likeGithub.repository(name)}/statuses/${nothing}`,
    body: { state: "pending" },
  }),
};

const hosts: Readonly<Record<ForgeKind, Host>> = {
  github: {
    apiUrl: "https://api.github.com",
    headers: (token) => ({ authorization: `Bearer ${token}`, accept: "application/vnd.github+json" }),
    ...likeGithub,
    deployment: (name) => ({
      method: "POST",
      path: `${likeGithub.repository(name)}/deployments`,
      body: { ref: nothing, auto_merge: false, required_contexts: [] },
    }),
  },
  gitea: { apiUrl: undefined, headers: (token) => ({ authorization: `token ${token}` }), ...likeGithub },
  gitlab: {
    apiUrl: "https://gitlab.com/api/v4",
    headers: (token) => ({ "private-token": token }),
    repository: (name) => pathOf`/projects/${name}`,
    comment: (name) => ({
      method: "PUT",
      path: `${pathOf`/projects/${name}`}/merge_requests/0/notes/0`,
      body: { body: "-" },
    }),
    status: (name) => ({
      method: "POST",
      path: `${pathOf`/projects/${name}`}/statuses/${nothing}`,
      body: { state: "pending" },
    }),
  },
};

const Access = z.object({ access_level: z.int() }).nullish();
const Repository = z.object({
  permissions: z
    .object({ push: z.boolean().optional(), project_access: Access, group_access: Access })
    .optional()
    .catch(undefined),
});
/** GitLab's access level for a Developer. */
const developer = 30;

/** What the login may write, as text for users. */
export interface WriteAccess {
  /** Empty: it may write everything, as far as can be seen. */
  readonly lacks: readonly string[];
  /** How the states of commits are shown. */
  readonly shows: "check runs" | "commit statuses";
  /** What would be better. */
  readonly advice?: string | undefined;
}

export interface WriteAccessOptions extends AccountOptions {
  readonly reportAs?: ReportAs | undefined;
  /** Whether it has to write deployments as well. */
  readonly deployments?: boolean | undefined;
}

/** Throws ForgeError if the check is inconclusive. */
export async function findWriteAccess(
  { kind, apiUrl, login, reportAs = "auto", deployments = false, log }: WriteAccessOptions,
  repoName: string,
): Promise<WriteAccess> {
  const host = hosts[kind];
  const base = apiUrl ?? host.apiUrl;
  if (base === undefined) throw new ConfigError("a Gitea token needs the URL of the API (apiUrl)");
  if ("app" in login) return accessOfApp({ apiUrl: base, app: login.app, reportAs, deployments, log }, repoName);
  const { token } = login;
  const ask = createAsk({ apiUrl: base, headers: host.headers(token), hint: "give the login access to it", token });
  const { permissions = {} } = readAnswer(Repository, await ask({ path: host.repository(repoName) }));
  const { push, project_access: own, group_access: group } = permissions;
  const level = own || group ? Math.max(own?.access_level ?? 0, group?.access_level ?? 0) : developer;
  // GitHub answers 404 to a classic token without the required scope, and 422 to one that has it.
  const hides = kind === "github" ? [404] : [];
  const mayStatus = push !== false && level >= developer && !(await isRefused(ask, host.status(repoName), hides));
  const deployment = deployments ? host.deployment?.(repoName) : undefined;
  const mayDeploy = deployment === undefined || !(await isRefused(ask, deployment, hides));
  const lacks = [
    ...((await isRefused(ask, host.comment(repoName))) ? ["comments"] : []),
    ...(mayStatus ? [] : ["commit statuses"]),
    ...(mayDeploy ? [] : ["deployments"]),
  ];
  return { lacks, shows: "commit statuses" };
}

async function isRefused(ask: Ask, question: Question, also: readonly number[] = []): Promise<boolean> {
  const { status } = await ask({ ...question, excuses: () => true });
  return [401, 403, ...also].includes(status);
}

const Installation = z.object({ permissions: z.record(z.string(), z.string()) });

interface AppOptions extends Pick<WriteAccessOptions, "log"> {
  readonly apiUrl: string;
  readonly app: { readonly appId: string; readonly privateKey: string };
  readonly reportAs: ReportAs;
  readonly deployments: boolean;
}

async function accessOfApp(options: AppOptions, repoName: string): Promise<WriteAccess> {
  const { apiUrl, app, reportAs, deployments, log } = options;
  const wire = createWire({ apiUrl: apiUrl.replace(/\/+$/, ""), timeoutMs: 10_000, log, app });
  const [owner, repo] = repoName.split("/");
  const question = { what: `find the App's installation on ${repoName}`, who: "the App" } as const;
  const answer = await wire.request("GET /repos/{owner}/{repo}/installation", { owner, repo }, question);
  const { permissions } = read(Installation, answer, question);
  const may = (permission: string) => permissions[permission] === "write";
  const shows = reportAs === "checks" || (reportAs === "auto" && may("checks")) ? "check runs" : "commit statuses";
  const lacks = [
    ...(may("pull_requests") || may("issues") ? [] : ["comments"]),
    ...(may(shows === "check runs" ? "checks" : "statuses") ? [] : [shows]),
    ...(!deployments || may("deployments") ? [] : ["deployments"]),
  ];
  const advice = shows === "commit statuses" && reportAs === "auto" ? howToGrantChecks : undefined;
  return { lacks, shows, advice };
}
