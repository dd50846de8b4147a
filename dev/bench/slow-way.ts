/** A slow connection to the API server: delays every byte in each direction. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { parse, stringify } from "yaml";

export interface SlowWay {
  /** The text of a kubeconfig that uses this connection. */
  readonly kubeconfig: string;
  stop(): Promise<void>;
}

export async function startSlowWay(kubeconfig: string, ms: number): Promise<SlowWay> {
  const config = parse(kubeconfig) as { clusters: { cluster: { server: string } }[] };
  const { cluster } = config.clusters[0]!;
  const { hostname, port } = new URL(cluster.server);
  const sockets = new Set<Socket>();
  const server = createServer((from) => {
    const to = connect(Number(port), hostname);
    for (const [one, other] of [
      [from, to],
      [to, from],
    ] as const) {
      sockets.add(one);
      one.setNoDelay(true);
      one.on("data", (chunk) => setTimeout(() => other.writable && other.write(chunk), ms));
      one.on("close", () => {
        sockets.delete(one);
        setTimeout(() => other.destroy(), ms);
      });
      one.on("error", () => one.destroy());
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  cluster.server = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    kubeconfig: stringify(config),
    async stop() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}
