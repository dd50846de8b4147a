/** A result of several megabytes: the server keeps answering while it reads, compares and redacts it. */
import { expect, test } from "vitest";
import { largeFiles } from "../../dev/bench/large-projects.ts";
import { patience } from "../support/patience.ts";
import { aSpec } from "../support/project.ts";
import { giteaVariables, usePullRequestHost } from "../support/pull-requests.ts";
import { type Towline, useTowlineProcess } from "../support/towline.ts";
import { useWorld } from "../support/world.ts";

/**
 * Ten times the goal of the bench, because this machine is busy with other tests. Without limits and thread it takes at
 * least twice as long.
 */
const longestMs = 2_000;

/** The longest delay since the previous call. */
async function longestDelayMs({ adminUrl }: Towline): Promise<number> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text();
  return Number(/^nodejs_eventloop_lag_max_seconds (\S+)$/m.exec(text)?.[1]) * 1_000;
}

test("a Secret of 60 000 lines does not block the event loop, neither in a deploy nor in a preview, and is not shown", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const host = await usePullRequestHost();
  await host.repo.push(largeFiles("one", ["secret"]));
  const towline = await useTowlineProcess(world, giteaVariables(host.gitea));
  await host.tell(towline);

  await longestDelayMs(towline); // resets the delay of the start
  const source = { git: { url: host.repo.url, ref: { branch: "main" }, path: "secret" } };
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(host.repo.url, { source, target: undefined, args: { namespace } }));
  const { status } = await deployment.settles();
  expect(status?.["lastDeployResult"]).toMatchObject({
    errors: [{ message: "(not shown, because it may hold a secret)" }],
  });
  expect(await longestDelayMs(towline)).toBeLessThan(longestMs);

  const pull = await host.open(largeFiles("two", ["secret"]));
  const comment = await pull.comment("took", 2 * patience.timeout);
  expect(comment).toContain("there are too many secret values to look for");
  expect(await longestDelayMs(towline)).toBeLessThan(longestMs);
});
