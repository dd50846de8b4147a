/** One request to a target of notifications: limited in time and size, never redirected, never retried here. */
import { NotifyError } from "../errors.ts";
import { withTimeout } from "../kit/deadline.ts";
import { codeOf, parseRetryAfter } from "../kit/http-failure.ts";
import { parseJson } from "../kit/json.ts";

export interface Post {
  readonly method?: "POST" | "PUT" | "PATCH";
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string;
  readonly signal: AbortSignal;
  /** Statuses besides 2xx with which the target has what it needs. */
  readonly accepts?: readonly number[];
  /** The target's own words for an error, which must contain no secret. */
  readonly findWords?: (answer: PostAnswer) => string | undefined;
}

export interface PostAnswer {
  readonly status: number;
  readonly headers: Headers;
  /** The beginning of the body. */
  readonly text: string;
  /** `undefined` if the body is not JSON. */
  readonly json: unknown;
}

/** The Standard Webhooks specification advises 15 to 30 s. */
const timeoutMs = 15_000;
/** Answers are an id or an error. */
const mostAnswerBytes = 64_000;
/** Longer waits than this are a mistake of the target or of a clock. */
const longestWaitMs = 3_600_000;

/** Returns the answer if its status is 2xx or accepted. Throws NotifyError, or the signal's reason. */
export async function post(request: Post): Promise<PostAnswer> {
  const { method = "POST", url, headers = {}, body, signal, accepts = [], findWords } = request;
  signal.throwIfAborted();
  // Addresses of many targets are secrets: messages contain the host only.
  const { host } = new URL(url);
  const inTime = withTimeout(timeoutMs, signal);
  let answer: PostAnswer;
  try {
    const response = await fetch(url, {
      ...{ method, body, redirect: "manual", signal: inTime },
      headers: { "user-agent": "towline", "content-type": "application/json", ...headers },
    });
    const text = await readStart(response);
    answer = { status: response.status, headers: response.headers, text, json: parseJson(text) };
  } catch (error) {
    signal.throwIfAborted();
    const why = inTime.aborted ? `no response within ${timeoutMs / 1_000} s` : `no connection (${codeOf(error)})`;
    throw new NotifyError("later", `${host}: ${why}`);
  }
  const { status } = answer;
  if ((status >= 200 && status < 300) || accepts.includes(status)) return answer;
  throw toNotifyError(answer, host, findWords?.(answer));
}

/** The reason for a status other than 2xx. `said`: the target's own words, which must contain no secret. */
export function toNotifyError({ status, headers }: Omit<PostAnswer, "text" | "json">, host: string, said = "") {
  const words = said === "" ? "" : `: ${said}`;
  const asked = parseRetryAfter(headers, Date.now());
  const retryAfterMs = asked === undefined ? undefined : Math.min(asked, longestWaitMs);
  if (status === 429) return new NotifyError("later", `${host}: too many requests (429)${words}`, { retryAfterMs });
  if (status >= 500 || status === 408 || status === 409 || status === 425)
    return new NotifyError("later", `${host}: response status ${status}${words}`, { retryAfterMs });
  if (status >= 300 && status < 400)
    return new NotifyError("refused", `${host}: is redirected (${status}), which is not followed: check the address`);
  if (status === 401 || status === 403)
    return new NotifyError("refused", `${host}: the login or the address is rejected (${status})${words}`);
  if (status === 404 || status === 410)
    return new NotifyError("refused", `${host}: there is no such address (${status})${words}: create a new one`);
  if (status === 413) return new NotifyError("refused", `${host}: the message is too large (413)`);
  return new NotifyError("refused", `${host}: the message was rejected (${status})${words}`);
}

/** Reads no more than the limit, so that an endless response does not fill the memory. */
async function readStart(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    chunks.push(chunk);
    bytes += chunk.byteLength;
    // Leaving the loop closes the connection.
    if (bytes >= mostAnswerBytes) break;
  }
  return Buffer.concat(chunks).toString("utf8", 0, mostAnswerBytes);
}
