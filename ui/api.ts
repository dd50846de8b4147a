/** Asks the server, tells it what is wanted, and listens to it. */
import type { Access } from "./access.ts";
import type { PageDelta, PageDeployment } from "../routes/page-facts.ts";

/** Nobody is logged in, or not any more. */
export class NoAccessError extends Error {
  override name = "NoAccessError";
  readonly logins: Logins;

  constructor(message: string, logins: Logins) {
    super(message);
    this.logins = logins;
  }
}

/** By which ways people may log in here. */
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

/** The server takes the request for one of another site's. */
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

let proof: string | undefined;

export async function askAccess(): Promise<Access> {
  const { csrf, ...access } = await ask<Access & { csrf?: string }>("access");
  proof = csrf;
  return access;
}

/** Whoever shows the page hears of it. */
export function tellLost(error: unknown): void {
  if (error instanceof NoAccessError) dispatchEvent(new CustomEvent("no-access", { detail: error }));
}

/** Sends what somebody wants done. */
export async function send<T>(path: string, body: object = {}): Promise<T> {
  try {
    return await sendOnce<T>(path, body);
  } catch (error) {
    // The session is over; by which ways to log in again is said to who looks.
    if (error instanceof NoAccessError) await askAccess().catch(tellLost);
    // The session is another one by now: in another tab somebody has logged in anew.
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

/** Resolves with where to log out as well, if there is such a place. */
export async function logOut(): Promise<string | undefined> {
  const res = await fetch("/api/logout", { method: "POST" });
  return res.status === 200 ? ((await res.json()) as { leave?: string }).leave : undefined;
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
