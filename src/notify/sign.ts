/**
 * Requests that receivers can verify, as the Standard Webhooks specification describes: https://www.standardwebhooks.com.
 */
import { createHmac } from "node:crypto";
import { NotifyError } from "../errors.ts";
import { parseSigningKey } from "../kit/signing-key.ts";
import type { Notification } from "../model.ts";
import { bearerOf, checkAddress } from "./address.ts";
import { fit } from "./fit.ts";
import { post } from "./post.ts";

export interface SignedPostOptions {
  /** http or https, without credentials. */
  readonly url: string;
  /** `whsec_…`; each of them signs, so that a receiver can change its key. Without any, requests are not signed. */
  readonly secrets: readonly string[];
  /** Sent as `Authorization: Bearer`. */
  readonly token?: string | undefined;
}

export interface SignedPost {
  readonly message: Notification;
  readonly contentType: string;
  readonly mostBytes: number;
  readonly render: (message: Notification) => string;
  readonly signal: AbortSignal;
}

/** Throws an Error if an option cannot be used; it does not contain the option's value, which may be a secret. */
export function createSignedPost({ url, secrets, token }: SignedPostOptions): (request: SignedPost) => Promise<void> {
  const host = checkAddress(url);
  const login = bearerOf(token);
  const keys = secrets.map((secret, index) => {
    const key = parseSigningKey(secret);
    if (key === undefined)
      throw new Error(`signing key ${index + 1}: must be whsec_ followed by 24 to 64 bytes in base64`);
    return key;
  });

  return async ({ message, contentType, mostBytes, render, signal }) => {
    const body = fit(message, mostBytes, render);
    if (body === undefined)
      throw new NotifyError("refused", `${host}: the body exceeds ${mostBytes} bytes even without lines: shorten it`);
    const headers = {
      "content-type": contentType,
      ...login,
      ...signatureHeaders(message.id, body, keys),
    };
    await post({ url, headers, body, signal });
  };
}

/** The id is the same for all attempts, so that a receiver can recognize a repetition; the time is that of this one. */
function signatureHeaders(id: string, body: string, keys: readonly Buffer[]): Record<string, string> {
  const timestamp = String(Math.floor(Date.now() / 1_000));
  const signatures = keys.map((key) => {
    const digest = createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64");
    return `v1,${digest}`;
  });
  return {
    "webhook-id": id,
    "webhook-timestamp": timestamp,
    ...(signatures.length > 0 && { "webhook-signature": signatures.join(" ") }),
  };
}
