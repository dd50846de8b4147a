/**
 * Stores the manifests of pull requests in Redis, compressed and limited in size, for as long as their reports. They are read
 * only when a user asks for them, and nothing depends on them.
 */
import { promisify } from "node:util";
import { brotliCompress, brotliDecompress, constants } from "node:zlib";
import type { Redis } from "ioredis";
import { parseJson } from "../kit/json.ts";
import { fitManifests, ReportManifests } from "../model/manifests.ts";
import type { PullRequestKey } from "../model.ts";
import type { ManifestStore } from "../ports.ts";
import { createReadiness, withinDeadline } from "./connection.ts";
import { digest, pullRequestId } from "./keys.ts";

export interface ManifestStoreDeps {
  /** A producer's connection, see connection.ts. */
  readonly connection: Redis;
  /** The prefix of all keys in Redis. */
  readonly prefix: string;
  /** How long they are kept after they were saved. */
  readonly keepMs?: number | undefined;
  /** Characters of text in one document, before it is compressed. */
  readonly mostCharacters?: number | undefined;
  /** Bytes of one compressed document. */
  readonly mostBytes?: number | undefined;
}

const deadlineMs = 2_000;
/** As long as reports. */
const usualKeepMs = 30 * 24 * 3_600_000;
/** Redis keeps the value in memory and is blocked while it sends it. */
const usualMostBytes = 1_000_000;
/** A reader holds all of it in memory. */
const usualMostCharacters = 4_000_000;
/** Names and counts come on top, and a character may take several bytes. */
const mostUnpackedBytes = 64_000_000;
/** Deployments have similar manifests, so that the window is the largest. Higher qualities take seconds. */
const options = {
  params: { [constants.BROTLI_PARAM_QUALITY]: 4, [constants.BROTLI_PARAM_LGWIN]: constants.BROTLI_MAX_WINDOW_BITS },
};

const compress = promisify(brotliCompress);
const decompress = promisify(brotliDecompress);

export function createManifestStore({
  connection,
  prefix,
  keepMs = usualKeepMs,
  mostCharacters = usualMostCharacters,
  mostBytes = usualMostBytes,
}: ManifestStoreDeps): ManifestStore {
  const ready = createReadiness(connection);
  const keyOf = (key: PullRequestKey) => `${prefix}:manifests:${digest(pullRequestId(key))}`;

  async function inTime<T>(what: string, work: () => Promise<T>): Promise<T> {
    return withinDeadline(what, deadlineMs, async (signal) => {
      await ready(signal);
      return work();
    });
  }

  /** Each round leaves out more, because how well the rest is compressed is not known before. */
  async function pack(manifests: ReportManifests): Promise<Buffer> {
    for (let most = mostCharacters; ; most = Math.floor(most / 2)) {
      const packed = await compress(JSON.stringify(fitManifests(manifests, most)), options);
      if (packed.length <= mostBytes || most === 0) return packed;
    }
  }

  return {
    async save(key, manifests) {
      const packed = await pack(manifests);
      if (packed.length > mostBytes)
        throw new Error(`the names of ${manifests.deployments.length} deployments are too large`);
      await inTime("store the manifests", async () => connection.set(keyOf(key), packed, "PX", keepMs));
    },
    async find(key) {
      const packed = await inTime("return the manifests", async () => connection.getBuffer(keyOf(key)));
      if (packed === null) return undefined;
      // What comes from another version, or is damaged, counts as not stored.
      const text = await decompress(packed, { maxOutputLength: mostUnpackedBytes }).catch(() => undefined);
      return ReportManifests.safeParse(parseJson(text?.toString() ?? "")).data;
    },
  };
}
