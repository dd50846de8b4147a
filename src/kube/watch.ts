/** A supervised list and watch: it continues whatever happens to the connection or the API server. */
import { setTimeout as sleep } from "node:timers/promises";
import { ApiError } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { KubeClient } from "./client.ts";

export interface WatchOptions {
  readonly client: Pick<KubeClient, "list" | "stream">;
  /** The path of the resource's list, e.g. `/apis/group/v1/things`. */
  readonly path: string;
  /** The watched resources, as messages name them. */
  readonly what: string;
  /** What it means, and what to do, if the API server does not serve the resource; default: just that. */
  readonly missing?: string | undefined;
  /** Selection, representation and impersonated user; default: all objects, in full, as ourselves. */
  readonly query?: Readonly<Record<string, string>> | undefined;
  readonly accept?: { readonly list: string; readonly watch: string } | undefined;
  readonly as?: string | undefined;
  /**
   * Does not log problems: for callers that can work without the watch, read `problem`, and decide whether to report
   * it.
   */
  readonly quiet?: boolean | undefined;
  readonly log: Logger;
  /** Receives all current objects; any object that is not among them no longer exists. */
  readonly onList: (objects: readonly unknown[]) => void;
  readonly onEvent: (type: "ADDED" | "MODIFIED" | "DELETED", object: unknown) => void;
  /** A watch that is silent for this long is considered dead. The API server sends a bookmark each minute. */
  readonly silentMs?: number | undefined;
  /** Delay before the first retry; doubled each time. */
  readonly retryMs?: number | undefined;
  readonly observe?: { restarted(why: string): void } | undefined;
}

export interface Watch {
  stop(): Promise<void>;
  /** Resolves after the first list, or when stopped. */
  readonly listed: Promise<void>;
  synced(): boolean;
  /** Seconds since the API server last gave a sign of life. */
  age(): number;
  /** Why the watch does not work at the moment, as text for users. */
  problem(): string | undefined;
  /** Status of the API server's last refusal, while it lasts; 0 if there was no response. */
  status(): number | undefined;
}

interface WatchLine {
  readonly type?: string;
  readonly object?: {
    readonly metadata?: { readonly resourceVersion?: string };
    readonly code?: number;
    readonly message?: string;
  };
}

const longestRetryMs = 30_000;

function reasonOf(status: number, missing: string): string {
  if (status === 404) return missing;
  if (status === 403)
    return "Towline's account is not allowed to list and watch them; grant the account get, list and watch";
  if (status === 401) return "the API server rejected the server's credentials";
  return status === 0 ? "the API server does not respond" : `the API server responds with status ${status}`;
}

export function startWatch(options: WatchOptions): Watch {
  const { client, path, log, onList, onEvent, silentMs = 120_000, retryMs = 500, observe } = options;
  const abort = new AbortController();
  const { signal } = abort;
  const listed = Promise.withResolvers<void>();
  let lastSign = performance.now();
  let problem: string | undefined = "not listed yet";
  let refusal: number | undefined;
  let failures = 0;
  let synced = false;

  async function list(): Promise<string> {
    const { items, resourceVersion } = await client.list(path, {
      query: options.query,
      accept: options.accept?.list,
      as: options.as,
      signal,
      totalMs: 5_000, // we retry and report ourselves
    });
    lastSign = performance.now();
    onList(items);
    synced = true;
    listed.resolve();
    return resourceVersion;
  }

  /** Follows one stream to its end and returns the version from which the next one has to start. */
  async function follow(resourceVersion: string): Promise<string> {
    let version = resourceVersion;
    // Not all watches of all servers at the same moment.
    const timeoutSeconds = Math.round(240 + Math.random() * 60);
    const query = { ...options.query, watch: true, allowWatchBookmarks: true, resourceVersion, timeoutSeconds };
    const stream = await client.stream({ path, query, accept: options.accept?.watch, as: options.as, signal });
    problem = undefined;
    refusal = undefined;
    const alarm = setTimeout(() => stream.destroy(new Error("silent")), silentMs);
    lastSign = performance.now();
    try {
      // Not node:readline: it does not pass on the stream's errors.
      let rest = "";
      for await (const chunk of stream.setEncoding("utf8")) {
        alarm.refresh();
        lastSign = performance.now();
        const lines = (rest + (chunk as string)).split("\n");
        rest = lines.pop() ?? "";
        for (const line of lines) version = take(line) ?? version;
      }
    } catch (error) {
      // A refusal, or a response that makes no sense, requires a new list. Anything else is a connection problem: the
      // objects seen so far remain valid.
      if (error instanceof ApiError || signal.aborted) throw error;
      log.debug({ path, err: error }, "watch connection closed");
    } finally {
      clearTimeout(alarm);
      stream.destroy();
    }
    return version;
  }

  /** Returns the version of the line, or `undefined` if it has none. */
  function take(line: string): string | undefined {
    const { type, object } = parseLine(line);
    if (type === "ERROR") {
      throw new ApiError(object?.code ?? 0, `watch ${path}: ${object?.message ?? "no reason given"}`);
    }
    failures = 0; // not earlier: if lists work and watches do not, there would be requests without a pause
    if (type === "ADDED" || type === "MODIFIED" || type === "DELETED") onEvent(type, object);
    return object?.metadata?.resourceVersion;
  }

  /** Reports the problem, once per new reason, and returns how long to wait. */
  function failed(error: unknown): number {
    const status = error instanceof ApiError ? error.status : 0;
    observe?.restarted(status === 0 ? "connection" : String(status));
    // "Too old" is not a failure: list again, at once unless that does not help either.
    if (status === 410 && failures++ === 0) return 0;
    const reason = reasonOf(status, options.missing ?? `the API server does not serve ${path}`);
    // A stack trace would not help here.
    if (reason !== problem && !options.quiet) {
      log.warn({ path, error: (error as Error).message }, `cannot watch ${options.what}: ${reason}`);
    }
    problem = reason;
    refusal = status;
    return Math.random() * Math.min(longestRetryMs, retryMs * 2 ** failures++);
  }

  async function run(): Promise<void> {
    let version: string | undefined;
    while (!signal.aborted) {
      try {
        version ??= await list();
        const startedAt = performance.now();
        version = await follow(version);
        // A server that closes the connection at once must not be called in a tight loop.
        if (performance.now() - startedAt < 1_000) await sleep(Math.random() * retryMs, undefined, { signal });
        else failures = 0;
      } catch (error) {
        if (signal.aborted) break;
        version = undefined;
        await sleep(failed(error), undefined, { signal }).catch(() => undefined);
      }
    }
  }

  const running = run()
    .catch((error: unknown) => {
      if (!signal.aborted) log.error({ path, err: error }, "watch ended unexpectedly");
    })
    .finally(() => listed.resolve());

  return {
    listed: listed.promise,
    synced: () => synced,
    age: () => (performance.now() - lastSign) / 1000,
    problem: () => problem,
    status: () => refusal,
    async stop() {
      abort.abort();
      await running;
    },
  };
}

function parseLine(line: string): WatchLine {
  try {
    return (JSON.parse(line) ?? {}) as WatchLine;
  } catch (cause) {
    throw new ApiError(0, "The watch sent a line that is not JSON.", { cause });
  }
}
