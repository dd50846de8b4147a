import { expect, test, vi } from "vitest";
import { createIntake } from "../../../src/intake/intake.ts";
import { keyText, type ReconcileRequest } from "../../../src/model.ts";
import { repoId } from "../../../src/model/repo-url.ts";
import { giteaDelivery } from "../../support/deliveries.ts";
import { aDeployment } from "../../support/deployments.ts";
import { silentLog } from "../../support/fakes.ts";
import { done, useQueue } from "../../support/jobs.ts";
import { useWebhooks } from "../../support/webhooks.ts";
import { patience } from "../../support/patience.ts";

const url = "ssh://git@git.example.com:2222/Example/Shop";
const source = { url, ref: { branch: "main" }, path: "shop" };
const deployments = ["staging", "prod"].map((name) =>
  aDeployment({ key: { namespace: "shop", name }, spec: { source }, repo: repoId(url)! }),
);

async function useIntake() {
  const jobs = await useQueue();
  const accept = createIntake({
    tracking: (repo) => deployments.filter((deployment) => deployment.repo === repo),
    including: () => [],
    queue: jobs.queue,
    log: silentLog,
  });
  return { ...jobs, ...(await useWebhooks({ accept })) };
}

const push = giteaDelivery("push-update");

test("a delivery that was answered with 202 is in Redis, and its jobs run", async () => {
  const { deliver, work } = await useIntake();
  expect(await deliver("gitea", push)).toMatchObject({ status: 202, body: { matched: 2, queued: 2 } });
  const worked: ReconcileRequest[] = [];
  work((request) => {
    worked.push(request);
    return Promise.resolve(done);
  });
  await vi.waitFor(
    () => expect(worked.map(({ deployment }) => keyText(deployment)).sort()).toEqual(["shop/prod", "shop/staging"]),
    patience,
  );
  expect(worked[0]).toMatchObject({
    cause: "push",
    repo: "git.example.com/example/shop",
    receivedAt: expect.any(Number),
  });
});

test("a delivery that arrives a hundred times creates one job per deployment, and one more after that has run", async () => {
  const { deliver, work } = await useIntake();
  const answers = await Promise.all(Array.from({ length: 100 }, () => deliver("gitea", push)));
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]));
  expect(answers.reduce((sum, { body }) => sum + (body.queued ?? 0), 0)).toBe(2);
  const worked: string[] = [];
  work(({ deployment }) => {
    worked.push(deployment.name);
    return Promise.resolve(done);
  });
  await vi.waitFor(() => expect([...worked].sort()).toEqual(["prod", "staging"]), patience);
  await vi.waitFor(async () => {
    expect((await deliver("gitea", push)).status).toBe(202);
    expect(worked.filter((name) => name === "prod").length).toBeGreaterThan(1);
  }, patience);
});

test.each(["stopped", "frozen"] as const)(
  "while Redis is %s, the sender gets a 503 in time, and is served afterwards",
  async (how) => {
    const { deliver, redis } = await useIntake();
    expect((await deliver("gitea", push)).status).toBe(202);
    if (how === "frozen") redis.freeze();
    else await redis.stop();

    expect(await deliver("gitea", push)).toMatchObject({ status: 503, headers: { "retry-after": "5" } });
    // Deliveries that do not need Redis are still answered.
    expect((await deliver("gitea", giteaDelivery("issues-opened"))).status).toBe(202);

    if (how === "frozen") redis.thaw();
    else await redis.start();
    await vi.waitFor(async () => expect((await deliver("gitea", push)).status).toBe(202), patience);
  },
);
