/** A pull request that affects twenty deployments: one merge, a limited number of processes, one comment. */
import { expect, test } from "vitest";
import { useForgeProxy } from "../support/forge-proxy.ts";
import { journaled, useJournal, type JournalRun } from "../support/journal.ts";
import { aProject, aSpec } from "../support/project.ts";
import { giteaVariables, usePullRequestHost } from "../support/pull-requests.ts";
import { useTowline, type Towline } from "../support/towline.ts";
import { readyOf, type TestResource } from "../support/world-cluster.ts";
import { patience } from "../support/patience.ts";
import { useWorld } from "../support/world.ts";

const many = 20;
const atOnce = 2;

async function metrics({ adminUrl }: Towline): Promise<string> {
  return (await fetch(`${adminUrl}/metrics`)).text();
}

/** How often git ran this operation. */
async function gitRuns(towline: Towline, operation: string): Promise<number> {
  const text = await metrics(towline);
  const line = new RegExp(`^towline_git_seconds_count\\{operation="${operation}",result="ok"\\} (\\d+)$`, "m");
  return Number(line.exec(text)?.[1] ?? 0);
}

/** The largest number of runs at the same time. */
function mostAtOnce(runs: readonly JournalRun[]): number {
  return Math.max(
    ...runs.map(
      (one) => runs.filter(({ startedAt, seenAt }) => startedAt <= one.startedAt && one.startedAt < seenAt).length,
    ),
  );
}

test("twenty deployments share one merge, are compared a few at a time, and get one comment", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const journal = await useJournal(world);
  const host = await usePullRequestHost();
  const proxy = await useForgeProxy(`${host.gitea.login.url}/api/v1`);
  const variables = {
    ...giteaVariables(host.gitea),
    TOWLINE_GITEA_API_URL: proxy.apiUrl,
    ...journaled,
    TOWLINE_KLUCTL: journal.kluctl,
    TOWLINE_PREVIEW_CONCURRENCY: String(atOnce),
    TOWLINE_SWEEP_INTERVAL: "24h",
  };
  await host.repo.push(aProject({ namespace, name: "{{ args.name }}" }));
  const names = Array.from({ length: many }, (_, i) => `shop-${i}`);
  const spec = (name: string) => aSpec(host.repo.url, { suspend: true, args: { name } });
  const all = names.map((name) => world.cluster.deployment(name));
  // Suspended deployments make sweeps query git until their status names the commit that is not deployed. All of that
  // ends before the pull request, so that the server under test starts with an empty queue and no reason to query git.
  const first = await useTowline(world, variables);
  await Promise.all(all.map((deployment, i) => deployment.create(spec(names[i]!))));
  await Promise.all(all.map((deployment) => deployment.settles()));
  await first.stop();
  const second = await useTowline(world, variables);
  const isTold = (resource: TestResource) => /is not deployed\.$/.test(readyOf(resource).message ?? "");
  await Promise.all(all.map((deployment) => deployment.until("told of its newer commit", isTold)));
  await second.stop();
  const prefix = `${world.redis.prefix}-next`;
  const towline = await useTowline(world, { ...variables, TOWLINE_REDIS_PREFIX: prefix });
  await host.tell(towline);
  await expect.poll(() => metrics(towline), patience).toMatch(/^towline_sweep_queries_total\{result="ok"\} 1$/m);
  const release = await journal.hold("true");
  proxy.clear();
  const before = await gitRuns(towline, "ls-remote");

  const pull = await host.open(aProject({ namespace, name: "{{ args.name }}", data: { color: "blue" } }));
  await pull.comment(`comparing ${many} deployments`);
  const [early] = await pull.comments();
  await expect
    .poll(() => host.statuses(pull.head), patience)
    .toEqual({ towline: `pending: comparing ${many} deployments` });
  await expect.poll(() => journal.runs().length, patience).toBe(atOnce);
  await release();
  const body = await pull.comment("took", 600_000);

  for (const name of names) expect(body).toContain(`${namespace}/${name}`);
  expect((await pull.comments()).map(({ id }) => id)).toEqual([early?.id]);
  const runs = journal.runs();
  // The merge, and what a deploy of the base would change: nothing of it has been deployed.
  expect(runs.map(({ command }) => command)).toEqual([...names, ...names].map(() => "diff"));
  const commits = Map.groupBy(runs, ({ commit }) => commit);
  expect([...commits.values()].map((of) => of.length)).toEqual([many, many]);
  expect(mostAtOnce(runs)).toBe(atOnce);
  // One before the merge, and one right before the comment is written.
  expect((await gitRuns(towline, "ls-remote")) - before).toBe(2);
  expect(await gitRuns(towline, "fetch")).toBe(1);

  await expect
    .poll(() => host.statuses(pull.head), patience)
    .toMatchObject({ towline: expect.stringMatching("success: ") });
  // Up to three writes, however many deployments there are: before their number is known, once it is known, and at the
  // end.
  const writes = await host.statusWrites(pull.head);
  expect(new Set(writes)).toEqual(new Set(["towline pending", "towline success"]));
  const asked = (what: RegExp) => proxy.requests.filter((request) => what.test(request)).length;
  expect(asked(/^POST .*statuses/)).toBeLessThanOrEqual(3);
  expect(asked(/^POST .*comments/)).toBe(1);
  expect(asked(/^PATCH .*comments/)).toBeLessThanOrEqual(2);
  // Without the lists of pull requests, which the sweep reads at times of its own.
  expect(asked(/^(?!GET .*\/pulls\?state=)/)).toBeLessThanOrEqual(14);
});
