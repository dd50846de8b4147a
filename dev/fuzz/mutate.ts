/** Mutates a delivery at random: its content, its bytes, or the way it is sent. */
import { randomUUID } from "node:crypto";
import { deflateSync, gzipSync } from "node:zlib";
import { type ForgeKind, headersOf, type Sample } from "./corpus.ts";
import type { Random } from "./random.ts";

export interface Mutant {
  readonly method: string;
  readonly path: string;
  /** Names and values alternate; without a length, the body is sent in chunks. */
  readonly headers: readonly string[];
  readonly body: Buffer;
  /** The last byte is not sent, and the connection is closed. */
  readonly breaksOff: boolean;
  /** Nothing was changed, so the server has to accept it. */
  readonly isGenuine: boolean;
}

const sha = "da1560886d4f094c3e6c9ef40349f7d38b5d27d7";
const hostileTexts = [
  ...["", " ", "\0", "\r\nX-Injected: 1", "\u202e", "\ud800", "￿", "'", '"', "`", "$(id)", "{{ 7*7 }}", "%00", "%n%s"],
  ...[
    "../../../etc/passwd",
    "refs/heads/",
    "refs/heads/..",
    "refs/heads/a b",
    "refs/heads/-x",
    "refs/for/main",
    "HEAD",
  ],
  ...["refs/heads/gh-readonly-queue/main/pr-1-", "--upload-pack=id", "file:///etc/passwd", "ext::sh -c id"],
  ...[
    "http://[::1]:1/x",
    "http://169.254.169.254/",
    "https://user:pass@example.com/a.git",
    "git@host:a/../b.git",
    "https://",
  ],
  ...[sha, "0".repeat(40), sha.toUpperCase(), `${sha}0`, "0".repeat(64), "__proto__", "constructor", "toString"],
  ...["2026-13-45T99:99:99Z", "1e999", "NaN", "-0", "9007199254740993"],
];
const strangeValues = ["", "x".repeat(4_000), "sha256=", "\u00ff", "push, push"];
const strangeTypes = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "x"];
const hostileNumbers = [0, -1, 1, 1.5, 2 ** 31, 2 ** 53, 1e308, -1e308, 4_294_967_296];
const deep = "deep: ";
const deepMark = /"deep: (\d{1,5})"/g;
const mostBytes = 500_000;
const names = [
  "__proto__",
  "constructor",
  "prototype",
  "ref",
  "after",
  "repository",
  "clone_url",
  "commits",
  "length",
  "then",
];

/** Returns the same mutant for the same random numbers. */
export function mutate(sample: Sample, corpus: readonly Sample[], random: Random): Mutant {
  const payload = structuredClone(sample.payload);
  const isGenuine = random.chance(5);
  const root = { payload };
  const changes = isGenuine ? 0 : random.below(5);
  for (let i = 0; i < changes; i++) changeSomewhere(root, corpus, random);
  let body: Buffer = Buffer.from(deepen(JSON.stringify(root.payload) ?? ""), "utf8");
  if (!isGenuine && random.chance(15)) body = breakBytes(body, random);
  const event = isGenuine || random.chance(90) ? sample.event : random.pick([...corpus, sample]).event;
  // Usually signed after the change: a delivery that is not genuine is rejected before it is parsed.
  let headers = headersOf({ kind: sample.kind, event }, body, randomUUID());
  let [method, path] = ["POST", `/webhooks/${sample.kind}`];
  let breaksOff = false;
  if (!isGenuine && random.chance(20)) {
    ({ headers, body } = sendStrangely(headers, body, random));
    breaksOff = random.chance(5);
  }
  if (!isGenuine && random.chance(3)) method = random.pick(["GET", "PUT", "DELETE", "OPTIONS", "PATCH", "HEAD"]);
  if (!isGenuine && random.chance(3)) path = strangePath(sample.kind, random);
  return { method, path, headers, body, breaksOff, isGenuine };
}

type Holder = Record<string, unknown> | unknown[];

/** Descends from the root to a random value and replaces it. */
function changeSomewhere(root: { payload: unknown }, corpus: readonly Sample[], random: Random): void {
  let holder: Holder = root as unknown as Record<string, unknown>;
  let key = "payload";
  for (;;) {
    const value = valueAt(holder, key);
    if (typeof value !== "object" || value === null || random.chance(15)) break;
    const keys = Object.keys(value);
    if (keys.length === 0) break;
    holder = value as Holder;
    key = random.pick(keys);
  }
  const what = random.below(100);
  if (what < 10) return removeAt(holder, key);
  if (what < 20) return setAt(holder, random.pick(names), valueAt(holder, key));
  setAt(holder, key, somethingElse(valueAt(holder, key), corpus, random));
}

function somethingElse(value: unknown, corpus: readonly Sample[], random: Random): unknown {
  switch (random.below(11)) {
    case 0:
      return null;
    case 1:
      return random.chance(50);
    case 2:
      return random.pick(hostileNumbers);
    case 3:
      return [value];
    case 4:
      return { value };
    case 5:
      return nested(1 + random.below(random.chance(10) ? 50_000 : 50));
    case 6:
      return copies(value, random);
    case 7:
      return `${typeof value === "string" ? value : ""}${random.pick(hostileTexts).repeat(1 + random.below(20))}`;
    case 8:
      return "x".repeat(random.below(random.chance(5) ? 200_000 : 2_000));
    case 9:
      return structuredClone(random.pick(corpus).payload);
    default:
      return random.pick(hostileTexts);
  }
}

/** Deeper than JSON.stringify can handle, so it is inserted into the text. */
function nested(depth: number): string {
  return `${deep}${depth}`;
}

function deepen(text: string): string {
  return text.replaceAll(deepMark, (_mark, depth: string) => "[".repeat(Number(depth)) + "]".repeat(Number(depth)));
}

function copies(value: unknown, random: Random): unknown[] {
  const size = (JSON.stringify(value) ?? "").length + 1;
  const wanted = random.below(random.chance(10) ? 5_000 : 20);
  return Array.from({ length: Math.min(wanted, Math.ceil(mostBytes / size)) }, () => value);
}

function valueAt(holder: Holder, key: string): unknown {
  return (holder as Record<string, unknown>)[key];
}

/** Sets a key as JSON would: `__proto__` is an ordinary name. */
function setAt(holder: Holder, key: string, value: unknown): void {
  if (Array.isArray(holder) && !/^\d+$/.test(key)) holder.push(value);
  else Object.defineProperty(holder, key, { value, enumerable: true, configurable: true, writable: true });
}

function removeAt(holder: Holder, key: string): void {
  if (Array.isArray(holder)) holder.splice(Number(key), 1);
  else delete holder[key];
}

function breakBytes(body: Buffer, random: Random): Buffer {
  const at = random.below(body.length);
  switch (random.below(6)) {
    case 0:
      return body.subarray(0, at);
    case 1:
      return Buffer.concat([body, body]);
    case 2:
      return Buffer.concat([body.subarray(0, at), Buffer.from([0xff, 0xfe, 0xc0, 0x80]), body.subarray(at)]);
    case 3:
      return Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), body]);
    case 4:
      return Buffer.from(`payload=${encodeURIComponent(body.toString("utf8"))}`);
    default: {
      const flipped = Buffer.from(body);
      if (flipped.length > 0) flipped[at] = (flipped[at] as number) ^ (1 << random.below(8));
      return flipped;
    }
  }
}

interface Sent {
  readonly headers: string[];
  readonly body: Buffer;
}

function sendStrangely(headers: string[], body: Buffer, random: Random): Sent {
  // The server takes long for these, and a few are sufficient.
  if (random.chance(6)) return pack(headers, body, random);
  const at = 2 * random.below(headers.length / 2);
  switch (random.below(6)) {
    case 0:
      return { headers: headers.toSpliced(at, 2), body };
    case 1:
      return { headers: [...headers, ...headers.slice(at, at + 2)], body };
    case 2:
      return { headers: headers.with(at + 1, random.pick(strangeValues)), body };
    case 3:
      return { headers: [...headers, "Transfer-Encoding", "chunked"], body };
    case 4:
      return { headers: headers.with(at, headers[at]?.toUpperCase() ?? ""), body };
    default:
      return {
        headers: headers.map((one) => (one === "application/json" ? random.pick(strangeTypes) : one)),
        body,
      };
  }
}

function pack(headers: readonly string[], body: Buffer, random: Random): Sent {
  const as = (encoding: string, packed: Buffer): Sent => ({
    headers: [...headers, "Content-Encoding", encoding],
    body: packed,
  });
  switch (random.below(4)) {
    case 0:
      return as("gzip", gzipSync(body));
    case 1:
      return as("deflate", deflateSync(body));
    case 2:
      return as("gzip", gzipSync(Buffer.alloc(1_000_000 + random.below(20_000_000))));
    default:
      return as(random.pick(["gzip", "br", "deflate", "zstd", "x"]), body);
  }
}

function strangePath(kind: ForgeKind, random: Random): string {
  return random.pick([
    ...[
      "/webhooks",
      "/webhooks/",
      `/webhooks/${kind}/`,
      `/webhooks/${kind}/${kind}`,
      `//webhooks/${kind}`,
      "/webhooks/__proto__",
    ],
    ...[
      "/webhooks/%00",
      "/webhooks/%ZZ",
      `/webhooks/${kind}?a=${"b".repeat(3_000)}`,
      `/webhooks/${kind.toUpperCase()}`,
      "/",
    ],
    ...["/webhooks/..%2fadmin", "/webhooks/constructor", `/webhooks/${"a".repeat(8_000)}`, "*"],
  ]);
}
