/** A configuration that changes while the server runs: real files, changed like Kubernetes changes a mounted volume. */
import { join } from "node:path";
import { Redis } from "ioredis";
import { expect, test, vi } from "vitest";
import { freePort } from "../../dev/parts/port.ts";
import { mountSecret } from "../support/mounted-secret.ts";
import { patience } from "../support/patience.ts";
import { aProject, aSpec } from "../support/project.ts";
import { useRedisServer } from "../support/redis.ts";
import { sendPush, useTowline } from "../support/towline.ts";
import { useWorld } from "../support/world.ts";

const [oldToken, newToken] = ["the-first-token-of-the-page", "the-second-token-of-the-page"];

function aConfiguration({ page = oldToken, more = "" }) {
  return `
${more}
page: { host: 127.0.0.1, port: 0, token: ${page} }
redis: { passwordFile: PASSWORD_FILE }
`;
}

test("changed secrets and limits take effect without a restart, and an invalid change has no effect at all", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const redis = useRedisServer({ password: "the-first-password", args: ["--port", String(await freePort())] });
  await redis.start();
  const admin = redis.client();
  const [, port] = (await admin.config("GET", "port")) as string[];

  const dir = join(world.dir, "volume");
  const files = { "towline.yaml": "", password: "the-first-password\n" };
  const withConfiguration = (yaml: string) =>
    Object.assign(files, { "towline.yaml": yaml.replace("PASSWORD_FILE", join(dir, "password")) });
  const volume = await mountSecret(dir, withConfiguration(aConfiguration({})));
  const change = (yaml: string) => volume.put(withConfiguration(yaml));
  const server = await useTowline(world, {
    TOWLINE_CONFIG: volume.path("towline.yaml"),
    TOWLINE_REDIS_URL: `redis://127.0.0.1:${port}`,
    TOWLINE_CONTROLLER_NAMESPACE: namespace,
  });
  const repo = await world.repo("shop");
  await repo.push(aProject({ namespace, data: { color: "red" } }));
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));
  await deployment.reaches("Ready");

  const seePage = async (token: string) => {
    const headers = { Authorization: `Bearer ${token}` };
    return (await fetch(`${server.pageUrl}/api/deployments`, { headers })).status;
  };
  const sendTo = async (forge: string) =>
    (await fetch(server.webhooksUrl.replace("gitea", forge), { method: "POST", body: "{}" })).status;
  const metric = async (name: string) => {
    const text = await (await fetch(`${server.adminUrl}/metrics`)).text();
    return Number(new RegExp(`^${name}(?:{[^}]*})? (\\S+)$`, "m").exec(text)?.[1]);
  };
  const events = async () => {
    const { items } = await world.cluster.core.listNamespacedEvent({ namespace });
    return items.filter(({ involvedObject }) => involvedObject.kind === "Lease").map(({ reason }) => reason);
  };
  expect([await seePage(oldToken), await sendTo("work")]).toEqual([200, 404]);

  const looking = await fetch(`${server.pageUrl}/api/events`, { headers: { Authorization: `Bearer ${oldToken}` } });
  expect(looking.status).toBe(200);

  // Another token and another limit; an additional forge, a limit of an open port and a lease duration need a restart.
  const good = aConfiguration({
    page: newToken,
    more: `
forges: [{ id: work, kind: gitlab, webhookSecrets: [another-secret-for-tests] }]
concurrency: 5
webhooks: { maxBody: 1KiB }
lease: { duration: 30s }`,
  });
  await change(good);
  await vi.waitFor(async () => expect(await seePage(newToken)).toBe(200), patience);
  expect(await seePage(oldToken)).toBe(401);
  expect(await looking.text(), "who looks with the old one looks no longer").toContain("event: open");
  expect(await metric("controller_runtime_max_concurrent_reconciles")).toBe(5);
  await vi.waitFor(async () => expect(await metric("towline_config_restart_needed")).toBe(1), patience);
  const large = await fetch(server.webhooksUrl, { method: "POST", body: "x".repeat(2_000) });
  expect([large.status, await sendTo("work")]).toEqual([401, 404]);
  expect(server.lines.flatMap(({ msg, keys }) => (String(msg).startsWith("restart needed") ? keys : []))).toEqual(
    expect.arrayContaining(["forges.work", "webhooks.maxBody", "lease.duration"]),
  );

  // One key of the change is wrong, so the others have no effect either.
  await change(good.replace("concurrency: 5", "concurrency: 6\nconcurency: 7"));
  await vi.waitFor(async () => expect(await metric("towline_config_reload_success")).toBe(0), patience);
  expect(await metric("controller_runtime_max_concurrent_reconciles")).toBe(5);
  expect(await seePage(newToken)).toBe(200);
  await change(good);
  await vi.waitFor(async () => expect(await metric("towline_config_reload_success")).toBe(1), patience);
  await vi.waitFor(
    async () =>
      expect(await events()).toEqual(expect.arrayContaining(["ConfigReloaded", "ConfigNotReloaded", "RestartNeeded"])),
    patience,
  );

  // Redis changes its password and closes all connections before the file changes.
  await admin.config("SET", "requirepass", "the-second-password");
  admin.disconnect();
  const fresh = new Redis({ path: redis.socket, password: "the-second-password" });
  await fresh.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
  fresh.disconnect();
  await vi.waitFor(
    () =>
      expect(server.lines.map(({ error }) => error)).toContainEqual(expect.stringContaining("rejected the password")),
    patience,
  );
  files.password = "the-second-password\n";
  await volume.put(files);
  const second = await repo.push(aProject({ namespace, data: { color: "blue" } }));
  await vi.waitFor(
    async () => expect((await sendPush(server.webhooksUrl, { repo: repo.url, after: second })).status).toBe(202),
    patience,
  );
  await vi.waitFor(async () => expect(await world.cluster.data("settings")).toMatchObject({ color: "blue" }), patience);
  expect(JSON.stringify(server.lines)).not.toMatch(/the-(?:first|second)-/);
});
