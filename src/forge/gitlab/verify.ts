/**
 * GitLab authenticates its deliveries with a plain token, or with a signature (https://www.standardwebhooks.com) by a
 * `whsec_` key.
 */
import { createHmac } from "node:crypto";
import type { Clock } from "../../ports.ts";
import { fitsAny, signatureFitsAny } from "../secrets.ts";
import {
  type DeliveryHeaders,
  type Verification,
  type WebhookSourceOptions,
  findHeader,
  genuine,
  refused,
  signatureProblem,
} from "../webhook-source.ts";

const signingKeyPrefix = "whsec_";
/** Tolerated difference from the sender's clock; an older delivery is a replay. */
const toleranceMs = 5 * 60_000;

export function createGitlabVerifier({
  id,
  secrets,
  allowUnsigned,
  clock,
}: WebhookSourceOptions & { readonly clock: Clock }): (
  headers: DeliveryHeaders,
  body: Buffer,
) => Promise<Verification> {
  const tokens = secrets.filter((secret) => !secret.startsWith(signingKeyPrefix));
  const keys = secrets.filter((secret) => secret.startsWith(signingKeyPrefix)).map((secret) => decodeKey(id, secret));

  // A webhook may have a token and a signing key at once: during a migration either is accepted.
  return async function verify(headers, body) {
    if (secrets.length === 0 && allowUnsigned) return genuine;
    const signed = keys.length > 0 ? verifySignature(headers, body, keys, clock.now()) : undefined;
    if (signed?.genuine) return signed;
    const plain = tokens.length > 0 ? verifyToken(headers, tokens) : undefined;
    if (plain?.genuine) return plain;
    const answer = headers.has("webhook-signature") ? (signed ?? plain) : (plain ?? signed);
    return answer ?? refused("No secret is configured for this forge.");
  };
}

function verifyToken(headers: DeliveryHeaders, tokens: readonly string[]): Verification {
  const token = findHeader(headers, "x-gitlab-token");
  if (token === undefined) return refused(signatureProblem(headers, "X-Gitlab-Token"));
  return fitsAny(token, tokens)
    ? genuine
    : refused("The token does not match: compare the webhook's secret token with the configured ones.");
}

function verifySignature(headers: DeliveryHeaders, body: Buffer, keys: readonly Buffer[], now: number): Verification {
  const [messageId, timestamp, signatures] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map((name) =>
    findHeader(headers, name),
  );
  if (messageId === undefined) return refused(signatureProblem(headers, "webhook-id"));
  if (timestamp === undefined) return refused(signatureProblem(headers, "webhook-timestamp"));
  if (signatures === undefined) return refused(signatureProblem(headers, "webhook-signature"));
  if (!/^\d{1,12}$/.test(timestamp) || Math.abs(now - Number(timestamp) * 1_000) > toleranceMs) {
    return refused(
      "The delivery's timestamp is more than five minutes off: send the delivery again, and check both clocks.",
    );
  }
  const expected = keys.map(
    (key) => `v1,${createHmac("sha256", key).update(`${messageId}.${timestamp}.`).update(body).digest("base64")}`,
  );
  return signatures.split(" ").some((signature) => signatureFitsAny(signature, expected))
    ? genuine
    : refused("The signature does not match: compare the webhook's signing token with the configured ones.");
}

/** Throws if the key is not base64: such a key could never match. */
function decodeKey(id: string, secret: string): Buffer {
  const text = secret.slice(signingKeyPrefix.length);
  if (!/^[A-Za-z0-9+/]{16,}={0,2}$/.test(text)) {
    throw new Error(`forge ${id}: a signing key is "whsec_" and base64 of 12 bytes or more; copy it again from GitLab`);
  }
  return Buffer.from(text, "base64");
}
