/** Translates a registry's responses and connection errors for the user who has to act on them. */
import type { IncomingMessage } from "node:http";
import { SourceError, type SourceProblem } from "../errors.ts";
import { readBody, SilenceError } from "./http.ts";
import type { OciCredential } from "../model.ts";
import { describeLogin } from "./registry-login.ts";

/** An unexpected response. */
export class RegistryAnswer extends Error {
  override name = "RegistryAnswer";
  readonly status: number;
  /** The registry's own error code, e.g. `MANIFEST_UNKNOWN`. */
  readonly code: string | undefined;

  constructor(status: number, code?: string) {
    super(`the registry responded with status ${status}`);
    this.status = status;
    this.code = code;
  }
}

const maxErrorBytes = 64 * 1024;

/** Reads the status and the error code of a response. The rest of the body is dropped, because it may be any text. */
export async function toRegistryAnswer(answer: IncomingMessage): Promise<RegistryAnswer> {
  const body = await readBody(answer, maxErrorBytes).catch(() => Buffer.alloc(0));
  const code = /"code"\s*:\s*"([A-Z_]{1,40})"/.exec(body.toString("utf8"))?.[1];
  return new RegistryAnswer(answer.statusCode ?? 0, code);
}

export interface RegistryRequest {
  /** For messages: `registry.test/org/app:v1`. */
  readonly label: string;
  /** `tag v1` or `digest sha256:…`. */
  readonly reference: string;
  readonly login: OciCredential | undefined;
}

const certificateCodes = /^(?:.*CERT.*|.*SELF_SIGNED.*|UNABLE_TO_.*|HOSTNAME_MISMATCH|INVALID_CA|INVALID_PURPOSE)$/;

/** The server speaks TLS, but its certificate is not trusted. */
export function isCertificateError(error: unknown): boolean {
  return certificateCodes.test(codeOf(error));
}

/** The connection was interrupted or not established: a retry may help. */
export function isBrokenOff(error: unknown): boolean {
  return ["ECONNRESET", "EPIPE", "EAI_AGAIN", "ERR_STREAM_PREMATURE_CLOSE"].includes(codeOf(error));
}

/** Translates an error of the registry or the network to a SourceError; other errors are returned unchanged. */
export function explainRegistry(error: unknown, asked: RegistryRequest): unknown {
  const about = (problem: SourceProblem, text: string, cause?: unknown) =>
    new SourceError(problem, `cannot read ${asked.label}: ${text}`, { cause });
  if (error instanceof SourceError) return about(error.problem, error.message, error.cause);
  if (error instanceof RegistryAnswer) return about(...meaningOf(error, asked));
  if (error instanceof SilenceError) return about("unreachable", error.message);
  if (!(error instanceof Error) || !("code" in error)) return error;
  const code = codeOf(error);
  if (isCertificateError(error)) {
    return about(
      "unreachable",
      `the server's certificate is not trusted (${error.message}): add its CA to ca of the secret`,
    );
  }
  if (/^ERR_(?:SSL|OSSL)|^EPROTO$/.test(code))
    return about("unreachable", `cannot establish a TLS connection (${code})`);
  if (/^E(?:CONN|HOST|NET|PIPE|AI_|TIMEDOUT)|^HPE_|^ERR_STREAM_PREMATURE_CLOSE/.test(code)) {
    return about("unreachable", error.message);
  }
  return error;
}

function meaningOf({ status, code }: RegistryAnswer, { reference, login }: RegistryRequest): [SourceProblem, string] {
  const who = describeLogin(login);
  if (status === 401) return ["unauthorized", `authentication failed: 401 Unauthorized (${who})`];
  if (status === 403) return ["unauthorized", `access is denied: 403 Forbidden (${who})`];
  if (status === 404 && code === "MANIFEST_UNKNOWN") return ["ref-not-found", `there is no ${reference} (${who})`];
  if (status === 404) return ["not-found", `no such repository, or this login has no access to it (${who})`];
  if (status === 429) return ["unreachable", "the registry's rate limit is exceeded: 429 Too Many Requests"];
  return [
    status >= 500 ? "unreachable" : "refused",
    `the registry responded with status ${status}${code ? ` ${code}` : ""}`,
  ];
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}
