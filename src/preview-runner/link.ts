/**
 * The connection between a server and its preview runner. The server opens one for each run, and the run ends when it
 * closes. Both sides prove that they know the token, which is never transmitted: TLS uses a key derived from it, so
 * that no certificates have to be distributed. On this connection, the runner sends requests and the server answers
 * them: the runner has no network access of its own, and needs none.
 */
import { hkdfSync } from "node:crypto";
import type http2 from "node:http2";
import type { Readable } from "node:stream";
import type { SecureContextOptions } from "node:tls";
import { json } from "node:stream/consumers";

export const identity = "towline";

export function toKey(token: string): Buffer {
  return Buffer.from(hkdfSync("sha256", token, "", "towline preview runner", 32));
}

/** Pre-shared keys with forward secrecy; Node does not support them with TLS 1.3. */
export const tlsOptions: SecureContextOptions = {
  ciphers: "ECDHE-PSK-CHACHA20-POLY1305",
  minVersion: "TLSv1.2",
  maxVersion: "TLSv1.2",
};

/** Large enough to transfer an archive and a result at network speed. */
export const sessionOptions = {
  settings: { initialWindowSize: 1024 ** 2, maxConcurrentStreams: 256, enablePush: false },
  maxSessionMemory: 64,
} satisfies http2.ServerSessionOptions;

/**
 * `watchSilence` pings at this interval, and calls back when there was no reply for `silentForMs`: the peer is frozen,
 * or its machine is gone.
 */
const [askEveryMs, silentForMs] = [10_000, 60_000];

export function watchSilence(session: http2.Http2Session, onSilent: () => void): void {
  let heardAt = performance.now();
  const timer = setInterval(() => {
    if (session.destroyed) return clearInterval(timer);
    if (performance.now() - heardAt > silentForMs) return onSilent();
    session.ping((error) => {
      if (error === null) heardAt = performance.now();
    });
  }, askEveryMs);
  timer.unref();
  session.once("close", () => clearInterval(timer));
}

/** Rejects a body that is too long or not JSON. */
export async function readJson(stream: Readable, mostBytes: number): Promise<unknown> {
  return json(bounded(stream, mostBytes));
}

export async function* bounded(stream: AsyncIterable<Buffer>, mostBytes: number): AsyncGenerator<Buffer> {
  let left = mostBytes;
  for await (const chunk of stream) {
    left -= chunk.length;
    if (left < 0) throw new Error(`it is longer than ${mostBytes} bytes`);
    yield chunk;
  }
}
