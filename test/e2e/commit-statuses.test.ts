/** Statuses of pushed commits: the cause of a failure, and the changes that the commit itself made. */
import { stringify } from "yaml";
import { expect, test } from "vitest";
import { useLocalGithub, useLocalPullRequests } from "../support/local-hosts.ts";
import { patience } from "../support/patience.ts";
import { aProject, aSpec } from "../support/project.ts";
import { readyOf } from "../support/world-cluster.ts";
import { useWorld } from "../support/world.ts";

test("a failure is shown with its object and its cause, in the commit's status and in Ready", async () => {
  const [world, local] = await Promise.all([useWorld(), useLocalGithub("token")]);
  const { namespace } = world.cluster;
  const pulls = await useLocalPullRequests(world, local);
  const fixed = (color: string) => {
    const metadata = { name: "fixed", namespace };
    return stringify({ apiVersion: "v1", kind: "ConfigMap", metadata, immutable: true, data: { color } });
  };
  await pulls.push({ ...aProject({ namespace }), "app/fixed.yml": fixed("red") });
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(pulls.repo.url));
  await deployment.reaches("Ready");
  const line = `towline/${deployment.key}`;

  const refused = await pulls.push({ "app/fixed.yml": fixed("blue") });
  const cause = expect.stringMatching(
    /^failure: deploy failed: .*fixed.*data: Forbidden: field is immutable/,
  ) as string;
  await pulls.shows(refused, { [line]: cause, towline: cause });
  const ready = readyOf(await deployment.settles(refused));
  expect(ready).toMatchObject({ status: "False", reason: "DeployFailed" });
  expect(ready.message).toMatch(/^deploy failed with 1 errors\..* First error: .*fixed.*field is immutable/);

  const broken = await pulls.push({ "app/fixed.yml": "{{ nobody.knows }}\n" });
  const unrendered = expect.stringMatching(
    /^failure: cannot be rendered: .*fixed\.yml.*'nobody' is undefined/,
  ) as string;
  await pulls.shows(broken, { [line]: unrendered, towline: unrendered });
  // The message of the kluctl that runs: older versions include more of it.
  expect(readyOf(await deployment.settles(broken)).message).toMatch(/fixed\.yml[^]*'nobody' is undefined/);
});

test("a later deploy of the same commit keeps the status of the first one", async () => {
  const [world, local] = await Promise.all([useWorld(), useLocalGithub("token")]);
  const { namespace } = world.cluster;
  const pulls = await useLocalPullRequests(world, local);
  const commit = await pulls.push(aProject({ namespace, data: { color: "{{ args.color }}" } }));
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(pulls.repo.url, { args: { color: "red" } }));
  const line = `towline/${deployment.key}`;
  await pulls.shows(commit, { [line]: "success: deployed: 1 new", towline: "success: deployed: 1 new" });

  await deployment.patch({ spec: { args: { color: "blue" } } });
  await expect.poll(() => world.cluster.data("settings"), patience).toEqual({ color: "blue" });
  await deployment.settles(commit);
  const next = await pulls.push({ README: "more\n" });
  await pulls.shows(next, { towline: expect.stringMatching(/^success/) as string });

  const { statuses } = local.host.repository;
  const written = statuses.filter(({ sha, context }) => sha === commit && context === line);
  expect(written.map(({ state, description }) => `${state}: ${description}`).at(-1)).toBe("success: deployed: 1 new");
  expect(written.filter(({ state }) => state === "success")).toHaveLength(1);
});
