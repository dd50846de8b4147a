import { expect, onTestFinished, test, vi } from "vitest";
import { startSweep } from "../../../jobs/sweeps/sweep.ts";
import { createRetries } from "../../../src/reconcile/retries.ts";
import { aDeployment, aSpec, aStatus } from "../../support/deployments.ts";
import { silentLog } from "../../support/fakes.ts";
import { done, useQueue } from "../../support/jobs.ts";
import { patience } from "../../support/patience.ts";

test("whenever Redis loses its data, the sweep queues the lost work again", async () => {
  const { queue, work, redis } = await useQueue();
  const recorded = new Map<string, string>();
  let head = "c1";
  const names = ["a", "b", "c", "d"];
  const sweep = startSweep({
    deployments: {
      all: () =>
        names.map((name) =>
          aDeployment({
            key: { namespace: "apps", name },
            spec: aSpec(),
            status: aStatus({ observedGeneration: 1, observedCommit: recorded.get(name) ?? "c0" }),
          }),
        ),
    },
    heads: async () => ({ commits: new Map([["refs/heads/main", head]]) }),
    groupKey: ({ repo }) => repo,
    tag: () => Promise.resolve({ digest: undefined, checkedOut: undefined }),
    tagKey: ({ source }) => source.url,
    dueAt: () => Infinity,
    retries: createRetries({ now: () => Date.now() }),
    queue,
    everyMs: () => 400,
    tickMs: 20,
    clock: { now: () => Date.now() },
    log: silentLog,
  });
  onTestFinished(() => sweep.stop());
  work(async ({ deployment, repo }) => {
    await queue.lastMove(repo!);
    recorded.set(deployment.name, head);
    return done;
  });
  await vi.waitFor(() => expect([...recorded.values()]).toEqual(["c1", "c1", "c1", "c1"]), patience);

  const client = redis.client();
  for (const next of ["c2", "c3"]) {
    head = next;
    await vi.waitFor(async () => {
      await client.flushall();
      expect([...recorded.values()]).toContain(next);
    }, patience);
    await vi.waitFor(() => expect(new Set(recorded.values())).toEqual(new Set([next])), patience);
  }
});
