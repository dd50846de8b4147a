/** Previews and deliveries that the server keeps in Redis, shown in the terminal. */
import { pino } from "pino";
import { expect, test } from "vitest";
import { createDeliveries } from "../../../src/redis/deliveries.ts";
import { createReports } from "../../../src/redis/reports.ts";
import { createFairness } from "../../../jobs/fairness.ts";
import { createQueue } from "../../../jobs/queue.ts";
import type { PushEvent, RepoId } from "../../../src/model.ts";
import { towline } from "../../support/command-line.ts";
import { useFakeApiServer } from "../../support/fake-api-server.ts";
import { aPreview, aReport } from "../../support/fake-reports.ts";
import { uniquePrefix, useRedisServer } from "../../support/redis.ts";

/** A Redis and an API server, as the command line finds them. */
async function useServerData() {
  const [redis, api, prefix] = [useRedisServer(), await useFakeApiServer(), uniquePrefix()];
  await redis.start();
  const env = {
    TOWLINE_REDIS_URL: `unix://${redis.socket}`,
    TOWLINE_REDIS_PREFIX: prefix,
    TOWLINE_KUBERNETES_KUBECONFIG: api.kubeconfig,
    TOWLINE_GITEA_WEBHOOK_SECRET: "a-secret-of-sixteen-or-more",
  };
  return { redis, api, prefix, env };
}

test("previews and deliveries are shown as text and as JSON, and a message says if there are none", async () => {
  const { redis, api, prefix, env } = await useServerData();
  const get = (...argv: string[]) => towline(["get", ...argv], { env });
  api.add("prod");
  expect(await get("previews")).toMatchObject({ code: 0, out: "No open pull request has been previewed.\n" });
  expect((await get("deliveries")).out).toContain("No deliveries from gitea in the last 7 days.");

  const counts = { ...aPreview().counts, changed: 2 };
  const repo = "git.example.com/shop" as RepoId;
  await createReports({ connection: redis.producer(), prefix }).save(
    aReport({ repo, previews: [aPreview({ counts })] }),
  );
  const previews = (await get("previews", "-o", "wide")).out;
  expect(previews).toMatch(
    /gitea:org\/shop#7 +main +1111111 +done +\S+ +changes 1 deployment: 2 objects changed +shop\/prod\n/,
  );
  expect(JSON.parse((await get("previews", "-o", "json")).out)).toMatchObject([{ baseBranch: "main" }]);

  const deliveries = createDeliveries({ connection: redis.producer(), prefix, log: pino({ level: "silent" }) });
  const event = { kind: "irrelevant", forge: "gitea", delivery: "d", reason: "issues" } as const;
  const receipt = { delivery: "d", matched: 0, queued: 0, ignored: [], reason: "issues\u001b[31m are of no use" };
  deliveries.record({ forge: "gitea", at: Date.now(), ms: 1, status: 202, event, receipt });
  await deliveries.flush();
  const shown = await get("deliveries", "--limit", "1");
  expect(shown.out).toMatch(/gitea +202 +irrelevant +– +– +0 +0 +issues \[31m are of no use\n/);
  expect((await get("deliveries", "-o", "wide")).out).toMatch(/QUEUED +DELIVERY +WHY\n.* 0 +0 +d +issues/);

  // For a received delivery, the command explains which deployments it affects now.
  const push: PushEvent = {
    ...{
      kind: "push",
      forge: "gitea",
      delivery: "d2",
      repoUrls: ["https://git.example.com/shop"],
      repoName: "org/shop",
    },
    ...{
      ref: "refs/heads/main",
      change: "updated" as const,
      after: "a".repeat(40),
      changed: { complete: false, paths: [] },
    },
  };
  deliveries.record({ forge: "gitea", at: Date.now(), ms: 1, status: 202, event: push });
  await deliveries.flush();
  const explain = (id: string) => towline(["webhook", "explain", "--delivery", id], { env });
  expect(await explain("d2")).toMatchObject({
    code: 0,
    out: expect.stringMatching(/genuine +yes[^]*does not store paths[^]*shop\/prod/) as string,
  });
  expect(await explain("d9")).toMatchObject({
    code: 1,
    err: expect.stringContaining("delivery d9 is not stored") as string,
  });
  expect((await get("deliveries", "-o", "yaml")).out).toMatch(/^- v: 1\n/);
  expect((await get("deliveries", "-o", "json")).out).toMatch(/"at": "20\d\d-/);
});

test("a newer commit that waits in the queue is listed with its deployment", async () => {
  const { redis, api, prefix, env } = await useServerData();
  const get = async (...argv: string[]) => (await towline(["get", "deployments", ...argv], { env })).out;
  const [old, newer] = ["a".repeat(40), "b".repeat(40)];
  api.add("prod", { status: { observedCommit: old } });
  api.add("staging", { status: { observedCommit: old } });
  const idle = await get();
  expect(idle).toMatch(/prod +True +aaaaaaa +– +– +–\n/);

  const log = pino({ level: "silent" });
  const connection = redis.producer();
  const queue = createQueue({ connection, prefix, fairness: createFairness(), log });
  const key = { namespace: "shop", name: "prod" };
  await queue.enqueue([{ kind: "reconcile", deployment: key, cause: "push" }]);
  await queue.close();
  const deliveries = createDeliveries({ connection, prefix, log });
  const event: PushEvent = {
    ...{ kind: "push", forge: "gitea", delivery: "d", repoUrls: ["https://git.example.com/shop"], repoName: "shop" },
    ...{ ref: "refs/heads/main", change: "updated", after: newer, changed: { complete: false, paths: [] } },
  };
  const receipt = { delivery: "d", matched: 1, queued: 1, ignored: [], deployments: ["shop/prod"] };
  deliveries.record({ forge: "gitea", at: Date.now(), ms: 1, status: 202, event, receipt });
  await deliveries.flush();

  expect(await get()).toMatch(/prod +True +aaaaaaa +– +– +newer commit bbbbbbb waits: queued\n.*staging .* –\n$/);
  expect(await get("prod", "-o", "wide")).toMatch(
    /DEPLOYED +NEWER +NEXT CHECK.*\n.* prod +True +aaaaaaa +– +– +bbbbbbb /,
  );
  expect(JSON.parse(await get("prod", "-o", "json"))).toMatchObject([
    { commit: old, newer: { commit: newer, why: "queued" } },
  ]);

  // The list does not need Redis: it says what it lacks.
  await redis.stop();
  const without = await towline(["get", "deployments"], { env });
  expect([without.code, without.out]).toEqual([0, idle]);
  expect(without.err).toMatch(/^which newer commits are queued is not known: Redis did not find the jobs/);
});
