/** Asks the server, and listens to it. */
import type { PageDelta, PageDeployment } from "../routes/page-facts.ts";

/** Nobody is logged in, or not any more. */
export class NoAccessError extends Error {
  override name = "NoAccessError";
  /** Whether the server takes a token. */
  readonly byToken: boolean;

  constructor(message: string, byToken: boolean) {
    super(message);
    this.byToken = byToken;
  }
}

async function answerOf(res: Response): Promise<unknown> {
  const body = (await res.json().catch(() => undefined)) as
    { error?: string; hint?: string; byToken?: boolean } | undefined;
  if (res.ok) return body;
  const words = [body?.error ?? `The server answered ${res.status}.`, body?.hint].filter(Boolean).join(" ");
  throw res.status === 401 ? new NoAccessError(words, body?.byToken !== false) : new Error(words);
}

export async function ask<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await answerOf(await fetch(`/api/${path}`, signal ? { signal } : {}))) as T;
}

export async function logIn(token: string): Promise<void> {
  const headers = { "Content-Type": "application/json" };
  const res = await fetch("/api/login", { method: "POST", headers, body: JSON.stringify({ token }) });
  if (res.status !== 204) await answerOf(res);
}

export async function logOut(): Promise<void> {
  await fetch("/api/logout", { method: "POST" });
}

export interface Live {
  /** All there are, when it begins and whenever something may have been missed. */
  whole(deployments: readonly PageDeployment[]): void;
  delta(delta: PageDelta): void;
  state(live: boolean): void;
  noAccess(error: NoAccessError): void;
}

const againMs = 5_000;

/** Returns how to stop. */
export function listen(live: Live): () => void {
  let stopped = false;
  let source: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  /** What comes while the whole is still asked for belongs after it. */
  let early: PageDelta[] | undefined;

  async function readAll(): Promise<void> {
    early = [];
    try {
      live.whole(await ask<PageDeployment[]>("deployments"));
      for (const delta of early) live.delta(delta);
      live.state(true);
    } catch (error) {
      if (error instanceof NoAccessError) return end(error);
      again();
    } finally {
      early = undefined;
    }
  }

  function end(error: NoAccessError): void {
    stop();
    live.noAccess(error);
  }

  function again(): void {
    live.state(false);
    source?.close();
    clearTimeout(timer);
    if (!stopped) timer = setTimeout(open, againMs);
  }

  function open(): void {
    if (stopped) return;
    source = new EventSource("/api/events");
    source.addEventListener("open", (event) => {
      if (event instanceof MessageEvent) void readAll(); // the server's own word, not the connection's
    });
    source.addEventListener("deployments", (event) => {
      const delta = JSON.parse((event as MessageEvent<string>).data) as PageDelta;
      if (early) early.push(delta);
      else live.delta(delta);
    });
    source.addEventListener("error", () => {
      live.state(false);
      // Refused, instead of broken off: the browser does not try again by itself, and only an answer says why.
      if (source?.readyState === EventSource.CLOSED) ask("deployments").then(again, noAccessOrAgain);
    });
  }

  function noAccessOrAgain(error: unknown): void {
    if (error instanceof NoAccessError) end(error);
    else again();
  }

  function stop(): void {
    stopped = true;
    clearTimeout(timer);
    source?.close();
  }

  open();
  return stop;
}
