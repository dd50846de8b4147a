/** Stands between a connection and what decodes it, and lets no more bytes in than the other side may send. */
import type { Socket } from "node:net";
import { Duplex } from "node:stream";

export interface Gate {
  /** What is sent to it goes out; what comes in comes out of it. */
  readonly stream: Duplex;
  /** So many bytes more may come. */
  allow(bytes: number): void;
  /** From now on a few bytes may always come: the other side says now and then that it is still there. */
  keepOpen(): void;
}

const fewEveryMs = 60_000;

/** Whoever sends more than `first`, or more than was allowed since, is cut off before any of it is kept. */
export function createGate(socket: Socket, first: number): Gate {
  let left = first;
  let renewedAt = Infinity;
  const stream = new Duplex({
    read: () => void socket.resume(),
    write: (chunk: Buffer, _encoding, done) => void socket.write(chunk, done),
    final: (done) => void socket.end(done),
    destroy(error, done) {
      socket.destroy();
      done(error);
    },
  });
  stream.on("error", () => undefined); // what is cut off is no event
  socket.on("data", (chunk: Buffer) => {
    const now = performance.now();
    if (now - renewedAt > fewEveryMs) [left, renewedAt] = [Math.max(left, first), now];
    left -= chunk.length;
    if (left < 0) stream.destroy();
    else if (!stream.push(chunk)) socket.pause();
  });
  socket.once("end", () => stream.push(null));
  socket.once("close", () => stream.destroy());
  return {
    stream,
    allow: (bytes) => void (left = Math.max(left, 0) + bytes),
    keepOpen: () => void (renewedAt = performance.now()),
  };
}
