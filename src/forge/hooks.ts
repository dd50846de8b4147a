/** Creates missing webhooks on the forges, and repairs those that differ. */
import { ForgeError } from "../errors.ts";

/** The events that the host has to send for a repository, and the address. */
export interface WantedHook {
  readonly url: string;
  readonly secret: string;
}

/** A webhook that sends to our address. */
export interface Hook {
  /** What is wrong, as text for users; empty: everything is right, as far as the host shows it. */
  readonly lacks: readonly string[];
  /**
   * Fixes what it lacks and keeps the rest. No host shows the secret: it is set only on request, or if there is none.
   */
  repair(how: { readonly rotate: boolean }): Promise<void>;
}

/** The webhooks of one host, with one login. All methods throw ForgeError. */
export interface Hooks {
  /** The permission that the login needs, as text for users. */
  readonly needs: string;
  /** The webhooks of a repository that send to our address. */
  ours(repoName: string): Promise<readonly Hook[]>;
  create(repoName: string): Promise<void>;
}

export interface EnsureOptions {
  readonly rotate: boolean;
  readonly dryRun: boolean;
}

export interface Ensured {
  readonly name: string;
  readonly result: "created" | "repaired" | "unchanged" | "failed";
  readonly why: readonly string[];
  /** How long the host requires us to wait. */
  readonly waitMs?: number | undefined;
}

/** Problems of this repository are returned, never thrown. */
export async function ensureHook(hooks: Hooks, name: string, { rotate, dryRun }: EnsureOptions): Promise<Ensured> {
  return attempt(name, hooks.needs, async () => {
    const found = await hooks.ours(name);
    const [hook] = found.toSorted((a, b) => a.lacks.length - b.lacks.length);
    if (hook === undefined) {
      if (!dryRun) await hooks.create(name);
      return { name, result: "created", why: [] };
    }
    const more = found.length > 1 ? [`${found.length} webhooks have this address: remove all but one`] : [];
    if (hook.lacks.length === 0 && !rotate) return { name, result: "unchanged", why: more };
    if (!dryRun) await hook.repair({ rotate });
    return { name, result: "repaired", why: [...hook.lacks, ...(rotate ? ["the secret was set again"] : []), ...more] };
  });
}

export async function attempt(name: string, needs: string, what: () => Promise<Ensured>): Promise<Ensured> {
  try {
    return await what();
  } catch (error) {
    if (!(error instanceof ForgeError)) throw error;
    const { problem, message, retryAfterMs: waitMs } = error;
    const isDenied = problem === "unauthorized" || problem === "not-found";
    const why = isDenied && !message.includes(needs) ? [message, needs] : [message];
    return { name, result: "failed", why, waitMs: problem === "rate-limited" ? (waitMs ?? 60_000) : undefined };
  }
}

/** Compares addresses regardless of their spelling. */
export function isSameAddress(one: string | null | undefined, other: string): boolean {
  const plain = (text: string) => {
    const url = URL.parse(text);
    return url && `${url.origin}${url.pathname.replace(/\/+$/, "")}`;
  };
  return one !== undefined && one !== null && plain(one) !== null && plain(one) === plain(other);
}

/** Whether an address is that of the forge at some Towline server; which one cannot be seen from it. */
export function hasPathOf(address: string | null | undefined, forge: string): boolean {
  return segmentsOf(address).slice(-2).join("/") === `webhooks/${forge}`;
}

/** The webhooks of the forge, and the hosts to which others send that look as if they were meant for it. */
export function sortWebhooks<T>(
  all: readonly T[],
  addressOf: (webhook: T) => string | null | undefined,
  forge: string,
): { readonly ours: readonly T[]; readonly similar: readonly string[] } {
  const ours = all.filter((webhook) => hasPathOf(addressOf(webhook), forge));
  const similar = all.filter((webhook) => !ours.includes(webhook) && hasSimilarPath(addressOf(webhook)));
  return { ours, similar: similar.map((webhook) => hostOfAddress(addressOf(webhook))) };
}

/** Whether an address looks as if it was meant for a Towline server: `/webhooks`, or that of another forge. */
function hasSimilarPath(address: string | null | undefined): boolean {
  return segmentsOf(address)
    .slice(-2)
    .some((segment) => /^webhooks?$/i.test(segment));
}

/** An address without path and query, which may contain secrets. */
export function hostOfAddress(address: string | null | undefined): string {
  return URL.parse(address ?? "")?.host ?? "an address that is not a URL";
}

function segmentsOf(address: string | null | undefined): string[] {
  return (URL.parse(address ?? "")?.pathname ?? "").split("/").filter(Boolean);
}

/** Returns the missing events among those that the server handles. */
export function lackedEvents(has: readonly string[], wanted: readonly string[]): string[] {
  return wanted.filter((event) => !has.includes(event));
}

export function describeEvents(events: readonly string[]): string[] {
  return events.length === 0 ? [] : [`it did not send ${events.join(", ")}`];
}
