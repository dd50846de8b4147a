/**
 * Caches the discovery documents and schemas of clusters. Every kluctl run reads all of them, so they are kept for
 * later runs until the API server reports a change.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { ApiAccess } from "../model.ts";
import { createBoundedMap } from "../kit/bounded-map.ts";
import { parseJson } from "../kit/json.ts";
import { negotiate } from "./negotiate.ts";
import type { Permitted } from "./permit.ts";
import { readAnswer, type WholeAnswer } from "./read-answer.ts";

export interface Discovery {
  /** Returns the cluster's answer as of `since` (`now()`) or later. Rejects if the API server does not respond. */
  answer(access: ApiAccess, request: Permitted, since: number): Promise<WholeAnswer>;
}

interface Kept {
  /** ETag of the list of all groups; `undefined`: this API server sends none. */
  tag?: string | undefined;
  /** When the ETag was last checked. */
  checkedAt: number;
  checking?: Promise<void> | undefined;
  bytes: number;
  /** A change of the cluster replaces the Map, so that answers still being fetched are not added to the new one. */
  answers: Map<string, { readonly answer: WholeAnswer; readonly at: number }>;
  readonly asked: Map<string, Promise<WholeAnswer>>;
}

const mostClusters = 100;
/**
 * Limits per cluster and for all clusters. The answers of our own cluster take a hundredth of it; other clusters may be
 * under anybody's control.
 */
const mostBytes = 16 * 2 ** 20;
const mostOfAll = 64 * 2 ** 20;
const longestDocument = 16 * 2 ** 20;
const timeoutMs = 30_000;
const attempts = 3;
const pauseMs = 50;
/** A long run learns of new kinds after this time. */
const checkedForMs = 2_000;
/** For API servers that cannot report changes (before 1.26). */
const keptUncheckedMs = 5_000;
/** In case a change was not visible in the list of groups. */
const keptMs = 60_000;
/** Temporary errors, of which nothing is kept: a busy API server, or an extension API server that does not respond. */
const passing = new Set([429, 500, 502, 504]);

export function createDiscovery(now: () => number): Discovery {
  const clusters = createBoundedMap<Kept>({ entries: mostClusters });

  function find(cluster: string): Kept {
    let kept = clusters.get(cluster);
    if (kept === undefined) {
      kept = { checkedAt: -Infinity, bytes: 0, answers: new Map(), asked: new Map() };
      clusters.set(cluster, kept);
    }
    return kept;
  }

  function forget(kept: Kept): void {
    kept.answers = new Map();
    kept.bytes = 0;
  }

  /** Removes the oldest answers. Otherwise a run could fill the cache with variants that no other run requests. */
  function makeRoom(kept: Kept, bytes: number): void {
    for (const [key, { answer }] of kept.answers) {
      if (kept.bytes + bytes <= mostBytes) return;
      kept.answers.delete(key);
      kept.bytes -= answer.body.length;
    }
  }

  async function check(kept: Kept, access: ApiAccess): Promise<void> {
    const startedAt = now();
    const headers = { Accept: aggregated, ...(kept.tag !== undefined && { "If-None-Match": kept.tag }) };
    const { status, headers: said } = await ask(access, "/apis", headers);
    const tag = status === 200 ? (said.etag ?? undefined) : undefined;
    if (status !== 304 && (tag === undefined || tag !== kept.tag)) forget(kept);
    if (status !== 304) kept.tag = tag;
    if (!passing.has(status)) kept.checkedAt = startedAt;
  }

  /** Not cancelled with the run that asked first: others wait for the same answer. */
  async function fetch(kept: Kept, access: ApiAccess, { path, accept, what }: Permitted, key: string) {
    const { answers } = kept;
    const answer = await ask(access, path, { Accept: accept });
    const known = answers === kept.answers && !answers.has(key) && answer.body.length <= mostBytes;
    if (known && isWhole(answer, what)) {
      makeRoom(kept, answer.body.length);
      const all = [...clusters.values()].reduce((sum, { bytes }) => sum + bytes, 0);
      if (all + answer.body.length > mostOfAll) for (const each of clusters.values()) if (each !== kept) forget(each);
      answers.set(key, { answer, at: now() });
      kept.bytes += answer.body.length;
    }
    return answer;
  }

  return {
    async answer(access, request, since) {
      const kept = find(access.cluster);
      if (kept.checkedAt < since || now() - kept.checkedAt > checkedForMs) {
        kept.checking ??= check(kept, access).finally(() => (kept.checking = undefined));
        // If this fails, the request itself fails too and reports the error.
        await kept.checking.catch(() => forget(kept));
      }
      const key = JSON.stringify([request.path, request.accept]);
      const known = kept.answers.get(key);
      if (known && now() - known.at < (kept.tag === undefined ? keptUncheckedMs : keptMs)) return known.answer;
      if (known) {
        kept.answers.delete(key);
        kept.bytes -= known.answer.body.length;
      }
      const asking = JSON.stringify([access.account, key]);
      let asked = kept.asked.get(asking);
      if (asked === undefined) {
        asked = fetch(kept, access, request, key).finally(() => kept.asked.delete(asking));
        kept.asked.set(asking, asked);
      }
      return asked;
    },
  };
}

const aggregated = negotiate(
  "application/json;as=APIGroupDiscoveryList;g=apidiscovery.k8s.io;v=v2,application/json;as=APIGroupDiscoveryList;g=apidiscovery.k8s.io;v=v2beta1",
  "discovery",
);

/** Retries temporary errors: kluctl would continue without the kinds that are missing in the answer. */
async function ask(access: ApiAccess, path: string, headers: Readonly<Record<string, string>>): Promise<WholeAnswer> {
  for (let attempt = 1; ; attempt++) {
    const isLast = attempt === attempts;
    try {
      const exchange = { method: "GET", path, headers, signal: AbortSignal.timeout(timeoutMs) } as const;
      const answer = await readAnswer(await access.send(exchange), longestDocument);
      if (answer.status === 401) access.renewLogin();
      if (isLast || (answer.status !== 401 && !passing.has(answer.status))) return answer;
    } catch (error) {
      if (isLast) throw error;
    }
    await sleep(attempt * pauseMs);
  }
}

/**
 * Whether the answer is complete. If a group's server does not respond, the list marks the group as stale and omits its
 * kinds.
 */
function isWhole({ status, body }: WholeAnswer, what: Permitted["what"]): boolean {
  if (status !== 200 || body.length === 0) return false;
  if (what === "schema") return true;
  const document = parseJson(body.toString("utf8"));
  return typeof document === "object" && document !== null && !body.includes('"Stale"');
}
