/** Keeps what targets of notifications were sent, each in a ConfigMap of its own. */
import { hash } from "node:crypto";
import { z } from "zod";
import { ApiError } from "../errors.ts";
import { parseSentRecord, printSentRecord } from "../model/sent-notifications.ts";
import type { SentNotifications, SentVersion } from "../ports.ts";
import type { KubeClient } from "./client.ts";

const ConfigMap = z.object({
  metadata: z.object({ resourceVersion: z.string() }),
  data: z.record(z.string(), z.string()).catch({}),
});

export interface SentNotificationsDeps {
  readonly client: Pick<KubeClient, "request">;
  readonly namespace: string;
  /** The watched namespaces: servers for other namespaces may have a target of the same name. */
  readonly watched: readonly string[];
}

/** The chart computes the same names for its roles. */
export function recordNameOf(target: string, watched: readonly string[]): string {
  const owner = watched.length === 0 ? "" : `-${hash("sha256", watched.toSorted().join()).slice(0, 8)}`;
  return `towline-notified-${target}${owner}`;
}

export function createSentNotifications({ client, namespace, watched }: SentNotificationsDeps): SentNotifications {
  const recordName = (target: string) => recordNameOf(target, watched);
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/configmaps`;

  return {
    async read(target, signal) {
      try {
        const found = await client.request({ method: "GET", path: `${path}/${recordName(target)}`, signal });
        const { metadata, data } = ConfigMap.parse(found);
        const record = parseSentRecord(data["record"] ?? "");
        // One that cannot be read is replaced, and what is true by then is no news.
        return record && { record, version: metadata.resourceVersion as SentVersion };
      } catch (error) {
        if (error instanceof ApiError && error.status === 404) return undefined;
        throw error;
      }
    },
    async write(target, record, version, signal) {
      const metadata = {
        name: recordName(target),
        labels: { "app.kubernetes.io/managed-by": "towline", "towline.dev/notifications": "true" },
        ...(version !== undefined && { resourceVersion: version }),
      };
      const body = { apiVersion: "v1", kind: "ConfigMap", metadata, data: { record: printSentRecord(record) } };
      const written = await (version === undefined ? create(body) : replace(body));
      return ConfigMap.parse(written).metadata.resourceVersion as SentVersion;

      async function create(created: typeof body): Promise<unknown> {
        try {
          return await client.request({ method: "POST", path, body: created, signal });
        } catch (error) {
          // It exists, but could not be read.
          if (!(error instanceof ApiError) || error.status !== 409) throw error;
          return await replace(created);
        }
      }

      async function replace(next: typeof body): Promise<unknown> {
        return await client.request({ method: "PUT", path: `${path}/${recordName(target)}`, body: next, signal });
      }
    },
  };
}
