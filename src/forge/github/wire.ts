/** One HTTP request to GitHub with its own client library; all failures are translated to ForgeError. */
import { createPrivateKey } from "node:crypto";
import type { Octokit } from "@octokit/core";
import { z } from "zod";
import type { ForgeError } from "../../errors.ts";
import { withTimeout } from "../../kit/deadline.ts";
import type { Logger } from "../../log.ts";
import { TooLargeError } from "../answer-body.ts";
import { codeOf } from "../../kit/http-failure.ts";
import { createFetchWhole } from "./fetch-whole.ts";
import { type GithubAnswer, type RequestDescription, problemOf, toForgeError } from "./problem.ts";

export interface WireOptions {
  readonly apiUrl: string;
  readonly timeoutMs: number;
  readonly log: Logger;
  /** Requests are sent as this App itself, not as one of its installations. */
  readonly app?: { readonly appId: string; readonly privateKey: string } | undefined;
  /** Receives the headers of each response. */
  readonly onAnswer?: ((headers: Headers) => void) | undefined;
}

export interface Wire {
  /** Resolves for success and 304 (not modified); throws ForgeError, or the signal's reason. */
  request(
    route: string,
    parameters: Parameters,
    question: RequestDescription,
    signal?: AbortSignal,
  ): Promise<GithubAnswer>;
}

export type Parameters = Readonly<Record<string, unknown>> & { readonly headers?: Readonly<Record<string, string>> };

export function createWire(options: WireOptions): Wire {
  const { apiUrl, timeoutMs } = options;
  let octokit: Promise<Octokit> | undefined;

  async function send(route: string, parameters: Parameters, signal: AbortSignal): Promise<GithubAnswer> {
    const { request } = await (octokit ??= createOctokit(options));
    try {
      return await request(route, { ...parameters, request: { signal } });
    } catch (error) {
      const { data: answered } = Answered.safeParse(error);
      if (answered === undefined) throw error;
      return answered.response;
    }
  }

  return {
    async request(route, parameters, question, signal) {
      const inTime = withTimeout(timeoutMs, signal);
      let answer: GithubAnswer;
      try {
        answer = await send(route, parameters, inTime);
      } catch (error) {
        signal?.throwIfAborted();
        if (inTime.aborted) {
          throw problemOf(
            "unreachable",
            question,
            `${new URL(apiUrl).host} did not respond within ${timeoutMs / 1_000} s`,
          );
        }
        throw toProblem(error, question, apiUrl);
      }
      const { status } = answer;
      if ((status < 200 || status >= 300) && status !== 304) throw toForgeError(answer, question);
      return answer;
    },
  };
}

/** The client is loaded on first use: servers without a GitHub need neither its memory nor its load time. */
async function createOctokit({ apiUrl, log, app, onAnswer }: WireOptions): Promise<Octokit> {
  const { Octokit } = await import("@octokit/core");
  const quietly = {
    debug: () => undefined,
    info: () => undefined,
    // octokit warns about deprecations of what we use, and about clock differences.
    warn: (message: string) => log.warn({ api: apiUrl }, message),
    error: (message: string) => log.error({ api: apiUrl }, message),
  };
  const options = {
    baseUrl: apiUrl,
    userAgent: "towline",
    log: quietly,
    request: { fetch: createFetchWhole(onAnswer), log: quietly },
  };
  if (app === undefined) return new Octokit(options);
  const { createAppAuth } = await import("@octokit/auth-app");
  const auth = { appId: app.appId, privateKey: readKey(app.privateKey) };
  return new Octokit({ ...options, authStrategy: createAppAuth, auth });
}

class KeyError extends Error {}

/** Converts any private key to the format that octokit can sign with. Errors quote nothing of the key. */
function readKey(pem: string): string {
  try {
    const key = createPrivateKey(pem);
    if (key.asymmetricKeyType === "rsa") return key.export({ type: "pkcs8", format: "pem" }).toString();
  } catch {
    // Something that is not a key is treated like a key of another kind.
  }
  throw new KeyError();
}

/** What octokit throws for an error response. */
const Answered = z.object({
  response: z.object({
    status: z.int(),
    headers: z.record(z.string(), z.union([z.string(), z.number(), z.undefined()])),
    data: z.unknown().optional(),
  }),
});

/** octokit's errors contain the whole request: only fetch's own error is passed on. */
function toProblem(error: unknown, question: RequestDescription, apiUrl: string): ForgeError {
  if (error instanceof KeyError) {
    return problemOf(
      "unauthorized",
      question,
      "the App's private key cannot be read: it must be the file downloaded from GitHub",
    );
  }
  const cause = error instanceof Error && error.name === "HttpError" ? error.cause : error;
  if (cause instanceof TooLargeError) return problemOf("refused", question, cause.message);
  const why = `no connection to ${new URL(apiUrl).host} (${codeOf(cause)})`;
  return problemOf("unreachable", question, why, cause);
}
