/** A deployment is Ready once what it deployed is healthy, and a fix does not wait for what it fixes. */
import { expect, test } from "vitest";
import { annotation } from "../../src/model.ts";
import { createAccount } from "../support/accounts.ts";
import { patience } from "../support/patience.ts";
import { aProject, aSpec } from "../support/project.ts";
import { sendPush, useTowline } from "../support/towline.ts";
import { readyOf, type TestResource } from "../support/world-cluster.ts";
import { useWorld } from "../support/world.ts";

test("a deployment waits until its objects are healthy, a newer commit ends the wait, and a failed object is named", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  await createAccount(cluster, "limited");
  const repo = await world.repo("shop");
  const push = (color: string) => repo.push(aProject({ namespace, data: { color } }));
  const first = await push("amber");
  const server = await useTowline(world);
  const deployment = cluster.deployment("shop");
  const colors = { current: "data.color == 'green'", failed: "has(data.color) && data.color == 'red'" };
  const checks = [
    { apiVersion: "v1", kind: "ConfigMap", name: "settings", ...colors },
    { apiVersion: "v1", kind: "ConfigMap" },
  ];
  await deployment.create(aSpec(repo.url, { serviceAccountName: "limited" }), {
    [annotation.healthChecks]: JSON.stringify(checks),
    [annotation.healthTimeout]: "1h",
  });

  const isAwaited = (resource: TestResource) => readyOf(resource).reason === "HealthCheckPending";
  const awaiting = await deployment.until("the wait", isAwaited);
  expect(readyOf(awaiting)).toMatchObject({
    status: "Unknown",
    message: expect.stringContaining(`Waiting until ConfigMap ${namespace}/settings is healthy.`) as unknown,
  });
  expect(await cluster.data("settings")).toEqual({ color: "amber" });

  const second = await push("green");
  await sendPush(server.webhooksUrl, { repo: repo.url, after: second });
  const healthy = await deployment.settles(second);
  expect(readyOf(healthy)).toMatchObject({ status: "True" });
  expect(server.lines.filter(({ audit, action }) => audit === true && action === "health-check")).toMatchObject([
    { namespace, name: "shop", commit: first, result: "superseded", why: `superseded by ${second}`, cause: "push" },
  ]);

  const third = await push("red");
  await sendPush(server.webhooksUrl, { repo: repo.url, after: third });
  const failed = await deployment.until("the failure", (resource) => readyOf(resource).reason === "HealthCheckFailed");
  expect(failed.status?.["observedCommit"]).toBe(third);
  expect(readyOf(failed).message).toContain(`ConfigMap ${namespace}/settings (\`failed\` is true)`);

  // The account may not read these, although the server may.
  const foreign = [{ apiVersion: "v1", kind: "Secret", name: "login", current: "has(data.token)" }];
  await deployment.patch({ metadata: { annotations: { [annotation.healthChecks]: JSON.stringify(foreign) } } });
  const refused = await deployment.until("the refusal", (resource) =>
    String(readyOf(resource).message).includes(`system:serviceaccount:${namespace}:limited`),
  );
  expect(readyOf(refused)).toMatchObject({ status: "False", reason: "HealthCheckFailed" });

  await deployment.patch({ metadata: { annotations: { [annotation.healthChecks]: "- kind: ConfigMap" } } });
  const invalid = await deployment.until("the report", (one) => readyOf(one).reason === "HealthCheckInvalid");
  expect(readyOf(invalid).message).toContain("entry 1 (ConfigMap): apiVersion is missing");
  await expect
    .poll(async () => (await deployment.events()).map(({ reason }) => reason), patience)
    .toEqual(expect.arrayContaining(["HealthCheckFailed", "HealthCheckInvalid"]));
});
