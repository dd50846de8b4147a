/** Downloads a file whose SHA-256 is known, over HTTP or HTTPS and through the proxies that the environment names. */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createReadStream, createWriteStream } from "node:fs";
import { rename, rm, stat } from "node:fs/promises";
import { Agent as HttpAgent, get as httpGet, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent, get as httpsGet } from "node:https";
import { pipeline } from "node:stream/promises";
import { setTimeout as delay } from "node:timers/promises";

export interface Download {
  /** Named in messages. */
  readonly title: string;
  readonly url: string;
  /** Hexadecimal. */
  readonly sha256: string;
  /** Appears when it is complete and verified; until then it is `<path>.part`. */
  readonly path: string;
  readonly say: (line: string) => void;
  /** Called every second with the amount so far, such as `12.0 of 110.3 MB`. */
  readonly onProgress?: ((amount: string) => void) | undefined;
  readonly env?: NodeJS.ProcessEnv | undefined;
  /** A connection on which nothing arrives for so long is given up; 20 s if absent. */
  readonly idleMs?: number | undefined;
}

const tries = 5;
const redirects = 5;
const progressEveryMs = 1_000;
const megabyte = 1_000_000;

/** Worth another try, which goes on where this one ended. */
class InterruptedError extends Error {}

/**
 * Goes on where an earlier download, also of another run, was interrupted. Throws at once if the server cannot be
 * reached or does not have the file, and if what arrived is not what the checksum says: then nothing of it is kept.
 */
export async function download({ path, sha256, title, say, ...from }: Download): Promise<void> {
  const part = `${path}.part`;
  const resumed = (await sizeOf(part)) > 0;
  await fetchAll({ ...from, title, say, part });
  const found = await sha256Of(part);
  if (found === sha256) return rename(part, path);
  await rm(part, { force: true });
  // The beginning may be another file's, or from before the file was replaced.
  if (resumed) return download({ path, sha256, title, say, ...from });
  throw new Error(`its SHA-256 is ${found} instead of ${sha256}`);
}

type Source = Pick<Download, "title" | "url" | "say" | "onProgress" | "env" | "idleMs"> & { readonly part: string };

async function fetchAll(source: Source): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await fetchRest(source);
    } catch (error) {
      if (!(error instanceof InterruptedError) || attempt === tries) throw error;
      source.say(`downloading ${source.title}: ${error.message}; going on …`);
      await delay(attempt * 500);
    }
  }
}

/** Appends what is missing; begins again if the server does not send parts of files. */
async function fetchRest({ url, part, onProgress, env = process.env, idleMs = 20_000 }: Source): Promise<void> {
  const have = await sizeOf(part);
  const answer = await request(url, have, env, idleMs);
  if (answer.statusCode === 416) {
    answer.destroy();
    await rm(part, { force: true });
    throw new InterruptedError("the server has less than what was downloaded before");
  }
  const appends = answer.statusCode === 206 && answer.headers["content-range"]?.startsWith(`bytes ${have}-`);
  if (!appends && answer.statusCode !== 200) {
    answer.destroy();
    throw new Error(`${new URL(url).host} answered with HTTP ${answer.statusCode}`);
  }
  const before = appends ? have : 0;
  const total = before + Number(answer.headers["content-length"] ?? Number.NaN);
  let done = before;
  answer.on("data", (chunk: Buffer) => void (done += chunk.length));
  const progress = setInterval(() => onProgress?.(amount(done, total)), progressEveryMs);
  try {
    await pipeline(answer, createWriteStream(part, { flags: appends ? "a" : "w" }));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).syscall === "write") throw error; // for example, the disk is full
    throw new InterruptedError(`the connection was lost after ${amount(done, total)}`, { cause: error });
  } finally {
    clearInterval(progress);
  }
}

/** The final answer after redirects, whose body has not been read. */
async function request(url: string, from: number, env: NodeJS.ProcessEnv, idleMs: number): Promise<IncomingMessage> {
  let target = new URL(url);
  for (let hops = 0; hops <= redirects; hops++) {
    const answer = await requestOne(target, from, env, idleMs);
    const { location } = answer.headers;
    const status = answer.statusCode ?? 0;
    if (status >= 300 && status < 400 && location !== undefined) {
      answer.resume();
      target = new URL(location, target);
      continue;
    }
    if (status < 500 && status !== 429) return answer;
    answer.destroy();
    throw new InterruptedError(`${target.host} answered with HTTP ${status}`);
  }
  throw new Error(`${new URL(url).host} redirects more than ${redirects} times`);
}

async function requestOne(url: URL, from: number, env: NodeJS.ProcessEnv, idleMs: number): Promise<IncomingMessage> {
  if (url.protocol !== "https:" && url.protocol !== "http:") throw new Error(`${url.protocol} is not supported`);
  const headers = { "user-agent": "towline", ...(from > 0 && { range: `bytes=${from}-` }) };
  const asked =
    url.protocol === "https:"
      ? httpsGet(url, { agent: new HttpsAgent({ proxyEnv: env }), headers })
      : httpGet(url, { agent: new HttpAgent({ proxyEnv: env }), headers });
  asked.setTimeout(idleMs, () => asked.destroy(new Error(`nothing arrived for ${idleMs / 1_000} s`)));
  try {
    const [answer] = (await once(asked, "response")) as [IncomingMessage];
    asked.on("error", () => undefined); // from now on, the answer reports it
    return answer;
  } catch (error) {
    // Not even the beginning of an answer: building it is more certain than waiting.
    throw new Error(
      `${url.host} cannot be reached (${(error as Error).message || (error as NodeJS.ErrnoException).code})`,
      {
        cause: error,
      },
    );
  }
}

function amount(bytes: number, total: number): string {
  const megabytes = (bytes / megabyte).toFixed(1);
  return Number.isNaN(total) ? `${megabytes} MB` : `${megabytes} of ${(total / megabyte).toFixed(1)} MB`;
}

async function sizeOf(path: string): Promise<number> {
  return stat(path).then(
    ({ size }) => size,
    () => 0,
  );
}

async function sha256Of(path: string): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(path), hash);
  return hash.digest("hex");
}
