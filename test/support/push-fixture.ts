/**
 * One push in one process, recorded: `node push-fixture.ts <directory> <Redis URL>`. Prints the files whose functions ran
 * from the delivery until the status was written, as JSON. The route, GitHub's parser, intake, queue, worker,
 * reconciliation and what runs kluctl are the real ones; git, the cluster and kluctl itself are stand-ins.
 */
import { once } from "node:events";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { argv } from "node:process";
import { setTimeout } from "node:timers/promises";
import { startRecording } from "../../dev/spine/coverage.ts";
import { createFairness } from "../../jobs/fairness.ts";
import { createQueue } from "../../jobs/queue.ts";
import { startWorker } from "../../jobs/worker.ts";
import { createWebhookApp } from "../../routes/webhooks.ts";
import { createWebhookSource } from "../../src/forge/create-webhook-source.ts";
import { createIntake } from "../../src/intake/intake.ts";
import { aroundEach } from "../../src/kit/around.ts";
import { monotonicNow } from "../../src/kit/monotonic.ts";
import { type GitDeployment, type Held, keyText, type Outcome } from "../../src/model.ts";
import { repoId } from "../../src/model/repo-url.ts";
import { parts } from "../../src/reconcile/parts.ts";
import { createReconcile } from "../../src/reconcile/reconcile.ts";
import { connectProducer, connectWorker } from "../../src/redis/connection.ts";
import { githubDelivery, githubPayload, githubSecret } from "./deliveries.ts";
import { aDeployment } from "./deployments.ts";
import { createFakeKluctl, newKluctl } from "./fake-kluctl.ts";
import {
  fakeDeployments,
  fakeObjects,
  fakeReadIdentity,
  fakeResults,
  fakeSecrets,
  fakeSources,
  silentLog,
} from "./fakes.ts";
import { upToDate } from "./reconciling.ts";

/** Renders one object that the last deploy did not have. */
const kluctlScript = `cat > $out <<END
id: from-kluctl
target: {name: prod, discriminator: shop-prod}
clusterInfo: {clusterId: cluster-1}
command: {startTime: "2026-01-01T00:00:00Z", endTime: "2026-01-01T00:00:01Z"}
deployment: {deployments: [{renderedObjects: [{version: v1, kind: ConfigMap, name: settings, namespace: shop}]}]}
compactedObjects:
- ref: {version: v1, kind: ConfigMap, name: settings, namespace: shop}
  new: true
  rendered: 'full: {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings","namespace":"shop"}}'
END`;

const [dir = "", redisUrl = ""] = argv.slice(2);
const root = join(import.meta.dirname, "../..");
const recording = startRecording(root, ["src", "routes", "jobs"]);

// The first push also opens connections and asks kluctl for its version: the second is the one to record.
const [earlier, recorded] = [follower("earlier"), follower("recorded")];
const fake = fakeDeployments(earlier, recorded);
const deployments = marking(fake, ["get", "whenSynced", "patchStatus", "setFinalizer"]);
const kluctl = newKluctl(dir, { binary: await createFakeKluctl(dir, kluctlScript), workDir: join(dir, "work") });
const address = { url: redisUrl };
const producer = connectProducer(address, silentLog);
const consumer = connectWorker(address, silentLog);
const [prefix, fairness, log] = ["spine", createFairness(), silentLog];
const queue = createQueue({ connection: producer, prefix, fairness, log });
const clock = { now: () => Date.now() };
const reconcile = createReconcile({
  deployments,
  secrets: marking(fakeSecrets(), ["get"]),
  sources: marking(fakeSources({ "refs/heads/master": "c2" }), ["heads", "checkout"]),
  kluctl: marking(kluctl, ["diff", "deploy"]),
  objects: fakeObjects(),
  leases: marking({ hold: () => Promise.resolve(lease()) }, ["hold"]),
  results: marking(fakeResults(), ["storeCommand"]),
  clusterId: () => Promise.resolve("cluster-1"),
  readIdentity: fakeReadIdentity(),
  settings: { dryRun: false },
  parts: marking(parts, ["findFulfilled", "runLoop", "bringUpToDate", "settleProject", "comparesFirst"]),
  lastMove: (repo) => queue.lastMove(repo),
  markMoved: (repo) => queue.markMoved(repo),
  enqueue: (requests) => queue.enqueue(requests),
  newId: () => crypto.randomUUID(),
  clock,
  log,
});
const ended = new Map<string, (outcome: Outcome | "busy") => void>();
const worker = startWorker({
  ...{ lane: "reconcile", connection: consumer, prefix, concurrency: 1, fairness, log },
  timing: { ageEveryMs: 3_600_000 }, // its timer is no part of the push
  async work(request, attempt) {
    recording.mark();
    const outcome = await reconcile(request, attempt);
    recording.mark();
    ended.get(request.deployment.name)?.(outcome);
    return outcome;
  },
});
const accept = createIntake({ ...deployments, queue: marking(queue, ["enqueue"]), clock, log });
const source = createWebhookSource({ id: "github", kind: "github", secrets: [githubSecret], allowUnsigned: false });
const server = http.createServer(
  createWebhookApp({ sources: new Map([["github", source]]), accept, maxBodyBytes: 1_000_000, log }),
);
await once(server.listen(0, "127.0.0.1"), "listening");

await push("earlier");
while (worker.running() > 0) await setTimeout(10);
fake.objects.delete(keyText(earlier.key)); // both have the same discriminator
recording.restart();
await push("recorded");
process.stdout.write(JSON.stringify(recording.end()));

server.close();
await worker.stop(0);
await queue.close();
await kluctl.stop();
producer.disconnect();
consumer.disconnect();

/** Resolves once the status is written. */
async function push(name: string): Promise<void> {
  const reconciled = new Promise<Outcome | "busy">((resolve) => ended.set(name, resolve));
  const { repository } = githubPayload() as { repository: object };
  const { rawHeaders, body } = githubDelivery("push", {
    ...githubPayload(),
    ...{ ref: "refs/heads/master", created: false, after: "c2".repeat(20) },
    repository: { ...repository, clone_url: urlOf(name), ssh_url: null, git_url: null, html_url: urlOf(name) },
  });
  const headers = Object.fromEntries(rawHeaders.flatMap((one, i) => (i % 2 ? [] : [[one, rawHeaders[i + 1] ?? ""]])));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/webhooks/github`;
  const answer = await fetch(url, { method: "POST", headers, body });
  const text = await answer.text();
  if (answer.status !== 202) throw new Error(`the push was answered with ${answer.status}: ${text}`);
  const outcome = await reconciled;
  if (outcome === "busy" || outcome.kind !== "done" || !outcome.deployed) {
    throw new Error(`the push did not lead to a deploy: ${JSON.stringify(outcome)}`);
  }
}

function follower(name: string): GitDeployment {
  const key = { namespace: "shop", name };
  const url = urlOf(name);
  const repo = repoId(url);
  if (repo === undefined) throw new Error(`${url} is no repository`);
  return aDeployment({ key, uid: name, repo, spec: { source: { url, ref: {}, path: "" } }, status: upToDate });
}

function urlOf(name: string): string {
  return `https://git.example.com/org/${name}.git`;
}

function lease(): Held {
  return {
    lost: new AbortController().signal,
    onRenewed(callback) {
      callback(monotonicNow());
      return () => undefined;
    },
    untouchedSince: monotonicNow(),
    release: () => Promise.resolve(),
  };
}

/** Marks before and after each call of these methods, so that the order of the files is known. */
function marking<Port extends object>(port: Port, methods: readonly (keyof Port & string)[]): Port {
  return aroundEach(port, methods as readonly never[], async (next) => {
    recording.mark();
    try {
      return await next();
    } finally {
      recording.mark();
    }
  });
}
