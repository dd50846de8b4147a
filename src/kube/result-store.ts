/**
 * The store of results that `kluctl gitops` and kluctl's web UI read: one Secret per result, in the format of kluctl's
 * own controller, so that each can read, and clean up, the other's results.
 */
import { z } from "zod";
import { ApiError } from "../errors.ts";
import { parseJson } from "../kit/json.ts";
import type { Logger } from "../log.ts";
import type { Key } from "../model.ts";
import type { Results } from "../ports.ts";
import type { KubeClient } from "./client.ts";
import { type Packed, packCommand, packValidate } from "./result-packing.ts";
import { groupLabel, groupOf, type ResultKind, type SecretObject, Summary } from "./result-secret.ts";
import { metadataOnly } from "./stored-commands.ts";

export interface ResultsDeps {
  readonly client: Pick<KubeClient, "request" | "list">;
  /** Created if it does not exist; `kluctl-results` unless kluctl's tools are configured otherwise. */
  readonly namespace?: string | undefined;
  /** How many results to keep per project and target. */
  readonly keepCommandResults?: number | undefined;
  readonly keepValidateResults?: number | undefined;
  readonly log: Logger;
}

export interface ResultStore extends Results {
  /**
   * Removes the results of deployments that no longer exist; `exists` is called for each deployment that has results.
   */
  removeOrphans(clusterId: string, exists: (key: Key) => boolean): Promise<void>;
}

/** For a server that is configured to store no results. */
export const storeNothing: ResultStore = {
  storeCommand: () => Promise.resolve(false),
  storeValidate: () => Promise.resolve(false),
  removeOrphans: () => Promise.resolve(),
};

/** Results of other programs do not have our label; they are counted only when all results are listed. */
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
    // Old results stay a little longer if they cannot be removed now: that must not make the storing fail.
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
      if (!(error instanceof ApiError && error.status === 409)) throw error; // a concurrent request created it
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
