/** A Redis with a certificate of a private CA, found through a sentinel that has a password of its own. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Redis, type RedisOptions } from "ioredis";
import { expect, onTestFinished, test } from "vitest";
import { createCertificateAuthority } from "../../../dev/parts/certificates.ts";
import { freePort } from "../../../dev/parts/port.ts";
import { startProcess } from "../../../dev/parts/process.ts";
import { connectProducer, connectWorker, describeRedisError } from "../../../src/redis/connection.ts";
import { findRedis } from "../../../src/app/redis.ts";
import { parseConfig } from "../../../src/config.ts";
import { silentLog } from "../../support/fakes.ts";
import { useTempDir } from "../../support/world.ts";
import { patience } from "../../support/patience.ts";

/** A primary, its replica and a sentinel, all with TLS only. */
async function useSentinel() {
  const dir = await useTempDir();
  const authority = createCertificateAuthority("those who run it");
  const { cert, key } = authority.issueServer("redis", ["127.0.0.1"]);
  const at = (name: string) => join(dir, name);
  await Promise.all([
    writeFile(at("ca.crt"), authority.cert),
    writeFile(at("tls.crt"), cert),
    writeFile(at("tls.key"), key),
  ]);
  const tls = [`tls-cert-file ${at("tls.crt")}`, `tls-key-file ${at("tls.key")}`, `tls-ca-cert-file ${at("ca.crt")}`];
  const [first, second, sentinel] = [await freePort(), await freePort(), await freePort()];
  const common = (port: number) => ["port 0", `tls-port ${port}`, ...tls, "tls-auth-clients no", "tls-replication yes"];
  const login = ['save ""', "requirepass of-redis", "masterauth of-redis", "repl-diskless-sync-delay 0"];

  const start = async (name: string, lines: readonly string[], ...args: readonly string[]) => {
    await writeFile(at(`${name}.conf`), [`dir ${dir}`, ...lines].join("\n"));
    const options = { name, command: "redis-server", args: [at(`${name}.conf`), ...args], cwd: dir };
    const child = await startProcess({ ...options, logFile: at(`${name}.log`), env: process.env });
    onTestFinished(() => child.stop(500));
  };
  await start("first", [...common(first), ...login]);
  await start("second", [...common(second), ...login, `replicaof 127.0.0.1 ${first}`]);
  const own = { password: "of-redis", tls: { ca: authority.cert } };
  const follower = look({ ...own, port: second });
  await expect.poll(() => follower.info("replication"), patience).toContain("master_link_status:up");
  // The sentinel never marks a Redis as down on its own: on a busy machine it would be wrong.
  const watch = [`monitor mymaster 127.0.0.1 ${first} 1`, "auth-pass mymaster of-redis"];
  const patiently = ["down-after-milliseconds mymaster 600000"];
  const lines = [...watch, ...patiently].map((line) => `sentinel ${line}`);
  await start("sentinel", [...common(sentinel), "requirepass of-sentinel", ...lines], "--sentinel");
  return {
    authority: at("ca.crt"),
    address: `127.0.0.1:${sentinel}`,
    first,
    second,
    /** Promotes the replica to primary. */
    async failOver() {
      const asked = look({ ...own, port: sentinel, password: "of-sentinel" });
      const order = () => asked.call("SENTINEL", "failover", "mymaster").catch(String);
      await expect.poll(order, patience).toBe("OK");
    },
  };
}

function look(options: RedisOptions): Redis {
  const redis = new Redis({ host: "127.0.0.1", ...options, retryStrategy: () => 50, maxRetriesPerRequest: null });
  redis.on("error", () => undefined); // the server may not be listening yet
  onTestFinished(() => redis.disconnect());
  return redis;
}

/** Connects as the configuration says. */
async function connect(redis: object, how: typeof connectWorker = connectWorker): Promise<Redis> {
  const { address } = await findRedis(parseConfig({ env: {}, file: { redis } }), silentLog);
  const client = how(address, silentLog);
  onTestFinished(() => client.disconnect());
  return client;
}

const portOf = async (redis: Redis) => Number(((await redis.config("GET", "tls-port")) as string[])[1]);

test("the Redis that a sentinel names is used and trusted, also after a failover", async () => {
  const { authority, address, first, second, failOver } = await useSentinel();
  const redis = await connect({
    url: "rediss://mymaster",
    password: "of-redis",
    caFile: authority,
    sentinels: [address],
    sentinelPassword: "of-sentinel",
  });
  expect(await portOf(redis)).toBe(first);
  // This client does not know the CA.
  const wary = await connect({ url: `rediss://127.0.0.1:${first}`, password: "of-redis" }, connectProducer);
  const why = await new Promise((resolve) => wary.once("error", (error) => resolve(describeRedisError(error))));
  expect(why).toMatch(/certificate.*set TOWLINE_REDIS_CA_FILE to the CA that signed its certificate/);
  // The sentinel answers, but knows no Redis of this name.
  const lost = await connect(
    { url: "rediss://another", caFile: authority, sentinels: [address], sentinelPassword: "of-sentinel" },
    connectProducer,
  );
  const nowhere = await new Promise((resolve) => lost.once("error", (error) => resolve(describeRedisError(error))));
  expect(nowhere).toBe("no sentinel reports a reachable Redis");

  await failOver();

  await expect.poll(() => portOf(redis), patience).toBe(second);
  await expect.poll(() => redis.set("written", "by us"), patience).toBe("OK");
});

test("a CA file without a certificate is named in the error", async () => {
  const caFile = join(await useTempDir(), "ca.crt");
  const redis = { url: "rediss://redis", caFile };
  await expect(connect(redis)).rejects.toThrow(`redis.caFile: ${caFile} cannot be read: no such file`);
  await writeFile(caFile, "hello");
  await expect(connect(redis)).rejects.toThrow(`redis.caFile: ${caFile} contains no PEM certificate`);
});
