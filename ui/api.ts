/** The client of the page's API: reads, writes and server-sent events. */
import type { Access } from "./access.ts";
import type { PageDelta, PageDeployment } from "../src/web/facts.ts";

/** The user is not logged in, or the session has ended. */
export class NoAccessError extends Error {
  override name = "NoAccessError";
  readonly logins: Logins;

  constructor(message: string, logins: Logins) {
    super(message);
    this.logins = logins;
  }
}

/** The available ways to log in. */
export interface Logins {
  readonly token: boolean;
  readonly oidc: boolean;
}

interface Refusal {
  readonly error?: string;
  readonly hint?: string;
  readonly byToken?: boolean;
  readonly logins?: Logins;
}

/** The server rejected the CSRF token. */
class ProofError extends Error {
  override name = "ProofError";
}

async function answerOf(res: Response): Promise<unknown> {
  if (res.ok) return res.status === 204 ? undefined : res.json();
  const body = (await res.json().catch(() => undefined)) as Refusal | undefined;
  const words = [body?.error ?? `The server responded with status ${res.status}.`, body?.hint]
    .filter(Boolean)
    .join(" ");
  if (res.status === 401)
    throw new NoAccessError(words, body?.logins ?? { token: body?.byToken !== false, oidc: false });
  const unproven = res.status === 403 && body?.error === "The request has no valid CSRF token.";
  throw unproven ? new ProofError(words) : new Error(words);
}

export async function ask<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await answerOf(await fetch(`/api/${path}`, signal ? { signal } : {}))) as T;
}

export interface Known<T> {
  readonly value: T;
  readonly tag: string | undefined;
}

/** Reads one pull request. `known`: what was read before, which is returned again if nothing has changed. */
export async function askReport<T>(
  path: string,
  { link, known, signal }: { link: string | undefined; known: Known<T> | undefined; signal: AbortSignal },
): Promise<Known<T>> {
  const headers = {
    ...headersOf(link),
    ...(known?.tag !== undefined && { "If-None-Match": known.tag }),
  };
  const res = await fetch(`/api/${path}`, { headers, signal });
  if (res.status === 304 && known !== undefined) return known;
  return { value: (await answerOf(res)) as T, tag: res.headers.get("etag") ?? undefined };
}

/** Reads what belongs to one pull request. `link`: as in askReport. */
export async function askLinked<T>(path: string, link: string | undefined): Promise<T> {
  return (await answerOf(await fetch(`/api/${path}`, { headers: headersOf(link) }))) as T;
}

function headersOf(link: string | undefined): Record<string, string> {
  return link === undefined ? {} : { "X-Towline-Link": link };
}

let proof: string | undefined;

export async function askAccess(): Promise<Access> {
  const { csrf, ...access } = await ask<Access & { csrf?: string }>("access");
  proof = csrf;
  return access;
}

/** Notifies the page that the session has ended. */
export function tellLost(error: unknown): void {
  if (error instanceof NoAccessError) dispatchEvent(new CustomEvent("no-access", { detail: error }));
}

/** Sends a write request. */
export async function send<T>(path: string, body: object = {}): Promise<T> {
  try {
    return await sendOnce<T>(path, body);
  } catch (error) {
    // The session is over; this request returns the available ways to log in.
    if (error instanceof NoAccessError) await askAccess().catch(tellLost);
    // The session was replaced by a login in another tab.
    if (!(error instanceof ProofError)) throw error;
    await askAccess();
    return sendOnce<T>(path, body);
  }
}

async function sendOnce<T>(path: string, body: object): Promise<T> {
  const headers = { "Content-Type": "application/json", ...(proof !== undefined && { "X-Towline-Csrf": proof }) };
  const res = await fetch(`/api/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  return (await answerOf(res)) as T;
}

export async function logIn(token: string): Promise<void> {
  const headers = { "Content-Type": "application/json" };
  const res = await fetch("/api/login", { method: "POST", headers, body: JSON.stringify({ token }) });
  if (res.status !== 204) await answerOf(res);
}

/** Resolves with the identity provider's logout URL, if there is one. */
export async function logOut(): Promise<string | undefined> {
  const res = await fetch("/api/logout", { method: "POST" });
  return res.status === 200 ? ((await res.json()) as { leave?: string }).leave : undefined;
}

export interface Live {
  /** Receives all deployments at the start and whenever events may have been missed. */
  whole(deployments: readonly PageDeployment[]): void;
  delta(delta: PageDelta): void;
  state(live: boolean): void;
  noAccess(error: NoAccessError): void;
}

const againMs = 5_000;

/** Listens to changes. Returns a function that stops listening. */
export function listen(live: Live): () => void {
  let stopped = false;
  let source: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  /** Deltas that arrive while the whole list is being read; applied after it. */
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
      if (event instanceof MessageEvent) void readAll(); // sent by the server, not the connection's own event
    });
    source.addEventListener("deployments", (event) => {
      const delta = JSON.parse((event as MessageEvent<string>).data) as PageDelta;
      if (early) early.push(delta);
      else live.delta(delta);
    });
    source.addEventListener("error", () => {
      live.state(false);
      // Rejected rather than disconnected: the browser does not retry, and only a response has the reason.
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
