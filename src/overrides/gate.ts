/** Limits the bytes that a connection passes on to its decoder. */
import type { Socket } from "node:net";
import { Duplex } from "node:stream";

export interface Gate {
  /** Data written to it is sent to the peer; data received within the limit can be read from it. */
  readonly stream: Duplex;
  /** Allows this many more bytes. */
  allow(bytes: number): void;
  /** From now on allows a few bytes each minute, for keepalives of the peer. */
  keepOpen(): void;
}

const fewEveryMs = 60_000;

/**
 * A connection that sends more than `first` bytes, or more than was allowed since, is closed before the excess is
 * buffered.
 */
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
  stream.on("error", () => undefined); // a closed connection is not an error
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
