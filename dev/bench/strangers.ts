/** Unauthenticated clients that try to keep deliveries out: the bench and the tests deliver beside them. */
import { connect, type Socket } from "node:net";

export interface StrangersOptions {
  /** Address that deliveries are sent to. */
  readonly url: string;
  /** Connections that send a body of 10 MiB except for its last byte. */
  readonly large: number;
  /** Connections that send one byte of a body per second. */
  readonly dribbling: number;
  /** Connections that send one byte of their headers per second. */
  readonly dribblingHeaders?: number | undefined;
}

export interface Strangers {
  /** Number of connections that have sent all they send at once, or were cut off before that. */
  begun(): number;
  stop(): void;
}

const largeBytes = 10 * 1024 * 1024;
const againAfterMs = 1_000;

/** Starts the clients, which reconnect when they are cut off. */
export function startStrangers({ url, large, dribbling, dribblingHeaders = 0 }: StrangersOptions): Strangers {
  const { hostname, port, host, pathname } = new URL(url);
  const head = `POST ${pathname} HTTP/1.1\r\nHost: ${host}\r\n`;
  const body = Buffer.alloc(largeBytes - 1, "x");
  const open = new Map<Socket, boolean>();
  const begun = new Set<number>();
  let isStopped = false;

  function attack(id: number, first: string, more: Buffer | undefined, dribbles: boolean): void {
    if (isStopped) return;
    const socket = connect(Number(port), hostname);
    open.set(socket, dribbles);
    socket.on("error", () => undefined); // it is cut off: `close` follows
    socket.resume();
    socket.once("close", () => {
      open.delete(socket);
      setTimeout(() => attack(id, first, more, dribbles), againAfterMs).unref();
    });
    socket.write(first, more ? undefined : () => begun.add(id));
    if (more) socket.write(more, () => begun.add(id));
  }

  const dribble = setInterval(() => {
    for (const [socket, dribbles] of open) if (dribbles) socket.write("x");
  }, 1_000);
  let id = 0;
  for (let i = 0; i < large; i++) attack(id++, `${head}Content-Length: ${largeBytes}\r\n\r\n`, body, false);
  for (let i = 0; i < dribbling; i++) attack(id++, `${head}Content-Length: 1000\r\n\r\n{`, undefined, true);
  for (let i = 0; i < dribblingHeaders; i++) attack(id++, `${head}X-Slow: `, undefined, true);
  return {
    begun: () => begun.size,
    stop() {
      isStopped = true;
      clearInterval(dribble);
      for (const socket of open.keys()) socket.destroy();
    },
  };
}
