/**
 * Simulates `kluctl gitops` as a client of the source-override service: authenticates and serves the requested files.
 */
import { createHash, generateKeyPairSync, type KeyPairKeyObjectResult, sign } from "node:crypto";
import { createSecureContext } from "node:tls";
import { gzipSync } from "node:zlib";
import { ProxyRequest, ProxyResponse, type ResolveResponse } from "../../src/overrides/messages.ts";
import { loadGrpc, proxyService } from "../../src/overrides/service.ts";
import { onTestFinished } from "vitest";

export type Answer = (repoKey: string) => ResolveResponse | Promise<ResolveResponse>;

export interface OverrideClientOptions {
  readonly port: number;
  /** PEM of the trusted certificate or of its authority. */
  readonly ca: string;
  readonly answer?: Answer;
  readonly keys?: KeyPairKeyObjectResult;
  /** Key for proving its identity; its own unless a test lets it lie. */
  readonly signer?: KeyPairKeyObjectResult;
}

export interface OverrideClient {
  readonly id: string;
  readonly url: string;
  readonly asked: string[];
  /** Resolves when the server has accepted the client; rejects with the server's error. */
  readonly accepted: Promise<void>;
  /** Resolves with the server's last message, if any. */
  readonly ended: Promise<string>;
  send(message: ProxyResponse): void;
  leave(): void;
}

export function newKeys(): KeyPairKeyObjectResult {
  return generateKeyPairSync("ec", { namedCurve: "prime256v1" });
}

export async function useOverrideClient(options: OverrideClientOptions): Promise<OverrideClient> {
  const { port, ca, answer = () => ({}), keys = newKeys(), signer = keys } = options;
  const grpc = await loadGrpc();
  const trusted = createSecureContext({ ca, allowPartialTrustChain: true });
  const client = new grpc.Client(`localhost:${port}`, grpc.credentials.createFromSecureContext(trusted), {
    "grpc.use_local_subchannel_pool": 1,
    "grpc.max_send_message_length": -1,
  });
  const { path } = proxyService.ProxyStream;
  const stream = client.makeBidiStreamRequest(path, ProxyResponse.encode, ProxyRequest.decode);
  const leave = () => {
    stream.cancel();
    client.close();
  };
  onTestFinished(leave);
  const pubKey = keys.publicKey.export({ type: "spki", format: "der" });
  const hash = createHash("sha256").update(pubKey).digest();
  const asked: string[] = [];
  let accept: () => void;
  let refuse: (error: Error) => void;
  const accepted = new Promise<void>((resolve, reject) => ([accept, refuse] = [resolve, reject]));
  accepted.catch(() => undefined);
  const ended = new Promise<string>((resolve) => {
    stream.on("error", (error: Error) => {
      refuse(error);
      resolve(error.message);
    });
    stream.on("end", () => resolve(""));
  });
  stream.on("data", ({ auth, request }: ProxyRequest) => {
    if (auth?.challenge) {
      const pop = sign("sha256", Buffer.concat([hash, auth.challenge]), signer.privateKey);
      stream.write({ auth: { pop } });
    } else if (auth?.authError !== undefined) {
      accept();
    } else if (request) {
      const { repoKey = "" } = request;
      asked.push(repoKey);
      void Promise.resolve(answer(repoKey)).then((response) => stream.write({ response }));
    }
  });
  stream.write({ auth: { pubKey } });
  const id = hash.toString("hex");
  const url = `grpc+source-override://localhost:${port}/${id}`;
  return { id, url, asked, accepted, ended, leave, send: (message) => void stream.write(message) };
}

/** A tar.gz with these files in kluctl's format. */
export function anArchive(files: Readonly<Record<string, string>>): Buffer {
  const entries = Object.entries(files).flatMap(([name, content]) => {
    const data = Buffer.from(content);
    const header = Buffer.alloc(512);
    header.write(name, 0, 100);
    header.write("0000644\0", 100);
    header.write(`${data.length.toString(8).padStart(11, "0")}\0`, 124);
    header.write(" ".repeat(8), 148);
    header.write("0", 156);
    header.write("ustar\x0000", 257);
    const sum = header.reduce((total, byte) => total + byte, 0);
    header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
    return [header, data, Buffer.alloc((512 - (data.length % 512)) % 512)];
  });
  return gzipSync(Buffer.concat([...entries, Buffer.alloc(1024)]));
}
