/** One request to a forge's API: limited in time and size, never redirected with the token, never retried here. */
import type { z } from "zod";
import { ForgeError } from "../errors.ts";
import { withTimeout } from "../kit/deadline.ts";
import { codeOf } from "../kit/http-failure.ts";
import { parseJson } from "../kit/json.ts";
import { readBody, TooLargeError } from "./answer-body.ts";
import { toForgeError } from "./forge-failure.ts";

export interface Question {
  readonly method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Relative to the API's base URL, encoded: see `pathOf`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  readonly body?: Readonly<Record<string, unknown>>;
  readonly signal?: AbortSignal | undefined;
  /** Whether a response with an error status is returned instead of thrown. */
  readonly excuses?: ((answer: Pick<Answer, "status" | "json">) => boolean) | undefined;
}

export interface Answer {
  /** Names the request and the host, for messages. */
  readonly request: string;
  readonly status: number;
  readonly headers: Headers;
  /** `undefined` if the body is not JSON. */
  readonly json: unknown;
}

/** Throws ForgeError, or the signal's reason. */
export type Ask = (question: Question) => Promise<Answer>;

export interface AskOptions {
  readonly apiUrl: string;
  readonly headers: Readonly<Record<string, string>>;
  /** What the login needs: reported when the host refuses it, or answers "not found". */
  readonly hint: string;
  /** Must not appear in messages, even if the host echoes it. */
  readonly token: string;
  readonly timeoutMs?: number | undefined;
  /** Receives the headers of each response. */
  readonly onAnswer?: ((headers: Headers) => void) | undefined;
}

const defaultTimeoutMs = 10_000;

export function createAsk({ apiUrl, headers, hint, token, timeoutMs = defaultTimeoutMs, onAnswer }: AskOptions): Ask {
  const base = apiUrl.replace(/\/+$/, "");
  const { host } = new URL(base);

  return async function ask({ method = "GET", path, query = {}, body, signal, excuses }) {
    signal?.throwIfAborted();
    const request = `${method} ${path} at ${host}`;
    const url = new URL(`${base}${path}`);
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined) url.searchParams.set(name, String(value));
    }
    const inTime = withTimeout(timeoutMs, signal);
    try {
      const response = await fetch(url, {
        method,
        redirect: "manual",
        signal: inTime,
        headers: {
          accept: "application/json",
          "user-agent": "towline",
          ...(body && { "content-type": "application/json" }),
          ...headers,
        },
        ...(body && { body: JSON.stringify(body) }),
      });
      onAnswer?.(response.headers);
      const json = parseJson((await readBody(response)).toString("utf8"));
      const answer = { request, status: response.status, headers: response.headers, json };
      if (!response.ok && !excuses?.(answer))
        throw toForgeError(answer, request, { hint, said: findWords(json, token) });
      return answer;
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof ForgeError) throw error;
      if (error instanceof TooLargeError) throw new ForgeError("refused", `${request}: ${error.message}`);
      const why = inTime.aborted ? `no response within ${timeoutMs / 1_000} s` : `no connection (${codeOf(error)})`;
      throw new ForgeError("unreachable", `${request}: ${why}`, { cause: error });
    }
  };
}

/** Builds a path of encoded segments: a name cannot lead out of its segment. */
export function pathOf(strings: TemplateStringsArray, ...values: readonly (string | number)[]): string {
  return String.raw({ raw: strings }, ...values.map((value) => segmentOf(String(value))));
}

/** All URL parsers take dots for directories, encoded or not; and no name consists of dots only. */
function segmentOf(value: string): string {
  return /^\.{1,2}$/.test(value) ? "-" : encodeURIComponent(value);
}

/** Parses a response as the host documents it. Throws ForgeError for anything else. */
export function readAnswer<T extends z.ZodType>(
  type: T,
  { json, request }: Pick<Answer, "json" | "request">,
): z.infer<T> {
  const { data, error } = type.safeParse(json);
  if (error === undefined) return data;
  const [issue] = error.issues;
  const where = issue?.path.join(".") || "the answer";
  const text = `returned an unexpected response (${where}: ${issue?.message}): is apiUrl the URL of the API?`;
  throw new ForgeError("unreachable", `${request}: ${text}`);
}

/** Resolves to the result, or to `undefined` if the host answers "not found". */
export async function unlessGone<T>(ask: () => Promise<T>): Promise<T | undefined> {
  try {
    return await ask();
  } catch (error) {
    if (error instanceof ForgeError && error.problem === "not-found") return undefined;
    throw error;
  }
}

/** Returns the host's own reason for a refusal, as one short line; `undefined` if it could contain the token. */
function findWords(json: unknown, token: string): string | undefined {
  if (typeof json !== "object" || json === null || !("message" in json)) return undefined;
  const text = typeof json.message === "string" ? json.message : JSON.stringify(json.message);
  const line = text?.replaceAll(/[\s\p{Cc}]+/gu, " ").trim() ?? "";
  return line === "" || line.includes(token) ? undefined : JSON.stringify(line.slice(0, 200));
}
