/** What each of the two ports serves, and slow senders. */
import { once } from "node:events";
import { connect } from "node:net";
import { expect, onTestFinished, test, vi } from "vitest";
import { readiness, useFaultServer } from "../support/faults.ts";
import { patience } from "../support/patience.ts";
import { aProject, aSpec } from "../support/project.ts";
import { sendPush } from "../support/towline.ts";
import { useWorld } from "../support/world.ts";

test("the webhook port serves nothing else, and the admin port accepts no webhooks", async () => {
  const world = await useWorld();
  const server = await useFaultServer(world, world, "server");
  const webhooks = new URL(server.webhooksUrl).origin;
  const status = async (url: string, init?: RequestInit) => (await fetch(url, init)).status;

  for (const path of ["/metrics", "/readyz", "/livez", "/healthz", "/version", "/", "/webhooks", "/webhooks/other"])
    expect([path, await status(webhooks + path)]).toEqual([path, 404]);
  expect(await status(server.webhooksUrl)).toBe(405);
  for (const path of ["/metrics", "/readyz", "/livez", "/version"])
    expect([path, await status(server.adminUrl + path)]).not.toEqual([path, 404]);
  expect(
    (await sendPush(`${server.adminUrl}/webhooks/gitea`, { repo: "https://a/b", after: "2".repeat(40) })).status,
  ).toBe(404);
});

test("hundreds of slow senders do not block deliveries, and are disconnected", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const repo = await world.repo("shop");
  await repo.push(aProject({ namespace }));
  const server = await useFaultServer(world, world, "server");
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));
  await deployment.reaches("Ready");

  const { hostname, port } = new URL(server.webhooksUrl);
  let open = 0;
  const slow = Array.from({ length: 300 }, (_, i) => {
    const socket = connect(Number(port), hostname);
    socket.on("error", () => undefined).resume();
    socket.on("connect", () => open++);
    socket.on("close", () => open--);
    const head = "POST /webhooks/gitea HTTP/1.1\r\nHost: towline\r\n";
    // Half of them never finish their headers, the others announce a body that never comes.
    socket.write(i % 2 === 0 ? head : `${head}Content-Length: 1000000\r\n\r\n{`);
    return socket;
  });
  onTestFinished(() => slow.forEach((socket) => socket.destroy()));
  await vi.waitFor(() => expect(open).toBe(300), patience);

  const next = await repo.push(aProject({ namespace, data: { color: "blue" } }));
  expect((await sendPush(server.webhooksUrl, { repo: repo.url, after: next })).status).toBe(202);
  await deployment.settles(next);
  expect((await readiness(server)).status).toBe(200);
  await vi.waitFor(() => expect(open).toBeLessThanOrEqual(150), patience); // those without complete headers, after 10 to 15 s

  // The others do not delay its shutdown either.
  server.child.kill("SIGTERM");
  expect(await server.ended).toBe(0);
  await Promise.all(slow.filter(({ closed }) => !closed).map((socket) => once(socket, "close")));
});
