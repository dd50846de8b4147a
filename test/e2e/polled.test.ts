/** A server that nothing can reach: it has no webhook port and no webhook secret, and asks the git host by itself. */
import { expect, test, vi } from "vitest";
import { patience } from "../support/patience.ts";
import { aProject } from "../support/project.ts";
import { deployShop, giteaVariables, usePullRequestHost } from "../support/pull-requests.ts";
import { useTowlineProcess } from "../support/towline.ts";
import { useWorld } from "../support/world.ts";

test("without webhooks, a pull request gets its comment, and its merge is deployed and recorded", async () => {
  const [world, host] = await Promise.all([useWorld(), usePullRequestHost()]);
  const { namespace } = world.cluster;
  const server = await useTowlineProcess(world, {
    ...giteaVariables(host.gitea),
    TOWLINE_GITEA_WEBHOOKS: "false",
    TOWLINE_GITEA_WEBHOOK_SECRET: "",
    TOWLINE_SWEEP_INTERVAL: "10m",
  });
  expect(server.lines.filter(({ msg }) => msg === "listening").map(({ webhooksPort }) => webhooksPort)).toEqual([
    undefined,
  ]);
  const deployment = await deployShop(world, host);

  const pull = await host.open(aProject({ namespace, data: { color: "blue" } }));
  await pull.comment("1 object changed");
  const second = await pull.push(aProject({ namespace, data: { color: "green" } }));
  await pull.comment(second.slice(0, 7));
  await pull.merge();
  await vi.waitFor(async () => expect((await world.cluster.data("settings"))?.["color"]).toBe("green"), patience);
  await pull.comment("Rollout of");
  await deployment.reaches("Ready");
});
