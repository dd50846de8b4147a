/**
 * The connection between a server and its preview runner. The server opens it, one for each run, and its end is the end of
 * the run. Both sides prove by it that they know the token, which never crosses the wire: TLS with a key that is made from
 * it, so that there are no certificates to hand out. Inside, the runner asks and the server answers: the runner has no way
 * out of its own, and needs none.
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

/** Pre-shared keys with forward secrecy; TLS 1.3 has no such keys in Node. */
export const tlsOptions: SecureContextOptions = {
  ciphers: "ECDHE-PSK-CHACHA20-POLY1305",
  minVersion: "TLSv1.2",
  maxVersion: "TLSv1.2",
};

/** Enough for an archive and a result to flow at the network's pace. */
export const sessionOptions = {
  settings: { initialWindowSize: 1024 ** 2, maxConcurrentStreams: 256, enablePush: false },
  maxSessionMemory: 64,
} satisfies http2.ServerSessionOptions;

/** Calls back when the other side has not answered for this long: it is frozen, or its machine is gone. */
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

/** Rejects what is longer, and what is no JSON. */
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
