/**
 * The part of GitLab's REST API that a forge uses, as https://docs.gitlab.com/api/rest/ documents it: pages of at most
 * a hundred with their headers, 404 instead of 403 for what a token may not see, and the limits.
 */
import express, { type Express, type Request, type Response } from "express";
import { mountDeployments } from "./gitlab-deployments.ts";
import {
  type MergeRequest,
  type Note,
  type Person,
  type Project,
  type ProjectHook,
  latestJobs,
  nextId,
  setStatus,
} from "./gitlab-state.ts";

export interface GitlabState {
  readonly people: Person[];
  readonly projects: Project[];
  /** `METHOD path` of all requests. */
  readonly requests: string[];
  /** Answers this many status requests with 409, as while another client is changing the statuses of the commit. */
  statusConflicts: number;
  /** Accepts the test delivery of a hook. */
  deliversTests?: boolean;
}

/** Mounted at `/api/v4`; `webUrl` is the address of the web interface. */
export function createGitlabApp(state: GitlabState, folder: string, webUrl: string): Express {
  const app = express().disable("x-powered-by");
  app.use(express.json({ limit: "10mb" }));
  // Accepts forms as well, as users send them with curl.
  app.use(express.urlencoded({ extended: false }), (req, _, next) => {
    const form = req.is("urlencoded") ? Object.entries(req.body as Record<string, string>) : undefined;
    if (form) req.body = Object.fromEntries(form.map(([name, text]) => [name, text === "true" ? true : text]));
    next();
  });
  const api = express.Router();
  app.use(`${folder}/api/v4`, api);

  api.use((req, res, next) => {
    state.requests.push(`${req.method} ${req.url}`);
    const person = state.people.find(({ token }) => token === req.get("private-token"));
    if (person === undefined) return void res.status(401).json({ message: "401 Unauthorized" });
    if (person.onlyReads && req.method !== "GET") {
      const description = "The request requires higher privileges than provided by the access token.";
      return void res.status(403).json({ error: "insufficient_scope", error_description: description, scope: "api" });
    }
    res.locals["person"] = person;
    next();
  });
  const personOf = (res: Response) => res.locals["person"] as Person;

  function projectOf(req: Request, res: Response): Project | undefined {
    const id = String(req.params["id"]);
    const found = state.projects.find(
      (project) => String(project.id) === id || project.path.toLowerCase() === id.toLowerCase(),
    );
    // The project is private, so its existence is not revealed.
    const { developerOf, reporterOf } = personOf(res);
    if (found && (developerOf.has(found.id) || reporterOf.has(found.id))) return found;
    res.status(404).json({ message: "404 Project Not Found" });
    return undefined;
  }

  function requestOf(req: Request, res: Response): { project: Project; request: MergeRequest } | undefined {
    const project = projectOf(req, res);
    if (project === undefined) return undefined;
    const request = project.requests.find(({ iid }) => String(iid) === req.params["iid"]);
    if (request === undefined) res.status(404).json({ message: "404 Not found" });
    return request && { project, request };
  }

  const requestJson = (project: Project, request: MergeRequest) => ({
    ...{ id: request.id, iid: request.iid, project_id: project.id, title: "Change", description: "" },
    ...{ state: request.state, draft: request.draft, work_in_progress: request.draft, sha: request.sha },
    ...{ target_branch: request.targetBranch, source_branch: request.sourceBranch },
    ...{ source_project_id: request.source.id, target_project_id: project.id },
    updated_at: request.updatedAt.toISOString(),
    web_url: `${webUrl}/${project.path}/-/merge_requests/${request.iid}`,
    references: { short: `!${request.iid}`, relative: `!${request.iid}`, full: `${project.path}!${request.iid}` },
  });

  const noteJson = (request: MergeRequest, { id, body, author, system, createdAt }: Note) => ({
    ...{ id, type: null, body, attachment: null, system, noteable_id: request.id, noteable_type: "MergeRequest" },
    ...{ author: { id: author.id, username: author.username, state: "active" }, noteable_iid: request.iid },
    ...{ created_at: createdAt.toISOString(), updated_at: createdAt.toISOString(), resolvable: false },
  });

  api.get("/user", (_req, res) => {
    const { id, username } = personOf(res);
    res.json({ id, username, state: "active" });
  });

  api.get("/projects/:id", (req, res) => {
    const project = projectOf(req, res);
    if (project === undefined) return;
    const { hostname } = new URL(webUrl);
    const level = personOf(res).developerOf.has(project.id) ? 30 : 20;
    res.json({
      permissions: { project_access: { access_level: level, notification_level: 3 }, group_access: null },
      ...{ id: project.id, path_with_namespace: project.path, web_url: `${webUrl}/${project.path}` },
      http_url_to_repo: `${webUrl}/${project.path}.git`,
      ssh_url_to_repo: `git@ssh.${hostname}:${project.path}.git`,
    });
  });

  api.get("/projects/:id/merge_requests", (req, res) => {
    const project = projectOf(req, res);
    if (project === undefined) return;
    const { state: wanted = "all", updated_after: after, order_by: by } = req.query as Record<string, string>;
    const listed = project.requests
      .filter(({ state: is }) => wanted === "all" || wanted === is)
      .filter(({ updatedAt }) => after === undefined || updatedAt.getTime() >= Date.parse(after))
      .toSorted((a, b) => (by === "updated_at" ? a.updatedAt.getTime() - b.updatedAt.getTime() : a.iid - b.iid));
    const sorted = req.query["sort"] === "asc" ? listed : listed.toReversed();
    sendPage(
      req,
      res,
      sorted.map((request) => requestJson(project, request)),
    );
  });

  api.get("/projects/:id/merge_requests/:iid", (req, res) => {
    const found = requestOf(req, res);
    if (found) res.json(requestJson(found.project, found.request));
  });

  api.get("/projects/:id/merge_requests/:iid/notes", (req, res) => {
    const found = requestOf(req, res);
    if (found === undefined) return;
    const { request } = found;
    const sorted = req.query["sort"] === "asc" ? request.notes : request.notes.toReversed();
    sendPage(
      req,
      res,
      sorted.map((note) => noteJson(request, note)),
    );
  });

  api.post("/projects/:id/merge_requests/:iid/notes", (req, res) => {
    const found = requestOf(req, res);
    if (found === undefined) return;
    const body = readBody(req, res);
    if (body === undefined) return;
    const note = { id: nextId(), body, author: personOf(res), system: false, createdAt: new Date() };
    found.request.notes.push(note);
    res.status(201).json(noteJson(found.request, note));
  });

  api.put("/projects/:id/merge_requests/:iid/notes/:note", (req, res) => {
    const found = requestOf(req, res);
    const note = found && noteOf(req, res, found.request);
    const body = note && readBody(req, res);
    if (found === undefined || note === undefined || body === undefined) return;
    note.body = body;
    res.json(noteJson(found.request, note));
  });

  api.delete("/projects/:id/merge_requests/:iid/notes/:note", (req, res) => {
    const found = requestOf(req, res);
    const note = found && noteOf(req, res, found.request);
    if (found === undefined || note === undefined) return;
    found.request.notes = found.request.notes.filter((other) => other !== note);
    res.status(204).end();
  });

  function noteOf(req: Request, res: Response, request: MergeRequest): Note | undefined {
    const note = request.notes.find(({ id }) => String(id) === req.params["note"]);
    if (note === undefined) return void res.status(404).json({ message: "404 Note Not Found" });
    if (note.author !== personOf(res)) return void res.status(403).json({ message: "403 Forbidden" });
    return note;
  }

  api.get("/projects/:id/pipelines", (req, res) => {
    const project = projectOf(req, res);
    if (project === undefined) return;
    const listed = project.pipelines.filter(({ sha }) => sha === req.query["sha"]).toSorted((a, b) => b.id - a.id);
    const json = listed.map(({ id, sha, ref, source }) => ({ id, sha, ref, source, status: "running" }));
    sendPage(req, res, json);
  });

  api.get("/projects/:id/repository/commits/:sha/merge_requests", (req, res) => {
    const project = projectOf(req, res);
    if (project === undefined) return;
    if (!project.commits.has(req.params.sha)) return void res.status(404).json({ message: "404 Commit Not Found" });
    const introducing = project.requests.filter(({ sha }) => sha === req.params.sha);
    sendPage(
      req,
      res,
      introducing.map((request) => requestJson(project, request)),
    );
  });

  api.get("/projects/:id/repository/commits/:sha/statuses", (req, res) => {
    const project = projectOf(req, res);
    if (project === undefined) return;
    const { name } = req.query;
    const latest = latestJobs(project, req.params.sha).filter(({ job }) => name === undefined || job.name === name);
    const json = latest.map(({ job, pipeline }) => ({
      ...{ id: job.id, name: job.name, status: job.status, description: job.description, target_url: job.targetUrl },
      ...{ ref: pipeline.ref, sha: pipeline.sha, pipeline_id: pipeline.id },
    }));
    sendPage(req, res, json);
  });

  api.post("/projects/:id/statuses/:sha", (req, res) => {
    const project = projectOf(req, res);
    if (project === undefined) return;
    if (!personOf(res).developerOf.has(project.id)) return void res.status(403).json({ message: "403 Forbidden" });
    if (state.statusConflicts > 0) {
      state.statusConflicts--;
      return void res.status(409).json({ message: "Another update to this commit status is in progress" });
    }
    const answer = setStatus(project, personOf(res), req.params.sha, req.body as Record<string, unknown>);
    if ("message" in answer) return void res.status(answer.status).json({ message: answer.message });
    const { job, pipeline } = answer;
    res
      .status(201)
      .json({ id: job.id, name: job.name, status: job.status, ref: pipeline.ref, pipeline_id: pipeline.id });
  });

  mountDeployments(api, { projectOf, personOf, sendPage });

  /** Returns the project if the caller is a maintainer. */
  function maintainedOf(req: Request, res: Response): Project | undefined {
    const project = projectOf(req, res);
    if (project === undefined || personOf(res).maintainerOf.has(project.id)) return project;
    return void res.status(403).json({ message: "403 Forbidden" });
  }

  const hookJson = ({ token, signing_token, ...shown }: ProjectHook) => ({
    ...shown,
    ...{ token_present: token !== undefined, signing_token_present: signing_token !== undefined },
  });

  api.get("/projects/:id/hooks", (req, res) => {
    const project = maintainedOf(req, res);
    if (project) sendPage(req, res, project.hooks.map(hookJson));
  });

  api.post("/projects/:id/hooks", (req, res) => {
    const project = maintainedOf(req, res);
    if (project === undefined) return;
    const events = { push_events: true, tag_push_events: false, merge_requests_events: false };
    const made = { ...events, alert_status: "executable", ...(req.body as { url: string }), id: nextId() } as const;
    project.hooks.push(made);
    res.status(201).json(hookJson(made));
  });

  function hookOf(req: Request, res: Response): ProjectHook | undefined {
    const project = maintainedOf(req, res);
    if (project === undefined) return undefined;
    const found = project.hooks.find(({ id }) => String(id) === req.params["hook"]);
    return found ?? void res.status(404).json({ message: "404 Not found" });
  }

  api.put("/projects/:id/hooks/:hook", (req, res) => {
    const found = hookOf(req, res);
    if (found === undefined) return;
    const { url } = req.body as { url?: string };
    if (url === undefined) return void res.status(400).json({ error: "url is missing" });
    // Changing the URL clears the secret, which was meant for the old URL.
    if (url !== found.url) delete found.token;
    Object.assign(found, req.body);
    res.json(hookJson(found));
  });

  api.post("/projects/:id/hooks/:hook/test/push_events", (req, res) => {
    const found = hookOf(req, res);
    if (found === undefined) return;
    if (!state.deliversTests) return void res.status(422).json({ message: "Hook execution failed" });
    found.alert_status = "executable";
    res.status(201).json({ message: "201 Created" });
  });

  return app;
}

function readBody(req: Request, res: Response): string | undefined {
  const { body } = req.body as { readonly body?: unknown };
  if (typeof body !== "string" || body === "") return void res.status(400).json({ error: "body is missing" });
  if ([...body].length <= 1_000_000) return body;
  return void res.status(400).json({ message: "Note is too long (maximum is 1000000 characters)" });
}

function sendPage(req: Request, res: Response, items: readonly object[]): void {
  const number = (name: string, fallback: number) => Math.max(Number(req.query[name]) || fallback, 1);
  const page = number("page", 1);
  const perPage = Math.min(number("per_page", 20), 100);
  const pages = Math.max(Math.ceil(items.length / perPage), 1);
  res.set("x-page", String(page));
  res.set("x-per-page", String(perPage));
  res.set("x-total", String(items.length));
  res.set("x-total-pages", String(pages));
  res.set("x-next-page", page < pages ? String(page + 1) : "");
  const next = new URL(req.originalUrl, `http://${req.get("host")}`);
  next.searchParams.set("page", String(page + 1));
  if (page < pages) res.set("link", `<${next.href}>; rel="next"`);
  res.json(items.slice((page - 1) * perPage, page * perPage));
}
