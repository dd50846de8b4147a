/** What the webhooks of all git hosts have in common. */
import type { ForgeKind, GitEvent } from "../model.ts";

/** The webhooks of one configured forge: verifies and parses deliveries. */
export interface WebhookSource {
  readonly id: string;
  readonly kind: ForgeKind;
  /** Whether the host itself sent these bytes. Never throws. */
  verify(headers: DeliveryHeaders, body: Buffer): Promise<Verification>;
  /** Never throws: an unreadable delivery is an irrelevant event that says why. */
  parse(headers: DeliveryHeaders, body: Buffer): GitEvent;
}

/** `reason` is sent to the client, so it contains no secret and nothing of the body. */
export type Verification = { readonly genuine: true } | { readonly genuine: false; readonly reason: string };

export interface WebhookSourceOptions {
  readonly id: string;
  /** Any of them may have signed a delivery, so that a secret can be rotated without a gap. */
  readonly secrets: readonly string[];
  /** If there is no secret: accept every delivery as genuine. */
  readonly allowUnsigned: boolean;
  /** The id or client id of the GitHub App that the forge logs in as. */
  readonly appId?: string | undefined;
}

/** Lower-case name → all values as they were received. Node's own `headers` joins repeated values or drops them. */
export type DeliveryHeaders = ReadonlyMap<string, readonly string[]>;

/** From Node's `rawHeaders`: names and values in turn. */
export function readHeaders(rawHeaders: readonly string[]): DeliveryHeaders {
  const headers = new Map<string, string[]>();
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = (rawHeaders[i] ?? "").toLowerCase();
    const values = headers.get(name) ?? [];
    values.push(rawHeaders[i + 1] ?? "");
    headers.set(name, values);
  }
  return headers;
}

/** Returns the header's only value; `undefined` if it is missing, empty or repeated: a repeated header is ambiguous. */
export function findHeader(headers: DeliveryHeaders, name: string): string | undefined {
  const values = headers.get(name);
  return values?.length === 1 ? values[0] || undefined : undefined;
}

export const genuine: Verification = { genuine: true };

export function refused(reason: string): Verification {
  return { genuine: false, reason };
}

/** Says in one sentence why a signature header cannot be used. */
export function signatureProblem(headers: DeliveryHeaders, name: string): string {
  const count = headers.get(name.toLowerCase())?.length ?? 0;
  if (count > 1) return `The header ${name} is present ${count} times.`;
  return `The header ${name} is missing or empty: set the webhook's secret at the git host.`;
}
