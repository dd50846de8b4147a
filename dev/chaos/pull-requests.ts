/** The pull requests of an episode: the actions of their authors, and the comments expected at the end. */
import { setTimeout as sleep } from "node:timers/promises";
import { type EpisodeGitea, otherBranch } from "./git-host.ts";
import type { ObjectWrite, PullRequestFacts, Push } from "./history.ts";
import type { DeploymentPlan, Plan } from "./projects.ts";
import { RenderError, renderProject, type Tree } from "./render.ts";
import type { Repository } from "./repository.ts";

export interface PullRequest {
  readonly repository: Repository;
  readonly number: number;
  readonly branch: string;
  /** The pull request changes this object of that deployment. */
  readonly deployment: DeploymentPlan;
  readonly object: string;
}

/** A delivery to send: the action, and the pull request as the host describes it afterwards. */
export interface PullRequestEvent {
  readonly action: string;
  readonly pullRequest: object;
  readonly repository: Repository;
  readonly number: number;
}

export type MergeStyle = "merge" | "squash" | "rebase";

export interface PullRequests {
  readonly all: readonly PullRequest[];
  /** The host may refuse an action: then nothing happened and there is nothing to deliver. */
  open(deployment: DeploymentPlan, object: string, color: string): Promise<PullRequestEvent | undefined>;
  /** With `rebase`, on top of the current base branch; otherwise adds a commit. */
  push(pull: PullRequest, color: string, rebase: boolean): Promise<PullRequestEvent | undefined>;
  /** Switches the base to the other branch, or back. */
  retarget(pull: PullRequest): Promise<PullRequestEvent | undefined>;
  /** Closes the pull request, or reopens it. */
  close(pull: PullRequest): Promise<PullRequestEvent | undefined>;
  merge(
    pull: PullRequest,
    style: MergeStyle,
  ): Promise<{ readonly push: Push; readonly event: PullRequestEvent } | undefined>;
  facts(): Promise<readonly PullRequestFacts[]>;
}

export interface PullRequestsOptions {
  readonly gitea: EpisodeGitea;
  readonly plan: Plan;
  readonly repositories: ReadonlyMap<string, Repository>;
  readonly treeOf: (url: string) => Tree;
  readonly liveObjects: () => ReadonlyMap<string, ObjectWrite>;
}

interface Answer {
  readonly state: "open" | "closed";
  readonly merged: boolean;
  readonly head: { readonly sha: string };
  readonly base: { readonly ref: string };
}

/** The host computes in the background whether a pull request can be merged. */
const mergeWithinMs = 10_000;

export function createPullRequests(options: PullRequestsOptions): PullRequests {
  const { gitea, plan, repositories } = options;
  const { organization, call } = gitea;
  const all: PullRequest[] = [];
  const pathOf = ({ repository, number }: Pick<PullRequest, "repository" | "number">) =>
    `/repos/${organization}/${repository.name}/pulls/${number}`;
  const read = (pull: Pick<PullRequest, "repository" | "number">) => call<Answer>("GET", pathOf(pull));
  const change = (deployment: DeploymentPlan, object: string, color: string) =>
    new Map([[plan.contentFile(deployment, object), plan.content(deployment, object, color)]]);

  async function attempt<T>(what: () => Promise<T>): Promise<T | undefined> {
    try {
      return await what();
    } catch (error) {
      if ((error as Error).message.startsWith("Gitea answered 4")) return undefined;
      throw error;
    }
  }

  async function eventOf(pull: Pick<PullRequest, "repository" | "number">, action: string): Promise<PullRequestEvent> {
    const { repository, number } = pull;
    return { action, repository, number, pullRequest: await read(pull) };
  }

  async function edit(pull: PullRequest, changes: object, action: string): Promise<PullRequestEvent | undefined> {
    const done = await attempt(() => call<Answer>("PATCH", pathOf(pull), changes));
    return done && eventOf(pull, action);
  }

  return {
    all,
    async open(deployment, object, color) {
      const repository = repositories.get(deployment.repo) as Repository;
      if (repository.head() === undefined) return undefined;
      const branch = `change-${all.length + 1}`;
      await repository.propose(branch, change(deployment, object, color), "head");
      const proposal = { title: `Make it ${color}`, head: branch, base: "main" };
      const opened = await attempt(() =>
        call<{ number: number }>("POST", `/repos/${organization}/${repository.name}/pulls`, proposal),
      );
      if (opened === undefined) return undefined;
      const pull = { repository, number: opened.number, branch, deployment, object };
      all.push(pull);
      return eventOf(pull, "opened");
    },
    async push(pull, color, rebase) {
      const { repository, branch, deployment, object } = pull;
      const head = await repository.propose(branch, change(deployment, object, color), rebase ? "head" : "branch");
      // The host processes a push in a queue of its own.
      const until = performance.now() + mergeWithinMs;
      while ((await read(pull)).head.sha !== head && performance.now() < until) await sleep(100);
      return eventOf(pull, "synchronized");
    },
    async retarget(pull) {
      const { base } = await read(pull);
      return edit(pull, { base: base.ref === "main" ? otherBranch : "main" }, "edited");
    },
    async close(pull) {
      const { state } = await read(pull);
      return edit(pull, { state: state === "open" ? "closed" : "open" }, state === "open" ? "closed" : "reopened");
    },
    async merge(pull, style) {
      const { repository } = pull;
      const until = performance.now() + mergeWithinMs;
      for (;;) {
        const { state, base } = await read(pull);
        if (state !== "open" || base.ref !== "main" || repository.head() === undefined) return undefined;
        const at = Date.now();
        await attempt(() => call("POST", `${pathOf(pull)}/merge`, { Do: style }));
        if ((await read(pull)).merged)
          return { push: await repository.takeOver(at), event: await eventOf(pull, "closed") };
        if (performance.now() > until) return undefined;
        await sleep(500);
      }
    },
    async facts() {
      const facts: PullRequestFacts[] = [];
      for (const pull of all) facts.push(await factsOf(pull));
      return facts;
    },
  };

  async function factsOf(pull: PullRequest): Promise<PullRequestFacts> {
    const { repository, number } = pull;
    const { state, merged, head, base } = await read(pull);
    const repo = `/repos/${organization}/${repository.name}`;
    const written = await call<{ body: string; user: { login: string } }[]>("GET", `${repo}/issues/${number}/comments`);
    const { statuses } = await call<{ statuses: { context: string; status: string }[] | null }>(
      "GET",
      `${repo}/commits/${head.sha}/status`,
    );
    const facts = {
      name: `${repository.name}#${number}`,
      state: merged ? ("merged" as const) : state,
      comments: written.filter(({ user }) => user.login === gitea.bot).map(({ body }) => body),
      check: statuses?.find(({ context }) => context === "towline")?.status,
    };
    if (facts.state === "merged") return { ...facts, isConcerned: false, says: [`merged into \`${base.ref}\``] };
    if (facts.state === "closed") return { ...facts, isConcerned: false, says: ["closed without merging"] };
    const about = [`\`${head.sha.slice(0, 7)}\``, `\`${base.ref}\``];
    const tip = repository.head();
    if (base.ref !== "main" || tip === undefined) return { ...facts, isConcerned: false, says: about };
    const merge = await repository.mergeOf(head.sha);
    if (merge === undefined) return { ...facts, isConcerned: true, says: about };
    const concerned = plan.deployments.filter(
      ({ repo, path }) => repo === repository.name && merge.paths.some((file) => file.startsWith(`${path}/`)),
    );
    const compared = concerned.length > 0 ? [...about, `at \`${tip.slice(0, 7)}\``] : about;
    return { ...facts, isConcerned: concerned.length > 0, says: [...compared, ...changesIn(pull, merge.tree)] };
  }

  /** The changes that merging makes to the object; none if it is as merged already or a user has changed it. */
  function changesIn({ deployment, object }: PullRequest, tree: Tree): string[] {
    const name = `${deployment.name}-${object}`;
    const live = options.liveObjects().get(name);
    if (live === undefined || live.run === "person") return [];
    try {
      const { objects } = renderProject({ tree, path: deployment.path, included: options.treeOf });
      const color = objects.find(({ metadata }) => metadata.name === name)?.data["color"];
      return color === undefined || color === live.data["color"] ? [] : [color];
    } catch (error) {
      if (error instanceof RenderError) return [];
      throw error;
    }
  }
}
