/** Deployments and their environments on GitHub: https://docs.github.com/rest/deployments */
import { z } from "zod";
import { shorten } from "../../kit/shorten.ts";
import type { CommitKey, HostDeployment } from "../../model.ts";
import type { Forge } from "../../ports.ts";
import type { Client, GithubCall } from "./client.ts";

const maxDescriptionLength = 140;
const perPage = 30;

const id = z.int().positive();
const Made = z.object({ id });
const Listed = z.array(z.object({ id, sha: z.string(), environment: z.string(), task: z.string() }));
const Statuses = z.array(z.object({ state: z.string(), description: z.string().nullish() }));

/** GitHub shows what was live and what never ended in the same way. */
const states = {
  queued: "queued",
  in_progress: "in_progress",
  success: "success",
  failure: "failure",
  canceled: "inactive",
  replaced: "inactive",
} as const satisfies Record<HostDeployment["state"], string>;

export function createSetDeployment(client: Client): NonNullable<Forge["setDeployment"]> {
  /** The newest of our deployments of the commit in the environment that has not ended. */
  async function findOpen({ commit }: CommitKey, { environment, task }: HostDeployment, call: GithubCall) {
    const query = { sha: commit, environment, task, per_page: perPage };
    const found = client.read(Listed, await client.ask("GET /repos/{owner}/{repo}/deployments", query, call), call);
    const name = environment.toLowerCase();
    const [newest] = found.filter(
      (one) => one.sha === commit && one.task === task && one.environment.toLowerCase() === name,
    );
    if (newest === undefined) return undefined;
    const answer = await client.ask(
      "GET /repos/{owner}/{repo}/deployments/{deployment_id}/statuses",
      { deployment_id: newest.id, per_page: 1 },
      call,
    );
    const [last] = client.read(Statuses, answer, call);
    return last?.state === states.replaced ? undefined : { id: String(newest.id), last };
  }

  async function create({ commit }: CommitKey, deployment: HostDeployment, call: GithubCall): Promise<string> {
    const { environment, task, tier } = deployment;
    const answer = await client.ask(
      "POST /repos/{owner}/{repo}/deployments",
      {
        ...{ ref: commit, environment, task },
        // By default GitHub merges the default branch into the ref, and requires the success of all its statuses.
        ...{ auto_merge: false, required_contexts: [] },
        ...(tier !== undefined && { production_environment: tier === "production" }),
      },
      call,
    );
    return String(client.read(Made, answer, call).id);
  }

  return async function setDeployment(key, deployment, known, signal) {
    const { repoName, commit } = key;
    const what = `report the deployment of ${repoName}@${commit} to environment ${deployment.environment}`;
    const call: GithubCall = { what, repoName, permission: "deployments", signal };
    const status = toStatus(deployment);
    if (known !== undefined) {
      const answer = await client.find(addStatus, { deployment_id: Number(known), ...status }, call);
      // What users deleted need not end.
      if (answer !== undefined || status.state === "inactive") return known;
    }
    const found = await findOpen(key, deployment, call);
    const { state, description } = found?.last ?? {};
    if (found !== undefined && state === status.state && description === status.description) return found.id;
    const made = found?.id ?? (await create(key, deployment, call));
    await client.ask(addStatus, { deployment_id: Number(made), ...status }, call);
    return made;
  };
}

const addStatus = "POST /repos/{owner}/{repo}/deployments/{deployment_id}/statuses";

function toStatus({ state, description, url }: HostDeployment) {
  return {
    state: states[state],
    description: shorten(description, maxDescriptionLength),
    ...(url !== undefined && { environment_url: url }),
    // Otherwise it also ends deployments of other systems in the environment, but none in production.
    auto_inactive: false,
  };
}
