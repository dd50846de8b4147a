import { randomInt } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";

/**
 * Returns a free port of the loopback interface. Chosen at random below the range of ephemeral ports, so that neither
 * an outgoing connection nor a second run takes it before the part listens on it.
 */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < 50; attempt++) {
    const port = randomInt(20_000, 32_000);
    const server = createServer();
    try {
      server.listen(port, "127.0.0.1");
      await once(server, "listening");
      return port;
    } catch {
      // In use: try another one.
    } finally {
      server.close();
    }
  }
  throw new Error("There is no free port between 20000 and 32000 on 127.0.0.1.");
}
