/** Rotates the password of a real Redis; all connections are cut at each rotation. */
import { Redis } from "ioredis";
import { expect, onTestFinished, test, vi } from "vitest";
import { freePort } from "../../../dev/parts/port.ts";
import { connectProducer, connectWorker } from "../../../src/redis/connection.ts";
import { createRedisLogins } from "../../../src/redis/redis-logins.ts";
import { silentLog } from "../../support/fakes.ts";
import { patience } from "../../support/patience.ts";
import { useRedisServer } from "../../support/redis.ts";

test("the file and Redis may change in either order, and all clients reconnect, including a worker's own connections", async () => {
  const port = await freePort();
  const server = useRedisServer({ password: "one", args: ["--port", String(port)] });
  await server.start();
  const logins = createRedisLogins({ password: "one" });
  const address = { url: `redis://:one@127.0.0.1:${port}`, logins };
  const [producer, worker] = [connectProducer(address, silentLog), connectWorker(address, silentLog)];
  const clients = [producer, worker, worker.duplicate()];
  onTestFinished(() => clients.forEach((client) => client.disconnect()));
  clients[2]?.on("error", () => undefined);

  const cutEverybody = async (password: string) => {
    const admin = new Redis({ path: server.socket, password });
    // After a rotation Redis may have cut the clients already, and a producer rejects commands that it cannot send at
    // once.
    const ids = await vi.waitFor(() => Promise.all(clients.map((client) => client.client("ID"))), patience);
    for (const id of ids) await admin.call("CLIENT", "KILL", "ID", String(id));
    admin.disconnect();
    return ids;
  };
  const allAreBack = (before: readonly number[]) =>
    vi.waitFor(async () => {
      const now = await Promise.all(clients.map((client) => client.client("ID")));
      for (const id of now) expect(before).not.toContain(id);
    }, patience);

  await vi.waitFor(() => expect(clients.map(({ status }) => status)).toEqual(["ready", "ready", "ready"]), patience);
  // The file changes first.
  logins.replace({ password: "two" });
  await allAreBack(await cutEverybody("one"));
  await vi.waitFor(() => producer.config("SET", "requirepass", "two"), patience);
  await allAreBack(await cutEverybody("two"));
  // Redis changes first.
  await vi.waitFor(() => producer.config("SET", "requirepass", "three"), patience);
  const before = await cutEverybody("three");
  logins.replace({ password: "three" });
  await allAreBack(before);
});
