/** Kubernetes Events about a deployment: for users, so best effort. */
import { randomBytes } from "node:crypto";
import { ApiError } from "../errors.ts";
import { createBoundedMap } from "../kit/bounded-map.ts";
import { rfc3339 } from "../kit/time.ts";
import type { Logger } from "../log.ts";
import type { KubeClient } from "./client.ts";
import { type DeploymentRef, kindOf } from "../model.ts";

export interface EventsDeps {
  readonly client: Pick<KubeClient, "request">;
  /** The reporting component, as `kubectl describe` shows it. */
  readonly component: string;
  readonly log: Logger;
}

export interface Events {
  report(subject: DeploymentRef, type: "Normal" | "Warning", reason: string, message: string): void;
  /** Resolves once all reported Events have been written or have failed. */
  idle(): Promise<void>;
}

interface Written {
  readonly name: string;
  count: number;
}

const longestMessage = 1024; // the API server refuses longer messages
const repeatedWithinMs = 10 * 60_000;
const mostRemembered = 2_000;
const mostPending = 500;

export function createEvents({ client, component, log }: EventsDeps): Events {
  const written = createBoundedMap<Written>({ entries: mostRemembered, maxAgeMs: repeatedWithinMs });
  const pending = new Map<string, Promise<void>>();

  async function write(
    subject: DeploymentRef,
    type: string,
    reason: string,
    message: string,
    id: string,
  ): Promise<void> {
    const { namespace, name } = subject.key;
    const path = `/api/v1/namespaces/${namespace}/events`;
    const time = rfc3339(Date.now());
    const known = written.get(id);
    if (known !== undefined) {
      try {
        const body = { count: known.count + 1, lastTimestamp: time };
        await client.request({ method: "PATCH", path: `${path}/${known.name}`, body });
        known.count++;
        return;
      } catch (error) {
        if (!(error instanceof ApiError && error.status === 404)) throw error; // the Event has expired: write a new one
      }
    }
    const eventName = `${name.slice(0, 200).replace(/[.-]+$/, "")}.${randomBytes(8).toString("hex")}`;
    const body = {
      apiVersion: "v1",
      kind: "Event",
      metadata: { name: eventName, namespace },
      involvedObject: { ...kindOf(subject), namespace, name, uid: subject.uid },
      type,
      reason,
      message,
      source: { component },
      reportingComponent: component,
      reportingInstance: "",
      firstTimestamp: time,
      lastTimestamp: time,
      count: 1,
    };
    await client.request({ method: "POST", path, body });
    written.set(id, { name: eventName, count: 1 });
  }

  return {
    report(subject, type, reason, text) {
      const message = text.length <= longestMessage ? text : `${text.slice(0, longestMessage - 1)}…`;
      const id = JSON.stringify([subject.uid, type, reason, message]);
      if (pending.size >= mostPending) return; // the API server is in trouble; Events would add to its load
      const before = pending.get(id) ?? Promise.resolve();
      const mine = before
        .then(() => write(subject, type, reason, message, id))
        .catch((error: unknown) =>
          log.warn({ deployment: subject.key, reason, err: error }, "could not write an event"),
        )
        .finally(() => {
          if (pending.get(id) === mine) pending.delete(id);
        });
      pending.set(id, mine);
    },
    async idle() {
      await Promise.all(pending.values());
    },
  };
}
