/** Deployments to the environments of a GitLab. */
import { expect, test } from "vitest";
import type { HostDeployment } from "../../../src/model.ts";
import type { Forge } from "../../../src/ports.ts";
import { type GitlabDeployment, shownDeployments } from "../../support/gitlab-deployments.ts";
import { useGitlabHost } from "../../support/gitlab-host.ts";
import { pushTo } from "../../support/gitlab-state.ts";

const to = (state: HostDeployment["state"], more: Partial<HostDeployment> = {}): HostDeployment => ({
  ...{ environment: "prod", state, description: `it is ${state}`, ref: "refs/heads/main", task: "towline" },
  ...more,
});

async function useCommits() {
  const host = await useGitlabHost();
  const connect = async () => (await host.connect()) as Forge & Required<Pick<Forge, "setDeployment">>;
  const forge = await connect();
  const [one, other] = [pushTo(host.project, "main", []), pushTo(host.project, "main", [])].map((commit) => ({
    commit: { forge: forge.id, repoName: host.repoName, commit },
    short: commit.slice(0, 4),
  })) as [Pushed, Pushed];
  return { host, forge, connect, one, other, shown: () => shownDeployments(host.project) };
}

interface Pushed {
  readonly commit: { readonly forge: string; readonly repoName: string; readonly commit: string };
  readonly short: string;
}

test("a deployment is created when it starts, with its environment, and then changed", async () => {
  const { forge, one, shown, host } = await useCommits();
  expect(await forge.setDeployment(one.commit, to("queued"), undefined)).toBeUndefined();
  const id = await forge.setDeployment(one.commit, to("in_progress"), undefined);
  expect(await forge.setDeployment(one.commit, to("success"), id)).toBe(id);
  expect(shown()).toEqual([`prod ${one.short}: running → success`]);
  expect(host.project.deployments).toMatchObject([{ ref: "main", tag: false }]);
  expect(host.project.environments).toMatchObject([{ name: "prod", external_url: null }]);
});

test("a failed deployment succeeds later, and what GitLab knows already is accepted", async () => {
  const { forge, one, shown } = await useCommits();
  const id = await forge.setDeployment(one.commit, to("failure"), undefined);
  for (const state of ["in_progress", "failure", "success", "success"] as const) {
    expect(await forge.setDeployment(one.commit, to(state), id)).toBe(id);
  }
  expect(shown()).toEqual([`prod ${one.short}: failed → success`]);
});

test("a server that lost its records continues the deployment that is there", async () => {
  const { connect, forge, one, shown } = await useCommits();
  const id = await forge.setDeployment(one.commit, to("in_progress"), undefined);
  expect(await (await connect()).setDeployment(one.commit, to("in_progress"), undefined)).toBe(id);
  expect(await (await connect()).setDeployment(one.commit, to("success"), undefined)).toBe(id);
  expect(shown()).toEqual([`prod ${one.short}: running → success`]);
});

test("deployments by jobs and by others are left alone", async () => {
  const { forge, one, shown, host } = await useCommits();
  await forge.setDeployment(one.commit, to("success"), undefined);
  const [made] = host.project.deployments.splice(0);
  const [, somebody] = host.state.people;
  host.project.deployments.push(
    { ...(made as GitlabDeployment), deployable: { id: 1 } },
    { ...(made as GitlabDeployment), user: somebody ?? host.bot },
  );
  await forge.setDeployment(one.commit, to("in_progress"), undefined);
  expect(shown().at(-1)).toBe(`prod ${one.short}: running`);
  expect(shown()).toHaveLength(3);
});

test("going back to an earlier commit is a new deployment of it", async () => {
  const { forge, one, other, shown } = await useCommits();
  const first = await forge.setDeployment(one.commit, to("success"), undefined);
  await forge.setDeployment(other.commit, to("success"), undefined);
  expect(await forge.setDeployment(one.commit, to("replaced"), first)).toBe(first);
  await forge.setDeployment(one.commit, to("success"), undefined);
  expect(shown()).toEqual([`prod ${one.short}: success`, `prod ${other.short}: success`, `prod ${one.short}: success`]);
});

test("a deployment that a newer commit superseded is canceled, also if nothing was shown of it yet", async () => {
  const { forge, one, shown } = await useCommits();
  const id = await forge.setDeployment(one.commit, to("in_progress"), undefined);
  await forge.setDeployment(one.commit, to("canceled"), id);
  expect(await forge.setDeployment(one.commit, to("canceled"), undefined)).toBeUndefined();
  expect(shown()).toEqual([`prod ${one.short}: running → canceled`]);
  expect(await forge.setDeployment(one.commit, to("in_progress"), undefined)).not.toBe(id);
});

test("the environment gets its link and tier, and is not written again with each deployment", async () => {
  const { forge, one, other, host } = await useCommits();
  const about = { url: "https://shop.example.com/", tier: "production" } as const;
  const id = await forge.setDeployment(one.commit, to("in_progress", about), undefined);
  await forge.setDeployment(one.commit, to("success", about), id);
  await forge.setDeployment(other.commit, to("success", about), undefined);
  expect(host.project.environments).toMatchObject([{ external_url: about.url, tier: "production" }]);
  const edits = () => host.state.requests.filter((line) => /^PUT .*\/environments\//.test(line));
  expect(edits()).toHaveLength(1);
  await forge.setDeployment(other.commit, to("failure", { ...about, url: "https://new.example.com/" }), undefined);
  expect(host.project.environments).toMatchObject([{ external_url: "https://new.example.com/" }]);
  expect(edits()).toHaveLength(2);
});

test("a tag is deployed as a tag", async () => {
  const { forge, one, host } = await useCommits();
  host.project.branches.set("v1", one.commit.commit);
  await forge.setDeployment(one.commit, to("success", { ref: "refs/tags/v1" }), undefined);
  expect(host.project.deployments).toMatchObject([{ ref: "v1", tag: true }]);
});

test("a protected environment is refused with what the token needs", async () => {
  const { forge, one, host } = await useCommits();
  host.project.environments.push({ id: 1, name: "prod", external_url: null, tier: "production", protected: true });
  await expect(forge.setDeployment(one.commit, to("success"), undefined)).rejects.toMatchObject({
    problem: "unauthorized",
    message: expect.stringContaining("the token needs the role Developer") as string,
  });
});

test("a deployment that a user deleted is made again", async () => {
  const { forge, one, shown, host } = await useCommits();
  const id = await forge.setDeployment(one.commit, to("in_progress"), undefined);
  host.project.deployments.length = 0;
  await forge.setDeployment(one.commit, to("success"), id);
  expect(shown()).toEqual([`prod ${one.short}: success`]);
});
