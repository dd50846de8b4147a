/** A simulated GitLab as far as a forge uses it, with a bot, another user, and a project of the running test. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import { createGitlabForge } from "../../src/forge/gitlab/forge.ts";
import type { CommitStatus } from "../../src/model.ts";
import type { ForgeHost, OpenedPullRequest } from "./forge-host.ts";
import { createGitlabApp, type GitlabState } from "./gitlab-api.ts";
import {
  type MergeRequest,
  type Note,
  type Person,
  type Pipeline,
  type Project,
  latestJobs,
  newPerson,
  newProject,
  nextId,
  pushTo,
} from "./gitlab-state.ts";

export interface GitlabHost extends ForgeHost {
  readonly state: GitlabState;
  readonly project: Project;
  readonly bot: Person;
  /** Opens a merge request; `head` may be a commit of a real repository. */
  openPullRequest(options?: { fork?: boolean; draft?: boolean; head?: string }): Promise<OpenedPullRequest>;
  push(number: number, head?: string): Promise<string>;
  /** Starts the project's own CI; on the branch of a merge request unless `ref` names another one. */
  startPipeline(sha: string, source?: Pipeline["source"], ref?: string): Pipeline;
  /** Adds a system note of GitLab to a merge request. */
  noteBySystem(number: number, body: string): void;
}

/** Not at the root of its host, like many installations. */
const folder = "/gitlab";

const states = new Map<string, CommitStatus["state"]>([
  ["pending", "pending"],
  ["running", "pending"],
  ["success", "success"],
  ["failed", "failure"],
]);

export async function useGitlabHost(): Promise<GitlabHost> {
  const [bot, somebody] = [newPerson("project_1_bot"), newPerson("somebody")];
  const project = newProject("Group/Sub.group-2/Shop_v-1.2");
  const fork = newProject("somebody/Shop_v-1.2");
  for (const { id } of [project, fork]) somebody.developerOf.add(id);
  bot.developerOf.add(project.id);
  const state: GitlabState = { people: [bot, somebody], projects: [project, fork], requests: [], statusConflicts: 0 };

  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(async () => {
    server.close();
    server.closeAllConnections();
    await once(server, "close");
  });
  const webUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}${folder}`;
  server.on("request", createGitlabApp(state, folder, webUrl));
  const apiUrl = `${webUrl}/api/v4`;

  function find(number: number): MergeRequest {
    const request = project.requests.find(({ iid }) => iid === number);
    if (request === undefined) throw new Error(`There is no merge request !${number}.`);
    return request;
  }

  function change(number: number, changes: Partial<MergeRequest>): Promise<void> {
    Object.assign(find(number), changes, { updatedAt: new Date() });
    return Promise.resolve();
  }

  const note = (number: number, body: string, by: Pick<Note, "author" | "system">) =>
    find(number).notes.push({ id: nextId(), body, createdAt: new Date(), ...by });

  return {
    state,
    project,
    bot,
    apiUrl,
    repoName: project.path,
    repoUrl: `${webUrl}/${project.path}.git`,
    secrets: [bot.token],
    connect: (options) => createGitlabForge({ id: "our-gitlab", apiUrl, token: bot.token, ...options }),

    openPullRequest(options = {}) {
      const source = options.fork ? fork : project;
      const id = nextId();
      const iid = project.requests.length + 1;
      const sourceBranch = `feature-${iid}`;
      const sha = pushTo(source, sourceBranch, [], options.head);
      project.commits.add(sha);
      project.requests.push({
        ...{ id, iid, source, sourceBranch, targetBranch: "main", sha, state: "opened", notes: [] },
        ...{ draft: options.draft ?? false, updatedAt: new Date() },
      });
      return Promise.resolve({ number: iid, head: sha });
    },
    push(number, head) {
      const { source, sourceBranch } = find(number);
      return Promise.resolve(pushTo(source, sourceBranch, [project], head));
    },
    retarget: (number, targetBranch) => change(number, { targetBranch }),
    setDraft: (number, draft) => change(number, { draft }),
    close: (number) => change(number, { state: "closed" }),
    merge: (number) => change(number, { state: "merged" }),
    somebodyComments(number, bodies) {
      for (const body of bodies) note(number, body, { author: somebody, system: false });
      return Promise.resolve();
    },
    comments(number) {
      const written = find(number).notes.filter(({ system }) => !system);
      return Promise.resolve(written.map(({ body, author }) => ({ body, byForge: author === bot })));
    },
    statuses(sha) {
      const shown = latestJobs(project, sha).map(({ job }) => ({
        context: job.name,
        state: states.get(job.status) ?? "canceled",
        description: job.description ?? "",
        url: job.targetUrl ?? undefined,
      }));
      return Promise.resolve(shown);
    },

    startPipeline(sha, source = "push", ref) {
      const branch = ref ?? find(project.requests.findIndex((request) => request.sha === sha) + 1).sourceBranch;
      const pipeline: Pipeline = { id: nextId(), sha, ref: branch, source, jobs: [] };
      project.pipelines.push(pipeline);
      return pipeline;
    },
    noteBySystem(number, body) {
      note(number, body, { author: bot, system: true });
    },
  };
}
