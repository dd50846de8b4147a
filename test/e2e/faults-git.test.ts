/** Git hosts that are down, slow, or reject the login. */
import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { expect, onTestFinished, test, vi } from "vitest";
import { readiness, useFaultServer } from "../support/faults.ts";
import { patience } from "../support/patience.ts";
import { aProject, aSpec } from "../support/project.ts";
import { sendPush } from "../support/towline.ts";
import { useGitServer, useWorld } from "../support/world.ts";
import type { TestResource } from "../support/world-cluster.ts";

function says(words: RegExp) {
  return ({ status }: TestResource) => words.test(String(status?.["lastPrepareError"]));
}

test("a git host that is down or rejects the login is reported, and no restart is needed when it is back", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const git = await useGitServer();
  const [shop, other] = await Promise.all([git.repo("shop"), world.repo("other")]);
  const project = (name: string, color: string) => aProject({ namespace, name, data: { color } });
  await Promise.all([shop.push(project("shop", "red")), other.push(project("other", "red"))]);
  const server = await useFaultServer(world, world, "server");
  const deployments = [world.cluster.deployment("shop"), world.cluster.deployment("other")] as const;
  await deployments[0].create(aSpec(shop.url, { retryInterval: "5s" }));
  await deployments[1].create(aSpec(other.url));
  await Promise.all(deployments.map((one) => one.reaches("Ready")));

  const next = await shop.push(project("shop", "blue"));
  git.failWith(503);
  expect((await sendPush(server.webhooksUrl, { repo: shop.url, after: next })).status).toBe(202);
  await deployments[0].until("the host's status", says(/503/));
  const theirs = await other.push(project("other", "blue"));
  expect((await sendPush(server.webhooksUrl, { repo: other.url, after: theirs })).status).toBe(202);
  await deployments[1].settles(theirs);
  git.failWith(401);
  await deployments[0].until(
    "a word about the login",
    says(/authentication failed \(no login: no entry of spec.credentials.git matches\)/),
  );
  expect((await readiness(server)).status).toBe(200); // readiness does not depend on git hosts
  expect(await world.cluster.data("shop")).toEqual({ color: "red" });

  git.failWith(undefined);
  await deployments[0].settles(next);
  await deployments[0].reaches("Ready");
  expect(await world.cluster.data("shop")).toEqual({ color: "blue" });
});

test("a git host that accepts connections and never answers blocks its own deployments only", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const silent = await useSilentHost();
  const repo = await world.repo("shop");
  const push = (color: string) => repo.push(aProject({ namespace, data: { color } }));
  await push("red");
  const server = await useFaultServer(world, world, "server", {
    TOWLINE_GIT_TIMEOUT: "10s",
    TOWLINE_CONCURRENCY: "2",
  });
  const shop = world.cluster.deployment("shop");
  await shop.create(aSpec(repo.url));
  await shop.reaches("Ready");
  const stuck = [1, 2, 3, 4].map((i) => world.cluster.deployment(`stuck-${i}`));
  await Promise.all(stuck.map((one, i) => one.create(aSpec(`${silent.url}/repo-${i}.git`))));
  await vi.waitFor(() => expect(silent.open()).toBeGreaterThanOrEqual(2), patience); // all worker slots are taken

  await Promise.all(stuck.map((one) => one.until("a word about the silence", says(/does not respond in time/))));
  for (const color of ["green", "blue", "black"]) {
    const commit = await push(color);
    expect((await sendPush(server.webhooksUrl, { repo: repo.url, after: commit })).status).toBe(202);
    await shop.settles(commit);
    expect(await world.cluster.data("settings")).toEqual({ color });
  }
});

/** A host that accepts connections and sends nothing. */
async function useSilentHost(): Promise<{ url: string; open(): number }> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined).on("close", () => sockets.delete(socket));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, open: () => sockets.size };
}
