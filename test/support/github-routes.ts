/** The answers of the local GitHub, by route. */
import { checkRoutes } from "./github-checks.ts";
import { deliveryRoutes } from "./github-delivery-routes.ts";
import {
  addDeploymentStatus,
  createDeployment,
  findDeployments,
  showDeployment,
  showDeploymentStatus,
} from "./github-deployments.ts";
import type { Permissions } from "./github-logins.ts";
import { githubExample } from "./github-openapi.ts";
import {
  type Context,
  type Reply,
  type Route,
  asApp,
  invalid,
  isThis,
  notFound,
  paged,
  refusal,
  within,
} from "./github-replies.ts";
import type { GithubHook } from "./github-repository.ts";

export function findRoute(method: string, path: string) {
  for (const route of [...routes, ...deliveryRoutes]) {
    const pattern = new RegExp(`^${route.template.replace(/\{(\w+)\}/g, "(?<$1>[^/]+)")}$`);
    const match = route.method === method ? pattern.exec(path) : null;
    if (match === null) continue;
    const params = Object.entries(match.groups ?? {}).map(([name, value]) => [name, decodeURIComponent(value)]);
    return { route, params: Object.fromEntries(params) as Record<string, string> };
  }
  return undefined;
}

/** GitHub's error names a limit in characters, but there is one in bytes as well; both are enforced. */
function bodyProblem(given: unknown): Reply | undefined {
  const body = String(given);
  const tooLong = [...body].length > 65_536 || Buffer.byteLength(body) > 262_144;
  return tooLong ? invalid("IssueComment", "body", "body is too long (maximum is 65536 characters)") : undefined;
}

const comment = ({ repository, params }: Context) =>
  repository.comments.find(({ id }) => String(id) === params["comment_id"]);

const deployment = ({ repository, params }: Context) =>
  repository.deployments.find(({ id }) => String(id) === params["deployment_id"]);

const hook = ({ repository, params }: Context) => repository.hooks.find(({ id }) => String(id) === params["hook_id"]);

const routes: readonly Route[] = [
  {
    method: "GET",
    template: "/repos/{owner}/{repo}",
    answer: (context) => {
      if (!isThis(context) || context.caller.kind === "app") return notFound;
      const permissions = { admin: false, pull: true, push: true };
      const { id, fullName: full_name } = context.repository;
      const about = { id, full_name, has_discussions: false, permissions };
      return { status: 200, body: { ...githubExample("full-repository"), ...about } };
    },
  },
  {
    method: "GET",
    template: "/repos/{owner}/{repo}/hooks",
    answer: within("repository_hooks", "read", (context) => {
      const { repository } = context;
      return paged(context, `/repositories/${repository.id}/hooks`, repository.hooks.map(repository.showHook));
    }),
  },
  {
    method: "POST",
    template: "/repos/{owner}/{repo}/hooks",
    answer: within("repository_hooks", "write", ({ repository, body }) => {
      const { active = true, events = ["push"], config = {} } = body as Partial<GithubHook>;
      const made = { id: repository.hooks.length + 1, active, events, config };
      repository.hooks.push(made);
      return { status: 201, body: repository.showHook(made) };
    }),
  },
  {
    method: "PATCH",
    template: "/repos/{owner}/{repo}/hooks/{hook_id}",
    answer: within("repository_hooks", "write", (context) => {
      const found = hook(context);
      if (found === undefined) return notFound;
      const { active, config, add_events = [] } = context.body as Partial<GithubHook> & { add_events?: string[] };
      // The new config replaces the old one, including the secret.
      if (config) found.config = config;
      if (active !== undefined) found.active = active;
      found.events.push(...add_events);
      return { status: 200, body: context.repository.showHook(found) };
    }),
  },
  {
    method: "PATCH",
    template: "/repos/{owner}/{repo}/hooks/{hook_id}/config",
    answer: within("repository_hooks", "write", (context) => {
      const found = hook(context);
      if (found === undefined) return notFound;
      Object.assign(found.config, context.body);
      return { status: 200, body: context.repository.showHook(found)["config"] };
    }),
  },
  {
    method: "POST",
    template: "/app-manifests/{code}/conversions",
    open: true,
    // Each code can be used only once.
    answer: ({ logins, params }) =>
      logins.manifestCodes.delete(params["code"] ?? "") ? { status: 201, body: logins.showMadeApp() } : notFound,
  },
  {
    method: "GET",
    template: "/app/hook/config",
    answer: asApp(({ logins }) => ({ status: 200, body: logins.showAppHook() })),
  },
  {
    method: "PATCH",
    template: "/app/hook/config",
    answer: asApp(({ logins, body }) => {
      Object.assign(logins.appHook, body);
      return { status: 200, body: logins.showAppHook() };
    }),
  },
  {
    method: "GET",
    template: "/user",
    answer({ caller, logins }) {
      if (caller.kind !== "user") return refusal(403, "Resource not accessible by integration");
      const example = githubExample("private-user-response-with-public-and-private-profile-information");
      return { status: 200, body: { ...example, ...logins.user } };
    },
  },
  {
    method: "GET",
    template: "/repos/{owner}/{repo}/pulls",
    answer: within("pull_requests", "read", (context) => {
      const { repository, query } = context;
      const state = query.get("state") ?? "open";
      const all = [...repository.pulls.values()].filter((one) => state === "all" || one.state === state);
      if (query.get("sort") === "updated") all.sort((a, b) => Date.parse(a.updatedAt) - Date.parse(b.updatedAt));
      if (query.get("direction") !== "asc") all.reverse();
      return paged(
        context,
        `/repositories/${repository.id}/pulls`,
        all.map((one) => repository.showPull(one, false)),
      );
    }),
  },
  {
    method: "GET",
    template: "/repos/{owner}/{repo}/pulls/{pull_number}",
    answer: within("pull_requests", "read", ({ repository, params }) => {
      const pull = repository.pulls.get(Number(params["pull_number"]));
      return pull ? { status: 200, body: repository.showPull(pull, true) } : notFound;
    }),
  },
  {
    method: "GET",
    template: "/repos/{owner}/{repo}/issues/{issue_number}/comments",
    answer: within("pull_requests", "read", (context) => {
      const { repository, params } = context;
      const number = Number(params["issue_number"]);
      if (!repository.pulls.has(number)) return notFound;
      const all = repository.comments.filter((one) => one.number === number);
      return paged(
        context,
        `/repositories/${repository.id}/issues/${number}/comments`,
        all.map(repository.showComment),
      );
    }),
  },
  {
    method: "POST",
    template: "/repos/{owner}/{repo}/issues/{issue_number}/comments",
    answer: within("pull_requests", "write", ({ repository, params, body, caller, logins }) => {
      const number = Number(params["issue_number"]);
      const pull = repository.pulls.get(number);
      if (pull === undefined || caller.kind === "app") return notFound;
      if (pull.locked) return refusal(403, "Unable to create comment because issue is locked.");
      const app = caller.kind === "installation" ? logins.appObject : null;
      const problem = bodyProblem(body["body"]);
      if (problem !== undefined) return problem;
      const made = repository.comment(number, caller.user, String(body["body"]), app);
      return { status: 201, body: repository.showComment(made) };
    }),
  },
  {
    method: "PATCH",
    template: "/repos/{owner}/{repo}/issues/comments/{comment_id}",
    answer: within("pull_requests", "write", (context) => {
      const found = comment(context);
      if (found === undefined) return notFound;
      const problem = bodyProblem(context.body["body"]);
      if (problem !== undefined) return problem;
      found.body = String(context.body["body"]);
      return { status: 200, body: context.repository.showComment(found) };
    }),
  },
  {
    method: "DELETE",
    template: "/repos/{owner}/{repo}/issues/comments/{comment_id}",
    answer: within("pull_requests", "write", (context) => {
      const found = comment(context);
      if (found === undefined) return notFound;
      context.repository.comments.splice(context.repository.comments.indexOf(found), 1);
      return { status: 204 };
    }),
  },
  {
    method: "POST",
    template: "/repos/{owner}/{repo}/statuses/{sha}",
    answer: within("statuses", "write", ({ repository, params, body }) => {
      const sha = params["sha"] ?? "";
      const { state = "", description = null, target_url = null, context = "default" } = body as Record<string, string>;
      if (!repository.commits.has(sha)) return refusal(422, `No commit found for SHA: ${sha}`, []);
      if (description !== null && [...description].length > 140) {
        return invalid("Status", "description", "description is too long (maximum is 140 characters)");
      }
      if (target_url !== null && !/^https?:\/\//.test(target_url)) {
        return invalid("Status", "target_url", "target_url must use http(s) scheme");
      }
      const same = repository.statuses.filter((one) => one.sha === sha && one.context === context);
      if (same.length >= 1_000) {
        return invalid("Status", "sha", "This SHA and context has reached the maximum number of statuses.");
      }
      const status = { sha, context, state, description, target_url };
      repository.statuses.push(status);
      return { status: 201, body: repository.showStatus(status) };
    }),
  },
  {
    method: "GET",
    template: "/repos/{owner}/{repo}/commits/{ref}/status",
    answer: within("statuses", "read", ({ repository, params }) => ({
      status: 200,
      body: repository.showCombined(params["ref"] ?? ""),
    })),
  },
  ...checkRoutes,
  {
    method: "GET",
    template: "/repos/{owner}/{repo}/deployments",
    answer: within("deployments", "read", (context) => {
      const { repository, query } = context;
      const all = findDeployments(repository, query).map(showDeployment);
      return paged(context, `/repositories/${repository.id}/deployments`, all);
    }),
  },
  {
    method: "POST",
    template: "/repos/{owner}/{repo}/deployments",
    answer: within("deployments", "write", ({ repository, body, caller }) =>
      caller.kind === "app" ? notFound : createDeployment(repository, caller.user, body, refusal),
    ),
  },
  {
    method: "GET",
    template: "/repos/{owner}/{repo}/deployments/{deployment_id}/statuses",
    answer: within("deployments", "read", (context) => {
      const found = deployment(context);
      if (found === undefined) return notFound;
      const path = `/repositories/${context.repository.id}/deployments/${found.id}/statuses`;
      return paged(context, path, found.statuses.toReversed().map(showDeploymentStatus));
    }),
  },
  {
    method: "POST",
    template: "/repos/{owner}/{repo}/deployments/{deployment_id}/statuses",
    answer: within("deployments", "write", (context) => {
      const found = deployment(context);
      return found ? addDeploymentStatus(context.repository, found, context.body, refusal) : notFound;
    }),
  },
  {
    method: "GET",
    template: "/app",
    answer: asApp(({ logins }) => ({ status: 200, body: logins.appObject })),
  },
  {
    method: "GET",
    template: "/repos/{owner}/{repo}/installation",
    answer: asApp((context) => {
      const selected = context.logins.installation?.selected ?? [];
      const isIn = selected === "all" || selected.includes(context.repository.name);
      return isThis(context) && isIn ? { status: 200, body: context.logins.showInstallation() } : notFound;
    }),
  },
  {
    method: "GET",
    template: "/users/{username}/installation",
    answer: asApp(({ logins, params, repository }) => {
      const body = logins.showInstallation();
      return body && params["username"]?.toLowerCase() === repository.owner.toLowerCase()
        ? { status: 200, body }
        : notFound;
    }),
  },
  {
    method: "POST",
    template: "/app/installations/{installation_id}/access_tokens",
    answer: asApp(({ logins, params, body, repository }) => {
      const { installation } = logins;
      if (installation === undefined || String(installation.id) !== params["installation_id"]) return notFound;
      const { repositories = [], permissions = {} } = body as {
        repositories?: string[];
        permissions?: Permissions;
      };
      const isGranted = ([name, level]: [string, string]) =>
        installation.permissions[name] === "write" || installation.permissions[name] === level;
      if (!Object.entries(permissions).every(isGranted)) {
        return refusal(422, "The permissions requested are not granted to this installation.", []);
      }
      const reachable = installation.selected === "all" ? [repository.name] : installation.selected;
      const asked = repositories.map((name) => name.toLowerCase());
      if (!asked.every((name) => reachable.some((one) => one.toLowerCase() === name))) {
        return refusal(
          422,
          "There is at least one repository that does not exist or is not accessible to the parent installation.",
          [],
        );
      }
      return { status: 201, body: logins.makeInstallationToken(asked, permissions) };
    }),
  },
];
