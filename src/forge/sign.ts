/** Signs a delivery as its host would: to replay a recorded one, or to send a handwritten one. */
import type { ForgeKind } from "../model.ts";
import { createHmac } from "node:crypto";

/** Names of the headers that authenticate a delivery; a caller that signs again has to drop the existing ones. */
export const proofHeaders: ReadonlySet<string> = new Set([
  "x-hub-signature",
  "x-hub-signature-256",
  "x-gitea-signature",
  "x-forgejo-signature",
  "x-gogs-signature",
  "x-gitlab-token",
  "webhook-id",
  "webhook-timestamp",
  "webhook-signature",
]);

export interface Signing {
  readonly kind: ForgeKind;
  readonly secret: string;
  readonly body: Buffer;
  readonly delivery: string;
  /** Epoch milliseconds. */
  readonly now: number;
}

/** Returns names and values in turn. */
export function signDelivery({ kind, secret, body, delivery, now }: Signing): [name: string, value: string][] {
  const hmac = (key: string | Buffer) => createHmac("sha256", key);
  if (kind === "github") return [["X-Hub-Signature-256", `sha256=${hmac(secret).update(body).digest("hex")}`]];
  if (kind === "gitea") return [["X-Gitea-Signature", hmac(secret).update(body).digest("hex")]];
  if (!secret.startsWith("whsec_")) return [["X-Gitlab-Token", secret]];
  const timestamp = String(Math.floor(now / 1_000));
  const key = Buffer.from(secret.slice("whsec_".length), "base64");
  const signature = hmac(key).update(`${delivery}.${timestamp}.`).update(body).digest("base64");
  return [
    ["webhook-id", delivery],
    ["webhook-timestamp", timestamp],
    ["webhook-signature", `v1,${signature}`],
  ];
}
