/** Notifications about real deploys, sent by two real servers to a receiver that checks their signature. */
import { createServer, type Server } from "node:http";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { Webhook } from "standardwebhooks";
import { expect, onTestFinished, test, vi } from "vitest";
import { stringify } from "yaml";
import { towline } from "../support/command-line.ts";
import { patience } from "../support/patience.ts";
import { aProject, aSpec } from "../support/project.ts";
import { readyOf } from "../support/world-cluster.ts";
import { useRedisServer } from "../support/redis.ts";
import { environment, sendPush, useTowlineProcess } from "../support/towline.ts";
import { uniqueName, useWorld } from "../support/world.ts";

interface Received {
  readonly type: string;
  readonly data: {
    readonly title: string;
    readonly facts: readonly { readonly label: string; readonly value: string }[];
    readonly lines: readonly { readonly name: string; readonly text: string }[];
  };
}

const key = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;

async function useReceiver() {
  const received: Received[] = [];
  const state = { down: false, refusals: 0 };
  const server: Server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      if (state.down) {
        state.refusals += 1;
        response.writeHead(503, { "retry-after": "1" }).end();
        return;
      }
      const body = Buffer.concat(chunks).toString("utf8");
      received.push(new Webhook(key).verify(body, request.headers as Record<string, string>) as Received);
      response.writeHead(204).end();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/hooks/d4c3b2a1d4c3b2a1`, received, state };
}

test("a push is one message, whichever server sends it, and a receiver that is down hears the present later", async () => {
  const world = await useWorld();
  const redis = useRedisServer();
  await redis.start();
  const { cluster } = world;
  const { namespace } = cluster;
  const { url, received, state } = await useReceiver();
  const config = join(world.dir, "notifications.yaml");
  const target = { id: uniqueName("chat"), kind: "webhook", url, signingKeys: [key] };
  await writeFile(config, stringify({ notifications: { targets: [target] } }));
  const settings = {
    TOWLINE_CONFIG: config,
    TOWLINE_CONTROLLER_NAMESPACE: namespace,
    TOWLINE_CLUSTER_NAME: "test",
    TOWLINE_REDIS_URL: `unix://${redis.socket}`,
  };
  const start = () => useTowlineProcess(world, settings);
  const titles = () => received.map(({ data }) => data.title);

  const repo = await world.repo("shop");
  const project = (color: string) => aProject({ namespace, name: "{{ args.name }}", data: { color } });
  await repo.push(project("red"));
  const names = ["dev", "prod", "test"];
  const deployments = names.map((name) => cluster.deployment(name));
  const [first, second] = await Promise.all([start(), start()]);
  const [{ name: recordName }] = await vi.waitFor(async () => {
    const { items } = await cluster.core.listNamespacedConfigMap({ namespace });
    const records = items.filter(({ metadata }) => metadata?.labels?.["towline.dev/notifications"]);
    expect(records).toHaveLength(1);
    return records.map(({ metadata }) => ({ name: metadata?.name ?? "" })) as [{ name: string }];
  }, patience);
  await Promise.all(
    deployments.map((one, index) => one.create(aSpec(repo.url, { args: { name: names[index] }, retryInterval: "2s" }))),
  );
  await Promise.all(deployments.map((one) => one.reaches("Ready")));
  await vi.waitFor(() => expect(received).toHaveLength(1), patience);
  received.length = 0;

  const pushed = await repo.push(project("blue"), { message: "Paint it blue" });
  await Promise.all([first, second].map((one) => sendPush(one.webhooksUrl, { repo: repo.url, after: pushed })));
  await Promise.all(deployments.map((one) => one.settles(pushed)));
  await vi.waitFor(() => expect(received).not.toEqual([]), patience);
  expect(received).toMatchObject([
    {
      type: "towline.deploy.succeeded",
      data: {
        title: `shop: deployed ${pushed.slice(0, 7)} to 3 deployments`,
        facts: [{ label: "Commit", value: `${pushed.slice(0, 7)} Paint it blue` }, { label: "Author" }],
        lines: names.map((name) => ({ name: `${namespace}/${name}`, text: "1 changed" })),
      },
    },
  ]);

  // Redis forgets everything, one server is killed and another one starts: nothing is sent again.
  await redis.client().flushall();
  first.child.kill("SIGKILL");
  const third = await start();
  state.down = true;
  const broken = await repo.push({ "app/settings.yml": "kind: ConfigMap\n" }, { message: "Break it" });
  await sendPush(third.webhooksUrl, { repo: repo.url, after: broken });
  const settled = await Promise.all(deployments.map((one) => one.settles(broken)));
  expect(settled.map((one) => readyOf(one)?.status)).toEqual(["False", "False", "False"]);
  await vi.waitFor(() => expect(state.refusals).toBeGreaterThan(0), patience);
  const record = await vi.waitFor(async () => {
    const found = await cluster.core.readNamespacedConfigMap({ namespace, name: recordName });
    expect(found.data?.["record"]).toContain("response status 503");
    return JSON.stringify(found);
  }, patience);
  expect(record).not.toContain("d4c3b2a1");

  const env = { ...environment(world, settings), TOWLINE_REDIS_URL: `unix://${redis.socket}` };
  const ask = (...argv: string[]) => towline(argv, { env });
  expect((await ask("get", "notifications")).out).toMatch(
    new RegExp(`^${target.id} +webhook +\\d+[smh] ago: shop: deployed .+ 0 +127.0.0.1:\\d+: response status 503$`, "m"),
  );
  await cluster.deployment("dev").patch({ metadata: { annotations: { "towline.dev/notify": "none" } } });
  const explained = await ask("notify", "explain", "-n", namespace);
  expect(explained).toMatchObject({ code: 0, err: "" });
  expect(explained.out.split("\n").slice(1, -1)).toEqual(
    ["prod", "test"].map(
      (name) =>
        expect.stringMatching(
          `^${namespace}/${name} +${target.id} +- +all but started +no route names the target$`,
        ) as string,
    ),
  );

  const fixed = await repo.push(project("green"), { message: "Mend it" });
  await sendPush(third.webhooksUrl, { repo: repo.url, after: fixed });
  await Promise.all(deployments.map((one) => one.settles(fixed)));
  state.down = false;
  await vi.waitFor(() => expect(received).toHaveLength(2), patience);
  expect(titles()[1]).toBe(`shop: deployed ${fixed.slice(0, 7)} to 2 deployments`);
  expect(JSON.stringify([...second.lines, ...third.lines])).not.toContain("d4c3b2a1");
});
