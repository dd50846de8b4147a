/** Sends one HTTP request to the server. */

const patienceMs = 30_000;

export interface ServerAnswer {
  readonly url: string;
  readonly ok: boolean;
  readonly status: number;
  readonly text: string;
}

/** URL of a listener on this machine. */
export function localAddress({ host, port }: { readonly host: string; readonly port: number }): string {
  const reachable = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host;
  return `http://${reachable.includes(":") ? `[${reachable}]` : reachable}:${port}`;
}

/** Throws with advice if the server does not answer. */
export async function callServer(url: string, request: RequestInit): Promise<ServerAnswer> {
  try {
    const signal = AbortSignal.timeout(patienceMs);
    const response = await fetch(url, { ...request, redirect: "manual", signal });
    return { url, ok: response.ok, status: response.status, text: await response.text() };
  } catch (error) {
    const { message, cause } = error as Error;
    const why = cause instanceof Error ? cause.message || (cause as NodeJS.ErrnoException).code : message;
    throw new Error(`cannot reach ${url}: ${why}. Check that the server runs there, or use --url`, {
      cause: error,
    });
  }
}
