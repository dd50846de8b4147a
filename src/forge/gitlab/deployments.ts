/** Deployments and their environments on GitLab: https://docs.gitlab.com/api/deployments/ */
import { z } from "zod";
import type { HostDeployment } from "../../model.ts";
import type { Forge } from "../../ports.ts";
import { type Answer, type Ask, readAnswer, unlessGone } from "../ask.ts";
import { createMemory } from "../memory.ts";
import { createGitlabApi, type GitlabApi, perPage } from "./api.ts";
import { shortRef } from "../../model/git-ref.ts";

const id = z.int().positive();

const Environment = z.object({ id, external_url: z.string().nullish() });

const Deployment = z.object({
  id,
  sha: z.string(),
  ref: z.string(),
  status: z.string(),
  user: z.object({ id }).nullish(),
  /** The job that deployed; null if it was created through the API. */
  deployable: z.unknown().optional(),
  environment: Environment,
});

type Deployment = z.infer<typeof Deployment>;

/** GitLab has no state for what waits, and shows by itself that a newer deployment replaced one. */
const states = {
  queued: undefined,
  in_progress: "running",
  success: "success",
  failure: "failed",
  canceled: "canceled",
  replaced: undefined,
} as const satisfies Record<HostDeployment["state"], string | undefined>;

/** How long the tier of an environment is not written again. */
const tierLifetimeMs = 24 * 3_600_000;

export interface SetDeploymentOptions {
  readonly ask: Ask;
  /** Resolves to the id of the token's account. */
  readonly findAccount: (signal: AbortSignal | undefined) => Promise<number>;
}

export function createSetDeployment({ ask, findAccount }: SetDeploymentOptions): NonNullable<Forge["setDeployment"]> {
  const tiers = createMemory<true>(tierLifetimeMs);

  return async function setDeployment({ repoName, commit }, deployment, known, signal) {
    const { environment, ref, state } = deployment;
    const status = states[state];
    if (status === undefined) return known;
    const { deployments, environments } = createGitlabApi(ask, { signal, excuses: isThatAlready });
    const request = `the deployment of ${repoName}@${commit} to environment ${environment}`;

    /** Resolves to `undefined` if the deployment was deleted. */
    const write = (deploymentId: number) =>
      unlessGone(async () => {
        const json: unknown = await deployments.edit(repoName, deploymentId, status);
        const isThere = Refusal.safeParse(json).success;
        return readAnswer(Deployment, {
          json: isThere ? await deployments.show(repoName, deploymentId) : json,
          request,
        });
      });

    const findOrCreate = async (): Promise<Deployment> => {
      const me = await findAccount(signal);
      const found = await findNewest(deployments, repoName, deployment, me);
      if (found?.sha === commit && found.status !== "canceled") {
        return found.status === status ? found : ((await write(found.id)) ?? found);
      }
      const isTag = ref.startsWith("refs/tags/");
      const json = await deployments.create(repoName, environment, commit, shortRef(ref), isTag, { status });
      return readAnswer(Deployment, { json, request });
    };

    const written = known === undefined ? undefined : await write(Number(known));
    // What users deleted need not end.
    if (written === undefined && state === "canceled") return known;
    const there = written ?? (await findOrCreate());
    await describe(environments, repoName, deployment, there);
    return String(there.id);
  };

  /** Sets the link and the tier of the environment, which is created together with its first deployment. */
  async function describe(
    environments: GitlabApi["environments"],
    repoName: string,
    { url, tier }: HostDeployment,
    { environment }: Deployment,
  ): Promise<void> {
    const isOtherUrl = url !== undefined && environment.external_url !== url;
    const edit = async () => {
      await environments.edit(repoName, environment.id, {
        ...(url !== undefined && { externalUrl: url }),
        ...(tier !== undefined && { tier }),
      });
      return true as const;
    };
    if (isOtherUrl) await edit();
    if (tier !== undefined) {
      await tiers.get(`${repoName} ${environment.id} ${tier}`, isOtherUrl ? () => Promise.resolve(true) : edit);
    }
  }
}

/** The newest of our deployments of this branch or tag in the environment. */
async function findNewest(
  deployments: GitlabApi["deployments"],
  repoName: string,
  { environment, ref }: HostDeployment,
  me: number,
): Promise<Deployment | undefined> {
  const newestFirst = { environment, orderBy: "id", sort: "desc", page: 1, perPage } as const;
  const json = await deployments.all(repoName, newestFirst);
  const request = `the deployments of ${repoName} to environment ${environment}`;
  const all = readAnswer(z.array(Deployment), { json, request });
  const name = shortRef(ref);
  return all.find((one) => one.user?.id === me && (one.deployable ?? null) === null && one.ref === name);
}

/** `{"message":{"status":["cannot transition via \"run\""]}}` */
const Refusal = z.object({
  message: z.object({ status: z.array(z.string().regex(/cannot transition via/i)).min(1) }),
});

/** A deployment that ended cannot run again, and no state can be set twice. */
function isThatAlready({ status, json }: Pick<Answer, "status" | "json">): boolean {
  return status === 400 && Refusal.safeParse(json).success;
}
