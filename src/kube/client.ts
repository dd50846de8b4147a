/** Requests to the Kubernetes API: limited in time, retried where that is safe, with errors as ApiError. */
import type { AgentOptions, IncomingMessage } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { ApiError } from "../errors.ts";
import { kubeconfigText, loadKubeConfig } from "./kubeconfig.ts";
import { createRequestRate } from "./request-rate.ts";
import { createTransport } from "./transport.ts";

export interface KubeRequest {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>> | undefined;
  readonly body?: unknown;
  /** The patch type of a PATCH; default `merge`. */
  readonly patch?: "merge" | "apply" | undefined;
  readonly accept?: string | undefined;
  /** The user to impersonate; default: none. */
  readonly as?: string | undefined;
  /** The groups of the impersonated user; default: only the groups that all users are in. */
  readonly asGroups?: readonly string[] | undefined;
  readonly signal?: AbortSignal | undefined;
  /** For one attempt; default 10 s. */
  readonly timeoutMs?: number | undefined;
  /** For all attempts together; default 30 s. 0: one attempt only. */
  readonly totalMs?: number | undefined;
}

export interface KubeList {
  readonly items: readonly unknown[];
  readonly resourceVersion: string;
}

export interface KubeClient {
  /** Resolves to the parsed JSON of the response. */
  request(request: KubeRequest): Promise<unknown>;
  /** Reads all pages of a list. */
  list(path: string, options?: Pick<KubeRequest, "query" | "accept" | "as" | "signal" | "totalMs">): Promise<KubeList>;
  /** Streams the response, for watches: `timeoutMs` limits only the wait for its headers. Never retried. */
  stream(
    request: Pick<KubeRequest, "path" | "query" | "accept" | "as" | "timeoutMs"> & { signal: AbortSignal },
  ): Promise<IncomingMessage>;
  /** The identity of the cluster for kluctl: the UID of its `kube-system` namespace. Read once. */
  clusterId(): Promise<string>;
  /** The kubeconfig for a kluctl process, see {@link kubeconfigText}. */
  kubeconfig(impersonate?: string): string;
  close(): void;
}

export interface KubeClientOptions {
  /** The path of a kubeconfig; the alternative is `text`. */
  readonly kubeconfig?: string | undefined;
  readonly text?: string | undefined;
  readonly context?: string | undefined;
  /** How long a request is retried while the cluster has never answered: for commands whose user waits. */
  readonly untilAnsweredMs?: number | undefined;
  /** Longer responses are aborted: for servers that are not ours. */
  readonly mostAnswerMiB?: number | undefined;
  /** Resolves the server's host name: for servers whose address the administrator did not choose. */
  readonly lookup?: AgentOptions["lookup"];
  /** The average limit of requests per second; a burst may have twice as many. Without it there is no limit. */
  readonly mostPerSecond?: (() => number) | undefined;
  readonly observe?:
    { request(method: string, status: number, seconds: number): void; heldBack(seconds: number): void } | undefined;
}

type Attempt =
  | { readonly kind: "answer"; readonly body: unknown }
  | { readonly kind: "failed"; readonly error: Error; readonly again: boolean; readonly afterMs?: number | undefined };

const contentTypes = { merge: "application/merge-patch+json", apply: "application/apply-patch+yaml" };
const pageSize = 500;
/** More than anybody reads; a refusal that names many objects can be that long. */
const mostOfMessage = 20_000;
const leases = "/apis/coordination.k8s.io/";
/** What the API server itself usually requests. */
const defaultRestMs = 1_000;

export function createKubeClient(options: KubeClientOptions = {}): KubeClient {
  const { observe, mostPerSecond, mostAnswerMiB, untilAnsweredMs = Infinity } = options;
  const kc = loadKubeConfig(options);
  const transport = createTransport(kc, options.lookup);
  const rate = mostPerSecond === undefined ? undefined : createRequestRate(mostPerSecond);
  let knownClusterId: string | undefined;
  let hasAnswered = false;

  /** Makes one attempt: sends the request, waits for the headers, and turns an error status into an error. */
  async function open(request: KubeRequest, signal: AbortSignal): Promise<IncomingMessage> {
    const headers: Record<string, string> = { Accept: request.accept ?? "application/json" };
    const body = request.body === undefined ? undefined : JSON.stringify(request.body);
    if (body !== undefined) {
      headers["Content-Type"] =
        request.method === "PATCH" ? contentTypes[request.patch ?? "merge"] : "application/json";
      headers["Content-Length"] = String(Buffer.byteLength(body));
    }
    return await transport.send({
      method: request.method,
      path: request.path + queryText(request.query),
      headers,
      as: request.as,
      asGroups: request.asGroups,
      body,
      signal,
    });
  }

  async function attempt(request: KubeRequest): Promise<Attempt> {
    const startedAt = performance.now();
    const timeoutMs = request.timeoutMs ?? 10_000;
    const limit = startLimit(timeoutMs, request.signal);
    let status = 0;
    try {
      const answer = await open(request, limit.signal);
      status = answer.statusCode ?? 0;
      hasAnswered = true;
      const text = await readText(answer, mostAnswerMiB);
      if (status >= 200 && status < 300) return { kind: "answer", body: text === "" ? undefined : JSON.parse(text) };
      if (status === 401) transport.renewLogin();
      const error = new ApiError(status, `${request.method} ${request.path}: ${statusText(status, text)}`);
      const afterMs = retryAfterMs(answer);
      if (status === 429) rate?.rest(afterMs ?? defaultRestMs);
      return { kind: "failed", error, again: mayRepeat(request, status), afterMs };
    } catch (cause) {
      request.signal?.throwIfAborted();
      const why = limit.signal.aborted ? `no response within ${timeoutMs} ms` : (cause as Error).message;
      const error = new ApiError(0, `${request.method} ${request.path}: ${why}`, { cause });
      const neverArrived = (cause as NodeJS.ErrnoException).code === "ECONNREFUSED";
      const again = neverArrived || (mayRepeat(request, 0) && !(cause instanceof TooLongError));
      return { kind: "failed", error, again };
    } finally {
      limit.clear();
      observe?.request(request.method, status, (performance.now() - startedAt) / 1000);
    }
  }

  /** Requests for Leases never wait: a process that loses its Lease must abort its work. */
  async function waitForTurn({ path, signal }: KubeRequest): Promise<number> {
    if (rate === undefined || path.startsWith(leases)) return 0;
    const ms = await rate.turn(signal);
    if (ms > 0) observe?.heldBack(ms / 1_000);
    return ms;
  }

  async function request(wanted: KubeRequest): Promise<unknown> {
    let endsAt = performance.now() + Math.min(wanted.totalMs ?? 30_000, hasAnswered ? Infinity : untilAnsweredMs);
    for (let count = 0; ; count++) {
      endsAt += await waitForTurn(wanted);
      const result = await attempt(wanted);
      if (result.kind === "answer") return result.body;
      // Full jitter, so that clients that failed together do not retry together.
      const waitMs = result.afterMs ?? Math.random() * Math.min(5_000, 100 * 2 ** count);
      if (!result.again || performance.now() + waitMs > endsAt) throw result.error;
      await sleep(waitMs, undefined, { signal: wanted.signal });
    }
  }

  async function list(path: string, options: Parameters<KubeClient["list"]>[1] = {}): Promise<KubeList> {
    const items: unknown[] = [];
    let next: string | undefined;
    let limit: number | undefined = pageSize;
    for (;;) {
      let page: ListPage;
      try {
        page = (await request({
          ...options,
          method: "GET",
          path,
          query: { ...options.query, limit, continue: next },
        })) as ListPage;
      } catch (error) {
        if (!(error instanceof ApiError && error.status === 410 && next !== undefined)) throw error;
        // The snapshot of the first pages has expired: read everything in one response, which cannot expire.
        [items.length, next, limit] = [0, undefined, undefined];
        continue;
      }
      for (const item of page.items ?? []) items.push(item);
      next = page.metadata?.continue || undefined;
      if (next === undefined) return { items, resourceVersion: page.metadata?.resourceVersion ?? "" };
    }
  }

  async function readClusterId(): Promise<string> {
    const path = "/api/v1/namespaces";
    let namespace: NamedObject | undefined;
    try {
      namespace = (await request({ method: "GET", path: `${path}/kube-system` })) as NamedObject;
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 403)) throw error;
      const { items } = await list(path, { query: { fieldSelector: "metadata.name=kube-system" } });
      namespace = items[0] as NamedObject | undefined;
    }
    const uid = namespace?.metadata?.uid;
    if (!uid) throw new Error("The cluster has no namespace kube-system, so it cannot be identified.");
    return uid;
  }

  return {
    request,
    list,
    async stream({ signal, timeoutMs = 10_000, ...rest }) {
      const wanted = { method: "GET", ...rest } as const;
      // The timeout ends with the headers, the caller's signal with the body.
      const abort = new AbortController();
      const stop = (): void => abort.abort(signal.reason);
      signal.throwIfAborted();
      signal.addEventListener("abort", stop, { once: true });
      const timer = setTimeout(() => abort.abort(new Error(`no response within ${timeoutMs} ms`)), timeoutMs);
      try {
        const answer = await open(wanted, abort.signal);
        const status = answer.statusCode ?? 0;
        if (status === 200) {
          answer.once("close", () => signal.removeEventListener("abort", stop));
          return answer;
        }
        if (status === 401) transport.renewLogin();
        throw new ApiError(status, `watch ${rest.path}: ${statusText(status, await readText(answer))}`);
      } catch (cause) {
        signal.removeEventListener("abort", stop);
        if (cause instanceof ApiError) throw cause;
        const why = abort.signal.reason instanceof Error ? abort.signal.reason : (cause as Error);
        throw new ApiError(0, `watch ${rest.path}: ${why.message}`, { cause });
      } finally {
        clearTimeout(timer);
      }
    },
    async clusterId() {
      return (knownClusterId ??= await readClusterId());
    },
    kubeconfig: (impersonate) => kubeconfigText(kc, impersonate),
    close: () => transport.close(),
  };
}

interface ListPage {
  readonly items?: readonly unknown[] | null;
  readonly metadata?: { readonly continue?: string; readonly resourceVersion?: string };
}

interface NamedObject {
  readonly metadata?: { readonly uid?: string };
}

/** A request answered with 429 was not processed. Any other may have been, so only idempotent ones are repeated. */
function mayRepeat({ method }: KubeRequest, status: number): boolean {
  if (status === 429) return true;
  return (status === 0 || status >= 500) && method !== "POST" && method !== "PUT";
}

function retryAfterMs(answer: IncomingMessage): number | undefined {
  const seconds = Number(answer.headers["retry-after"]);
  return Number.isFinite(seconds) && seconds >= 0 && answer.headers["retry-after"] ? seconds * 1000 : undefined;
}

function queryText(query: KubeRequest["query"] = {}): string {
  const given = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, String(value)] as [string, string]],
  );
  return given.length === 0 ? "" : `?${new URLSearchParams(given)}`;
}

/** Describes an error response, in the API server's own words if there are any. */
function statusText(status: number, body: string): string {
  try {
    const { message } = JSON.parse(body) as { message?: unknown };
    if (typeof message === "string" && message !== "") return `${status} ${message.slice(0, mostOfMessage)}`;
  } catch {
    // Not a response of the API server: a proxy's page, perhaps.
  }
  return `${status} ${body.slice(0, 200)}`.trim();
}

class TooLongError extends Error {}

async function readText(answer: IncomingMessage, mostMiB = Infinity): Promise<string> {
  answer.setEncoding("utf8");
  let text = "";
  for await (const chunk of answer) {
    text += chunk as string;
    if (text.length > mostMiB * 2 ** 20) throw new TooLongError(`the response is larger than ${mostMiB} MiB`);
  }
  return text;
}

/** `AbortSignal.any` with a long-lived signal would accumulate listeners on it; this removes its listener. */
function startLimit(timeoutMs: number, signal: AbortSignal | undefined): { signal: AbortSignal; clear(): void } {
  const abort = new AbortController();
  const stop = (): void => abort.abort(signal?.reason);
  if (signal?.aborted) stop();
  signal?.addEventListener("abort", stop, { once: true });
  const timer = setTimeout(() => abort.abort(), timeoutMs);
  return {
    signal: abort.signal,
    clear() {
      clearTimeout(timer);
      signal?.removeEventListener("abort", stop);
    },
  };
}
