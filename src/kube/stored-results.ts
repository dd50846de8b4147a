/** Lists and reads the stored results of one deployment. Needs only the right to list them. */
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { z } from "zod";
import { type Key, keyText, type StoredCommand } from "../model.ts";
import type { KubeClient } from "./client.ts";
import { annotation, Item, metadataOnly, parseSummary } from "./stored-commands.ts";

export interface StoredResult extends StoredCommand {
  readonly id: string;
}

/** JSON, divided as kluctl's own controller divides a result. */
export interface StoredTexts {
  readonly reducedResult: Uint8Array;
  readonly compactedObjects: Uint8Array;
}

export interface StoredResults {
  /** Newest first. */
  list(key: Key): Promise<readonly StoredResult[]>;
  /**
   * Returns the result as it was stored; `undefined` if this deployment has no result with that id. Other programs, and
   * versions of this one before values of Secrets were obfuscated, stored results with secrets in them.
   */
  read(key: Key, id: string): Promise<StoredTexts | undefined>;
}

const unpack = promisify(gunzip);
/** Limit for a Secret of one megabyte once unpacked: results are repetitive, but not without limit. */
const mostBytes = 64 * 1024 * 1024;
const longestLabel = 63;

const Labelled = z.object({ metadata: z.object({ labels: z.object({ "kluctl.io/command-result-id": z.string() }) }) });
const Stored = Item.extend({ data: z.object({ reducedResult: z.string(), compactedObjects: z.string() }) });

export function createStoredResults(client: Pick<KubeClient, "list">, namespace: string): StoredResults {
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/secrets`;
  return {
    async list(key) {
      const named = [
        ["namespace", key.namespace],
        ["name", key.name],
      ].flatMap(([what, value = ""]) =>
        value.length <= longestLabel ? `,kluctl.io/result-deployment-${what}=${value}` : "",
      );
      const labelSelector = `kluctl.io/result=true,kluctl.io/command-result-id${named.join("")}`;
      const { items } = await client.list(path, { query: { labelSelector }, accept: metadataOnly });
      return items
        .flatMap((item) => {
          const id = Labelled.safeParse(item).data?.metadata.labels["kluctl.io/command-result-id"];
          const summary = parseSummary(Item.safeParse(item).data?.metadata.annotations[annotation] ?? "");
          return id === undefined || summary?.deployment !== keyText(key) ? [] : [{ id, ...summary }];
        })
        .toSorted((a, b) => b.endedAt - a.endedAt);
    },
    async read(key, id) {
      if (!/^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/.test(id)) return undefined; // not a valid label
      const { items } = await client.list(path, { query: { labelSelector: `kluctl.io/command-result-id=${id}` } });
      const [stored] = items.flatMap((item) => Stored.safeParse(item).data ?? []);
      const summary = parseSummary(stored?.metadata.annotations[annotation] ?? "");
      if (stored === undefined || summary?.deployment !== keyText(key)) return undefined;
      const [reducedResult, compactedObjects] = await Promise.all([
        unpacked(stored.data.reducedResult),
        unpacked(stored.data.compactedObjects),
      ]);
      return { reducedResult, compactedObjects };
    },
  };
}

function unpacked(base64: string): Promise<Buffer> {
  return unpack(Buffer.from(base64, "base64"), { maxOutputLength: mostBytes });
}
