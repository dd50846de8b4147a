/** Two servers in one cluster, each with a namespace of its own, and one repository that both follow. */
import { expect, test } from "vitest";
import { githubPullRequest } from "../support/deliveries.ts";
import { type LocalGithub, useLocalGithub, useLocalPullRequests } from "../support/local-hosts.ts";
import { patience } from "../support/patience.ts";
import { aProject, aSpec } from "../support/project.ts";
import { previewVariables, useTowline } from "../support/towline.ts";
import { type TestWorld, useWorld } from "../support/world.ts";

/** Both have a deployment named `shop` in their own namespace. */
async function useServers(worlds: readonly [TestWorld, TestWorld], local: LocalGithub, names: readonly string[]) {
  const [first, second] = worlds;
  // Sweeps do not consider the pull request new: each server learns of it from a webhook only.
  local.host.advance(-48 * 3_600_000);
  const pulls = await useLocalPullRequests(first, local, {
    variables: () => ({ TOWLINE_STATUS_NAME: names[0] ?? "towline" }),
  });
  const project = (color: string) => aProject({ namespace: first.cluster.namespace, data: { color } });
  await pulls.push(project("red"));
  const other = await useTowline(second, {
    ...local.variables,
    TOWLINE_GITHUB_API_URL: local.apiUrl,
    ...previewVariables,
    TOWLINE_STATUS_NAME: names[1] ?? "towline",
  });
  for (const { cluster } of worlds) {
    const deployment = cluster.deployment("shop");
    await deployment.create(aSpec(pulls.repo.url, { suspend: true }));
  }
  const pull = await pulls.open(project("blue"));
  return {
    ...{ pull, servers: [pulls.towline, other] as const },
    async tellOther(head: string, action: "opened" | "synchronize" = "opened") {
      const delivery = githubPullRequest(action, pulls.repository, { number: pull.number, head });
      const { rawHeaders, body } = delivery;
      const headers = Array.from({ length: rawHeaders.length / 2 }, (_, i) => rawHeaders.slice(2 * i, 2 * i + 2));
      const url = new URL("/webhooks/github", other.webhooksUrl);
      const answer = await fetch(url, { method: "POST", headers: headers as [string, string][], body });
      expect(answer.status).toBe(202);
    },
    push: (color: string) => pull.push(project(color)),
  };
}

test("with different status names, each server has its own comment and statuses", async () => {
  const [first, second, local] = await Promise.all([useWorld(), useWorld(), useLocalGithub("token")]);
  const { pull, tellOther } = await useServers([first, second], local, ["towline", "towline-tools"]);
  const key = (world: TestWorld) => world.cluster.deployment("shop").key;
  await pull.comment(key(first));
  await tellOther(pull.head);

  await expect.poll(() => pull.comments().length, patience).toBe(2);
  await expect.poll(() => pull.comments().at(-1)?.body, patience).toContain(key(second));
  expect(pull.comments()[0]?.body).toContain(key(first));
  expect(pull.comments()[0]?.body).not.toContain(key(second));
  await expect
    .poll(() => Object.keys(local.statuses(pull.head)).toSorted(), patience)
    .toEqual(["towline", `towline/${key(first)}`, "towline-tools", `towline-tools/${key(second)}`].toSorted());
});

test("with the same status name, one server overwrites the other's comment and logs a warning", async () => {
  const [first, second, local] = await Promise.all([useWorld(), useWorld(), useLocalGithub("token")]);
  const { pull, servers, tellOther, push } = await useServers([first, second], local, []);
  const warned = () =>
    servers.flatMap(({ lines }) => lines.map(({ msg }) => msg)).filter((msg) => /statusName/.test(msg));
  const [mine, theirs] = [first, second].map((world) => world.cluster.deployment("shop").key);
  await pull.comment(mine!);
  await tellOther(pull.head);
  await pull.comment(theirs!);

  await push("green");

  // The other server may find the push in its sweep, with the same result.
  const warning =
    "another Towline server in this cluster writes the same comments: set a different statusName for each";
  await expect.poll(() => [...new Set(warned())], patience).toEqual([warning]);
});
