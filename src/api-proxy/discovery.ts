/**
 * What a cluster can do: the kinds that it knows and what they look like. Every kluctl asks for all of it, so it is kept for
 * those that come later, for as long as the API server says that nothing has changed.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { ApiAccess } from "../ports.ts";
import { parseJson } from "../json.ts";
import { negotiate } from "./negotiate.ts";
import type { Permitted } from "./permit.ts";
import { readAnswer, type WholeAnswer } from "./read-answer.ts";

export interface Discovery {
  /** Of a cluster as it was at `since` (`now()`), or later. Rejects if the API server does not answer. */
  answer(access: ApiAccess, request: Permitted, since: number): Promise<WholeAnswer>;
}

interface Kept {
  /** Of the list of all groups; `undefined`: this API server has none. */
  tag?: string | undefined;
  /** When it was asked last whether that is still so. */
  checkedAt: number;
  checking?: Promise<void> | undefined;
  bytes: number;
  /** Another one is the knowledge of another state. */
  answers: Map<string, { readonly answer: WholeAnswer; readonly at: number }>;
  readonly asked: Map<string, Promise<WholeAnswer>>;
}

const mostClusters = 100;
/** Of a cluster, and of all. What ours knows takes a hundredth of it; another may be anybody's. */
const mostBytes = 16 * 2 ** 20;
const mostOfAll = 64 * 2 ** 20;
const longestDocument = 16 * 2 ** 20;
const timeoutMs = 30_000;
const attempts = 3;
const pauseMs = 50;
/** A run that goes on for long hears of new kinds after this. */
const checkedForMs = 2_000;
/** Of an API server that cannot say whether something has changed (before 1.26). */
const keptUncheckedMs = 5_000;
/** In case that the list of groups did not show a change. */
const keptMs = 60_000;
/** Passed by, so that nothing is kept of the moment: a busy API server, or one whose extension does not answer. */
const passing = new Set([429, 500, 502, 504]);

export function createDiscovery(now: () => number): Discovery {
  const clusters = new Map<string, Kept>();

  function find(cluster: string): Kept {
    let kept = clusters.get(cluster);
    if (kept === undefined) {
      if (clusters.size >= mostClusters) clusters.clear();
      kept = { checkedAt: -Infinity, bytes: 0, answers: new Map(), asked: new Map() };
      clusters.set(cluster, kept);
    }
    return kept;
  }

  function forget(kept: Kept): void {
    kept.answers = new Map();
    kept.bytes = 0;
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

  /** Not bound to the run that asks first: others wait for the same answer. */
  async function fetch(kept: Kept, access: ApiAccess, { path, accept, what }: Permitted, key: string) {
    const { answers } = kept;
    const answer = await ask(access, path, { Accept: accept });
    const known = answers === kept.answers && !answers.has(key) && kept.bytes + answer.body.length <= mostBytes;
    if (known && isWhole(answer, what)) {
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
        // What is wrong here is wrong with the request itself too, which says it.
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

/** Tried again where the moment may be to blame: kluctl goes on without the kinds that it was not told of. */
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

/** Of a group whose server does not answer the list says so, and leaves its kinds out. */
function isWhole({ status, body }: WholeAnswer, what: Permitted["what"]): boolean {
  if (status !== 200 || body.length === 0) return false;
  if (what === "schema") return true;
  const document = parseJson(body.toString("utf8"));
  return typeof document === "object" && document !== null && !body.includes('"Stale"');
}
