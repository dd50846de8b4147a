/** A server with a private Redis, for tests that kill it: prints the path of the socket. */
import { startPrivateRedis } from "../../../src/redis/private-redis.ts";
import { silentLog } from "../../support/fakes.ts";

const { socket } = await startPrivateRedis({ dataDir: process.argv[2] ?? "", log: silentLog });
process.stdout.write(`${socket}\n`);
setInterval(() => undefined, 1_000);
