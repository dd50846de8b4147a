import { createHmac } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { V1Deployment } from "@kubernetes/client-node";
import { expect, onTestFinished, test } from "vitest";
import { useCluster, useGitea } from "../../support/world.ts";
import { patience } from "../../support/patience.ts";

test("pods of a Deployment reach the phase Running", async () => {
  const cluster = await useCluster();
  const labels = { app: "web" };
  await cluster.create<V1Deployment>({
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "web" },
    spec: {
      replicas: 2,
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers: [{ name: "web", image: "example.com/web:1" }] } },
    },
  });

  await expect
    .poll(
      async () => (await cluster.find<V1Deployment>("apps/v1", "Deployment", "web"))?.status?.readyReplicas,
      patience,
    )
    .toBe(2);
});

test("a push to the git host arrives as a signed webhook delivery", async () => {
  const forge = await useGitea();
  const received: { event: string | undefined; signature: string | undefined; body: string }[] = [];
  const listener = createServer((req, res) => {
    let body = "";
    req.on("data", (chunk: Buffer) => (body += chunk.toString()));
    req.on("end", () => {
      const [event, signature] = [req.headers["x-gitea-event"], req.headers["x-gitea-signature"]];
      received.push({ event: event?.toString(), signature: signature?.toString(), body });
      res.end();
    });
  });
  listener.listen(0, "127.0.0.1");
  await once(listener, "listening");
  onTestFinished(() => void listener.close());
  const repo = await forge.repo("shop");
  const url = `http://127.0.0.1:${(listener.address() as AddressInfo).port}/webhooks/gitea`;
  await forge.registerWebhook(repo, { url, secret: "a secret of this test", events: ["push"] });

  const commit = await repo.push({ "web/deployment.yaml": "replicas: 2\n" });

  await expect.poll(() => received.length, patience).toBe(1);
  const [delivery] = received;
  expect(delivery?.event).toBe("push");
  expect(JSON.parse(delivery?.body ?? "")).toMatchObject({ ref: "refs/heads/main", after: commit });
  const signature = createHmac("sha256", "a secret of this test")
    .update(delivery?.body ?? "")
    .digest("hex");
  expect(delivery?.signature).toBe(signature);
});
