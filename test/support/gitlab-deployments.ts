/** Deployments and environments of the simulated GitLab: https://docs.gitlab.com/api/deployments/ */
import type { Request, Response, Router } from "express";
import { type Person, type Project, nextId } from "./gitlab-state.ts";

export interface GitlabEnvironment {
  readonly id: number;
  readonly name: string;
  external_url: string | null;
  tier: string;
  /** Users may not deploy to it. */
  protected?: boolean;
}

export interface GitlabDeployment {
  readonly id: number;
  readonly environment: GitlabEnvironment;
  readonly sha: string;
  readonly ref: string;
  readonly tag: boolean;
  readonly user: Person;
  /** The job that deployed, if one did. */
  readonly deployable: object | null;
  status: string;
  /** All states that it had. */
  readonly states: string[];
}

interface Host {
  readonly projectOf: (req: Request, res: Response) => Project | undefined;
  readonly personOf: (res: Response) => Person;
  readonly sendPage: (req: Request, res: Response, items: readonly object[]) => void;
}

const statuses = ["running", "success", "failed", "canceled"];
const events = new Map([
  ["running", "run"],
  ["success", "succeed"],
  ["failed", "drop"],
  ["canceled", "cancel"],
]);
const nameRule = /^[\w${}. -]([\w/${}. -]*[\w${}. -])?$/;

export function mountDeployments(api: Router, { projectOf, personOf, sendPage }: Host): void {
  const toJson = ({
    environment: { protected: _, ...environment },
    user,
    states: _states,
    ...one
  }: GitlabDeployment) => ({
    ...one,
    user: { id: user.id, username: user.username },
    environment: { id: environment.id, name: environment.name, external_url: environment.external_url },
  });

  /** Returns the project if the caller may deploy. */
  function deployingOf(req: Request, res: Response): Project | undefined {
    const project = projectOf(req, res);
    if (project === undefined || personOf(res).developerOf.has(project.id)) return project;
    return void res.status(403).json({ message: "403 Forbidden" });
  }

  api.get("/projects/:id/deployments", (req, res) => {
    const project = projectOf(req, res);
    if (project === undefined) return;
    const { environment, sort } = req.query;
    const found = project.deployments.filter(
      (one) => environment === undefined || one.environment.name === environment,
    );
    sendPage(req, res, (sort === "desc" ? found.toReversed() : found).map(toJson));
  });

  api.post("/projects/:id/deployments", (req, res) => {
    const project = deployingOf(req, res);
    if (project === undefined) return;
    const body = req.body as Record<string, unknown>;
    const missing = ["environment", "sha", "ref", "tag", "status"].filter((name) => body[name] === undefined);
    if (missing.length > 0) {
      return void res.status(400).json({ error: missing.map((name) => `${name} is missing`).join(", ") });
    }
    const { environment: name, sha, ref, status } = body as Record<string, string>;
    if (!statuses.includes(status ?? ""))
      return void res.status(400).json({ error: "status does not have a valid value" });
    if (name === undefined || name.length > 255 || !nameRule.test(name)) {
      return void res.status(400).json({ message: { name: ["can contain only letters, digits, '-', '_', '/', '$'"] } });
    }
    if (!project.commits.has(sha ?? ""))
      return void res.status(400).json({ message: { sha: ["The commit does not exist"] } });
    if (!project.branches.has(ref ?? "")) {
      return void res.status(400).json({ message: { ref: ["The branch or tag does not exist"] } });
    }
    let environment = project.environments.find((one) => one.name === name);
    if (environment?.protected) return void res.status(403).json({ message: "403 Forbidden" });
    if (environment === undefined) {
      environment = { id: nextId(), name, external_url: null, tier: "other" };
      project.environments.push(environment);
    }
    const made: GitlabDeployment = {
      ...{ id: nextId(), environment, sha: sha ?? "", ref: ref ?? "", tag: body["tag"] === true, user: personOf(res) },
      ...{ deployable: null, status: status ?? "", states: [status ?? ""] },
    };
    project.deployments.push(made);
    res.status(201).json(toJson(made));
  });

  function deploymentOf(req: Request, res: Response): GitlabDeployment | undefined {
    const project = deployingOf(req, res);
    if (project === undefined) return undefined;
    const found = project.deployments.find(({ id }) => String(id) === req.params["deployment"]);
    return found ?? void res.status(404).json({ message: "404 Not found" });
  }

  api.get("/projects/:id/deployments/:deployment", (req, res) => {
    const found = deploymentOf(req, res);
    if (found) res.json(toJson(found));
  });

  api.put("/projects/:id/deployments/:deployment", (req, res) => {
    const found = deploymentOf(req, res);
    if (found === undefined) return;
    const { status = "" } = req.body as { status?: string };
    if (found.deployable !== null) {
      return void res
        .status(403)
        .json({ message: "Deployments created using GitLab CI can not be updated using the API" });
    }
    // Only a deployment that has not started can run, and no state is set twice.
    if (status === "running" || status === found.status) {
      return void res.status(400).json({ message: { status: [`cannot transition via "${events.get(status)}"`] } });
    }
    found.status = status;
    found.states.push(status);
    res.json(toJson(found));
  });

  api.put("/projects/:id/environments/:environment", (req, res) => {
    const project = deployingOf(req, res);
    if (project === undefined) return;
    const found = project.environments.find(({ id }) => String(id) === req.params["environment"]);
    if (found === undefined) return void res.status(404).json({ message: "404 Not found" });
    const { external_url: url = found.external_url, tier = found.tier } = req.body as Partial<GitlabEnvironment>;
    if (url !== null && url.length > 255)
      return void res.status(400).json({ message: { external_url: ["is too long"] } });
    Object.assign(found, { external_url: url, tier });
    res.json({ id: found.id, name: found.name, external_url: found.external_url, tier: found.tier });
  });
}

/** `prod 1a2b: running → success` for each deployment, oldest first. */
export function shownDeployments({ deployments }: Project): string[] {
  return deployments.map(
    ({ environment, sha, states }) => `${environment.name} ${sha.slice(0, 4)}: ${states.join(" → ")}`,
  );
}
