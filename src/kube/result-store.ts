/**
 * The store of results that `kluctl gitops` and kluctl's web UI read: one Secret per result, in the shape that kluctl's
 * own controller writes, so that either can read, and clean up after, the other.
 */
import { z } from "zod";
import { ApiError } from "../errors.ts";
import { parseJson } from "../json.ts";
import type { Logger } from "../log.ts";
import type { Key } from "../model.ts";
import type { Results } from "../ports.ts";
import type { KubeClient } from "./client.ts";
import { type Packed, packCommand, packValidate } from "./result-packing.ts";
import { groupLabel, groupOf, type ResultKind, type SecretObject, Summary } from "./result-secret.ts";
import { metadataOnly } from "./stored-commands.ts";

export interface ResultsDeps {
  readonly client: Pick<KubeClient, "request" | "list">;
  /** Created when it is not there; `kluctl-results` unless kluctl's tools are told otherwise. */
  readonly namespace?: string | undefined;
  /** How many to keep of one project and target. */
  readonly keepCommandResults?: number | undefined;
  readonly keepValidateResults?: number | undefined;
  readonly log: Logger;
}

export interface ResultStore extends Results {
  /** Removes what deployments left behind that are no more; `exists` is asked about each that has results. */
  removeOrphans(clusterId: string, exists: (key: Key) => boolean): Promise<void>;
}

/** For a server that is told to leave no results behind. */
export const storeNothing: ResultStore = {
  storeCommand: () => Promise.resolve(false),
  storeValidate: () => Promise.resolve(false),
  removeOrphans: () => Promise.resolve(),
};

/** Results that others stored have no such label; they are counted when all are looked at. */
const wholeSweepMs = 60 * 60_000;

interface Stored {
  readonly name: string;
  readonly kind: ResultKind;
  readonly summary: Summary;
}

const SecretMetadata = z.object({
  metadata: z.object({ name: z.string(), annotations: z.record(z.string(), z.string()).catch({}) }),
});

export function createResults(deps: ResultsDeps): ResultStore {
  const { client, log, namespace = "kluctl-results" } = deps;
  const keep = () => ({ command: deps.keepCommandResults ?? 5, validate: deps.keepValidateResults ?? 2 });
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/secrets`;
  const sweptAt = new Map<ResultKind, number>();

  async function store(kind: ResultKind, { known, secret, tooLarge }: Packed): Promise<boolean> {
    const about = { result: known.id, deployment: known.kluctlDeployment };
    if (secret === undefined) {
      log.warn(about, `The result is not stored: ${tooLarge}`);
      return false;
    }
    await apply(secret);
    if (tooLarge !== undefined) log.warn(about, `The result is stored with fewer details: ${tooLarge}`);
    // What is old stays a little longer when it cannot be removed now: that must not undo the storing.
    await removeOld(kind, known).catch((error: unknown) => log.warn({ err: error }, "could not remove old results"));
    return true;
  }

  async function apply(secret: SecretObject): Promise<void> {
    const query = { fieldManager: "kluctl-results", force: true };
    const request = {
      method: "PATCH",
      patch: "apply",
      path: `${path}/${secret.metadata.name}`,
      query,
      body: secret,
    } as const;
    try {
      await client.request(request);
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 404)) throw error;
      await createNamespace();
      await client.request(request);
    }
  }

  async function createNamespace(): Promise<void> {
    try {
      const body = { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } };
      await client.request({ method: "POST", path: "/api/v1/namespaces", body });
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 409)) throw error; // somebody else was faster
    }
  }

  async function removeOld(kind: ResultKind, newest: Summary): Promise<void> {
    const whole = performance.now() - (sweptAt.get(kind) ?? -Infinity) > wholeSweepMs;
    if (whole) sweptAt.set(kind, performance.now());
    const groups = Map.groupBy(await list(kind, whole ? undefined : groupOf(newest)), ({ summary }) =>
      groupOf(summary),
    );
    for (const stored of groups.values()) {
      for (const { name } of stored.sort(byAge).slice(keep()[kind])) await remove(name);
    }
  }

  async function list(kind: ResultKind, group?: string): Promise<Stored[]> {
    const labelSelector = `kluctl.io/${kind}-result-id${group === undefined ? "" : `,${groupLabel}=${group}`}`;
    const { items } = await client.list(path, { query: { labelSelector }, accept: metadataOnly });
    return items.flatMap((item) => {
      const secret = SecretMetadata.safeParse(item).data;
      const summary = secret && readSummary(secret.metadata.annotations[`kluctl.io/${kind}-result-summary`]);
      return secret && summary ? [{ name: secret.metadata.name, kind, summary }] : [];
    });
  }

  async function remove(name: string): Promise<void> {
    try {
      await client.request({ method: "DELETE", path: `${path}/${encodeURIComponent(name)}` });
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 404)) throw error;
    }
  }

  return {
    async storeCommand(result, summary, knownSecrets) {
      return store("command", await packCommand(namespace, result, summary, knownSecrets));
    },
    async storeValidate(document, summary) {
      return store("validate", await packValidate(namespace, document, summary));
    },
    async removeOrphans(clusterId, exists) {
      for (const { name, summary } of [...(await list("command")), ...(await list("validate"))]) {
        const deployment = summary.kluctlDeployment;
        if (deployment?.clusterId === clusterId && !exists(deployment)) await remove(name);
      }
    },
  };
}

/** Newest first; kluctl's own order. */
function byAge(a: Stored, b: Stored): number {
  const [x, y] = [a.summary, b.summary].map((summary) => ({ ...summary, ...summary.commandInfo }));
  return (
    time(y?.startTime) - time(x?.startTime) ||
    time(y?.endTime) - time(x?.endTime) ||
    (x?.commandInfo?.command ?? "").localeCompare(y?.commandInfo?.command ?? "") ||
    a.summary.id.localeCompare(b.summary.id)
  );
}

function time(text: string | undefined): number {
  return Date.parse(text ?? "") || 0;
}

function readSummary(text: string | undefined): Summary | undefined {
  return Summary.safeParse(parseJson(text ?? "")).data;
}
