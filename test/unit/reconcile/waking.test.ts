import { expect, onTestFinished, test, vi } from "vitest";
import { QueueUnavailableError } from "../../../src/errors.ts";
import { annotation, type Deployment, type RepoId, type Request } from "../../../src/model.ts";
import { startWaking, type WakingDeps } from "../../../src/reconcile/waking.ts";
import { aDeployment } from "../../support/deployments.ts";
import { silentLog } from "../../support/fakes.ts";

function aQueue(failing = false) {
  const moved: RepoId[] = [];
  const requests: Request[] = [];
  const redis = { failing, refused: 0 };
  const queue: WakingDeps["queue"] = {
    markMoved: (repo) => Promise.resolve(void moved.push(repo)),
    enqueue(some) {
      if (redis.failing) redis.refused++;
      if (redis.failing) return Promise.reject(new QueueUnavailableError("down"));
      requests.push(...some);
      return Promise.resolve({ queued: some.length });
    },
  };
  return { queue, moved, requests, redis };
}

function watching(queue: WakingDeps["queue"], left: Deployment[] = []) {
  let emit: Parameters<WakingDeps["deployments"]["onChange"]>[0] = () => undefined;
  const onChange: WakingDeps["deployments"]["onChange"] = (callback) => void (emit = callback);
  startWaking({ deployments: { onChange, all: () => left }, queue, log: silentLog });
  return (deployment: Deployment, kind: "added" | "removed" = "added", previous?: Deployment) =>
    emit(previous === undefined ? { kind, deployment } : { kind: "changed", deployment, previous });
}

test("resources that are added together mark their repository as moved once", async () => {
  const { queue, moved, requests } = aQueue();
  const added = watching(queue);
  for (let i = 0; i < 200; i++) added(aDeployment({ key: { namespace: "shop", name: `d${i}` } }));
  await vi.waitFor(() => expect(requests).toHaveLength(200));
  expect(moved).toHaveLength(1);
  expect(requests[0]).toMatchObject({ cause: "change", deployment: { name: "d0" } });
});

test("an unavailable Redis only causes a delay", async () => {
  const { queue, moved } = aQueue(true);
  watching(queue)(aDeployment());
  await vi.waitFor(() => expect(moved).toHaveLength(1));
});

test("deployments that shared the discriminator of a deleted one are reconciled", async () => {
  const targetKey = { clusterId: "cluster-1", discriminator: "shop" };
  const [gone, other] = ["gone", "other"].map((name) =>
    aDeployment({ key: { namespace: "shop", name }, status: { targetKey: { ...targetKey, targetName: name } } }),
  );
  const stranger = aDeployment({ status: { targetKey: { ...targetKey, discriminator: "else" } } });
  const { queue, requests } = aQueue();
  watching(queue, [other!, stranger])(gone!, "removed");
  await vi.waitFor(() => expect(requests).toMatchObject([{ deployment: other!.key, cause: "drift" }]));
});

test("requests that Redis did not accept are repeated, because no sweep would find all of them", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const targetKey = { clusterId: "cluster-1", discriminator: "shop" };
  const [gone, other] = ["gone", "other"].map((name) =>
    aDeployment({ key: { namespace: "shop", name }, status: { targetKey } }),
  );
  const checked = aDeployment({ key: { namespace: "shop", name: "checked" }, status: { observedGeneration: 1 } });
  const { queue, requests, redis } = aQueue(true);
  const watched = watching(queue, [other!]);
  watched(gone!, "removed");
  watched({ ...checked, annotations: { [annotation.healthChecks]: "[]" } }, "added", checked);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(redis.refused).toBe(1);
  redis.failing = false;
  await vi.advanceTimersByTimeAsync(10_000);
  expect(requests).toMatchObject([
    { deployment: other!.key, cause: "drift" },
    { deployment: checked.key, cause: "change" },
  ]);
});

test("what is requested while the server stops is queued before it ends, and nothing afterwards", async () => {
  const { queue, requests } = aQueue();
  let emit: Parameters<WakingDeps["deployments"]["onChange"]>[0] = () => undefined;
  const onChange: WakingDeps["deployments"]["onChange"] = (callback) => void (emit = callback);
  const stop = startWaking({ deployments: { onChange, all: () => [] }, queue, log: silentLog });
  emit({ kind: "added", deployment: aDeployment({ key: { namespace: "shop", name: "a" } }) });
  await stop();
  emit({ kind: "added", deployment: aDeployment({ key: { namespace: "shop", name: "b" } }) });
  await stop();
  expect(requests).toMatchObject([{ deployment: { name: "a" } }]);
});

test("a request that was refused does not replace a newer one of the same deployment", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const [before, now] = ["git.example.com/old", "git.example.com/new"] as const;
  const { queue, moved, requests, redis } = aQueue(true);
  const { promise: answer, reject } = Promise.withResolvers<{ queued: number }>();
  const { enqueue } = queue;
  queue.enqueue = () => answer;
  const watched = watching(queue);
  watched(aDeployment({ repo: before as RepoId }));
  await vi.advanceTimersByTimeAsync(1_000);
  watched(aDeployment({ repo: now as RepoId }));
  reject(new QueueUnavailableError("down"));
  queue.enqueue = enqueue;
  redis.failing = false;
  await vi.advanceTimersByTimeAsync(10_000);
  expect(requests).toMatchObject([{ repo: now }]);
  expect(moved.at(-1)).toEqual(now);
});
