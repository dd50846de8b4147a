/**
 * Kubernetes Events about the server itself, on the Lease by which servers know each other. For users, so best effort.
 */
import { randomBytes } from "node:crypto";
import type { Logger } from "../log.ts";
import type { KubeClient } from "./client.ts";
import { leaderLease } from "./leader.ts";

export interface ServerEventsDeps {
  readonly client: Pick<KubeClient, "request">;
  /** The namespace of the Lease. */
  readonly namespace: string;
  readonly component: string;
  /** Which server reports. */
  readonly identity: string;
  readonly log: Logger;
}

export type TellServerEvent = (type: "Normal" | "Warning", reason: string, message: string) => void;

const longestMessage = 1024; // the API server refuses longer messages

/** Never throws, never blocks. */
export function createServerEvents({ client, namespace, component, identity, log }: ServerEventsDeps): TellServerEvent {
  return function emitEvent(type, reason, text) {
    const time = new Date().toISOString().replace(/\.\d+Z$/, "Z");
    const body = {
      apiVersion: "v1",
      kind: "Event",
      metadata: { name: `${leaderLease}.${randomBytes(8).toString("hex")}`, namespace },
      involvedObject: { apiVersion: "coordination.k8s.io/v1", kind: "Lease", namespace, name: leaderLease },
      type,
      reason,
      message: text.length <= longestMessage ? text : `${text.slice(0, longestMessage - 1)}…`,
      source: { component, host: identity },
      reportingComponent: component,
      reportingInstance: identity,
      firstTimestamp: time,
      lastTimestamp: time,
      count: 1,
    };
    client
      .request({ method: "POST", path: `/api/v1/namespaces/${namespace}/events`, body })
      .catch((error: unknown) => log.warn({ reason, error: (error as Error).message }, "could not write an event"));
  };
}
