/** Deployments to the environments of a GitHub. */
import { expect, test } from "vitest";
import type { HostDeployment } from "../../../src/model.ts";
import type { Forge } from "../../../src/ports.ts";
import { shownDeployments } from "../../support/github-deployments.ts";
import { useGithubHost } from "../../support/github-host.ts";

const granted = { pull_requests: "write", statuses: "write", deployments: "write" } as const;

const to = (state: HostDeployment["state"], more: Partial<HostDeployment> = {}): HostDeployment => ({
  ...{ environment: "prod", state, description: `it is ${state}`, ref: "refs/heads/main", task: "towline" },
  ...more,
});

async function useCommits({ as = "token" }: { as?: "token" | "app" } = {}) {
  const host = await useGithubHost({ as });
  host.logins.permissions = granted;
  if (host.logins.installation) host.logins.installation.permissions = granted;
  const forge = host.connect() as Forge & Required<Pick<Forge, "setDeployment">>;
  const commits = [0, 1].map(() => {
    const commit = { forge: forge.id, repoName: host.repoName, commit: host.repository.open().head };
    return { commit, short: commit.commit.slice(0, 4) };
  });
  const [one, other] = commits as [(typeof commits)[0], (typeof commits)[0]];
  const asked = () =>
    host.answered.splice(0).map((line) => line.replace(/^(\w+) \S*\/repos\/[^/]+\/[^/]+|\?\S*/g, "$1"));
  return { host, forge, one, other, shown: () => shownDeployments(host.repository), asked };
}

test.each(["token", "app"] as const)(
  "a deployment by %s is created with its first state, and then changed",
  async (as) => {
    const { forge, one, shown, host } = await useCommits({ as });
    // Whatever the statuses of the commit say, the deployment is a fact.
    await forge.setStatus(one.commit, { context: "towline", state: "pending", description: "being deployed" });
    const id = await forge.setDeployment(one.commit, to("in_progress"), undefined);
    expect(await forge.setDeployment(one.commit, to("success", { url: "https://shop.example.com/" }), id)).toBe(id);
    expect(shown()).toEqual([`prod ${one.short}: in_progress → success`]);
    const [made] = host.repository.deployments;
    expect(made).toMatchObject({
      task: "towline",
      production: false,
      creator: { login: expect.stringContaining("towline") },
    });
    expect(made?.statuses.at(-1)).toMatchObject({ environment_url: "https://shop.example.com/" });
  },
);

test("a server that lost its records continues the deployment that is there", async () => {
  const { forge, one, shown, host, asked } = await useCommits();
  const id = await forge.setDeployment(one.commit, to("in_progress"), undefined);
  asked();
  expect(await host.connect().setDeployment?.(one.commit, to("in_progress"), undefined)).toBe(id);
  expect(asked()).toEqual(["GET/deployments 200", `GET/deployments/${id}/statuses 200`]);
  expect(await host.connect().setDeployment?.(one.commit, to("success"), undefined)).toBe(id);
  expect(shown()).toEqual([`prod ${one.short}: in_progress → success`]);
});

test("deployments of other servers, of workflows, and to other environments are left alone", async () => {
  const { forge, one, shown } = await useCommits();
  await forge.setDeployment(one.commit, to("success"), undefined);
  await forge.setDeployment(one.commit, to("success", { task: "deploy" }), undefined);
  await forge.setDeployment(one.commit, to("success", { task: "towline-eu" }), undefined);
  await forge.setDeployment(one.commit, to("success", { environment: "staging" }), undefined);
  expect(shown()).toEqual([
    `prod ${one.short}: success`,
    `prod ${one.short}: success`,
    `prod ${one.short}: success`,
    `staging ${one.short}: success`,
  ]);
});

test("a deployment that was replaced is inactive, and going back to its commit is a new one", async () => {
  const { forge, one, other, shown } = await useCommits();
  const first = await forge.setDeployment(one.commit, to("success"), undefined);
  await forge.setDeployment(other.commit, to("success"), undefined);
  await forge.setDeployment(one.commit, to("replaced"), first);
  const again = await forge.setDeployment(one.commit, to("success"), undefined);
  expect(again).not.toBe(first);
  expect(shown()).toEqual([
    `prod ${one.short}: success → inactive`,
    `prod ${other.short}: success`,
    `prod ${one.short}: success`,
  ]);
});

test("the tier decides whether the environment is production", async () => {
  const { forge, one, host } = await useCommits();
  await forge.setDeployment(one.commit, to("success", { environment: "live", tier: "production" }), undefined);
  await forge.setDeployment(one.commit, to("success", { environment: "production", tier: "other" }), undefined);
  expect(host.repository.deployments.map(({ production }) => production)).toEqual([true, false]);
});

test("a deployment that a user deleted is made again, unless it has ended", async () => {
  const { forge, one, shown, host } = await useCommits();
  const id = await forge.setDeployment(one.commit, to("in_progress"), undefined);
  host.repository.deployments.length = 0;
  expect(await forge.setDeployment(one.commit, to("canceled"), id)).toBe(id);
  expect(shown()).toEqual([]);
  await forge.setDeployment(one.commit, to("success"), id);
  expect(shown()).toEqual([`prod ${one.short}: success`]);
});

test("a description that is too long is shortened", async () => {
  const { forge, one, host } = await useCommits();
  await forge.setDeployment(one.commit, to("failure", { description: "🚀 no ".repeat(100) }), undefined);
  const { description = "" } = host.repository.deployments[0]?.statuses[0] ?? {};
  expect([...description]).toHaveLength(140);
  expect(description.endsWith("…")).toBe(true);
});

test("an App without the permission can set statuses, and the error says what to grant", async () => {
  const { forge, one, host } = await useCommits({ as: "app" });
  if (host.logins.installation) host.logins.installation.permissions = { pull_requests: "write", statuses: "write" };
  await forge.setStatus(one.commit, { context: "towline", state: "success", description: "5 changed" });
  await expect(forge.setDeployment(one.commit, to("success"), undefined)).rejects.toMatchObject({
    problem: "unauthorized",
    message: expect.stringContaining("lacks the permission to write deployments: grant it to the App") as string,
  });
});

test("a token without the permission gets an error that names it", async () => {
  const { forge, one, host } = await useCommits();
  host.logins.permissions = { ...granted, deployments: "read" };
  await expect(forge.setDeployment(one.commit, to("success"), undefined)).rejects.toMatchObject({
    problem: "unauthorized",
    message: expect.stringContaining("deployments=write") as string,
  });
});
