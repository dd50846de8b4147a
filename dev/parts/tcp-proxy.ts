/** A proxy between a client and a server that injects network faults, independent of the protocol. */
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type NetConnectOpts, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

export interface TcpProxy {
  readonly port: number;
  /** Resets all connections. */
  cut(): void;
  /** Half-closes all connections towards the clients; data they send still gets through. */
  halfClose(): void;
  /** Refuses connections and resets those that are open. */
  refuse(on: boolean): void;
  /** Accepts connections but passes no data on in either direction. */
  blackHole(on: boolean): void;
  /** Delays each piece of an answer by this much. */
  delay(ms: number): void;
  /** Passes answers on a few bytes at a time. */
  drip(on: boolean): void;
  /** Resets the next connection after this many bytes of the answer. */
  resetAt(byte: number): void;
  /** Ends all faults. Data dropped by `blackHole` is lost, so its connections are reset. */
  heal(): void;
  stop(): Promise<void>;
}

/** For `drip`: bytes per piece, and the pause between two pieces. */
const [dripBytes, dripMs] = [256, 20];

export async function startTcpProxy(behind: NetConnectOpts): Promise<TcpProxy> {
  const pairs = new Set<readonly [Socket, Socket]>();
  let refuses = false;
  let hole = false;
  let delayMs = 0;
  let drips = false;
  let resetByte: number | undefined;

  /** Preserves the order, however long each piece is delayed. */
  function pass(from: Socket, to: Socket, isAnswer: boolean, onBytes: (count: number) => void = () => undefined): void {
    let passed = Promise.resolve();
    from.on("data", (chunk: Buffer) => {
      if (hole) return;
      const ms = isAnswer ? delayMs : 0;
      passed = passed.then(async () => {
        if (ms > 0) await sleep(ms);
        for (const piece of isAnswer && drips ? piecesOf(chunk) : [chunk]) {
          if (piece !== chunk) await sleep(dripMs);
          if (to.writable) to.write(piece);
        }
        onBytes(chunk.length);
      });
    });
    from.on("end", () => void passed.then(() => hole || to.end()));
  }

  const server = createServer({ allowHalfOpen: true }, (client) => {
    if (refuses) return void client.resetAndDestroy();
    const upstream = connect({ allowHalfOpen: true, ...behind });
    const pair = [client, upstream] as const;
    pairs.add(pair);
    let left = resetByte;
    resetByte = undefined;
    pass(upstream, client, true, (count) => {
      if (left !== undefined && (left -= count) <= 0) client.resetAndDestroy();
    });
    pass(client, upstream, false);
    for (const [one, other] of [pair, [upstream, client] as const]) {
      one.on("error", () => undefined);
      one.on("close", () => {
        pairs.delete(pair);
        if (!other.destroyed) other.destroy();
      });
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const cut = () => {
    for (const [client] of pairs) client.resetAndDestroy();
  };

  return {
    port: (server.address() as AddressInfo).port,
    cut,
    halfClose() {
      for (const [client] of pairs) client.end();
    },
    refuse(on) {
      refuses = on;
      if (on) cut();
    },
    blackHole(on) {
      if (hole && !on) cut();
      hole = on;
    },
    delay(ms) {
      delayMs = ms;
    },
    drip(on) {
      drips = on;
    },
    resetAt(byte) {
      resetByte = byte;
    },
    heal() {
      if (hole) cut();
      [refuses, hole, delayMs, drips, resetByte] = [false, false, 0, false, undefined];
    },
    async stop() {
      server.close();
      cut();
      if (server.listening) await once(server, "close");
    },
  };
}

function piecesOf(chunk: Buffer): Buffer[] {
  return Array.from({ length: Math.ceil(chunk.length / dripBytes) }, (_, i) =>
    chunk.subarray(i * dripBytes, (i + 1) * dripBytes),
  );
}
