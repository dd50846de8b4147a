/** Webhooks at the git hosts: making those that are missing, and repairing those that differ. */
import { ForgeError } from "../errors.ts";

/** What a repository's host has to send, and where. */
export interface WantedHook {
  readonly url: string;
  readonly secret: string;
}

/** A webhook that sends to our address. */
export interface Hook {
  /** In words, for people; empty: it is as it has to be, as far as the host shows it. */
  readonly lacks: readonly string[];
  /** Mends what it lacks and leaves the rest as it is. No host shows the secret: it is set again only on request, or where there is none. */
  repair(how: { readonly rotate: boolean }): Promise<void>;
}

/** One host's, with a login. All of it throws ForgeError. */
export interface Hooks {
  /** What the login has to be allowed, for people. */
  readonly needs: string;
  /** Those of a repository that send to our address. */
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
  /** The host wants to be left alone for so long. */
  readonly waitMs?: number | undefined;
}

/** Never throws what concerns this repository alone. */
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

/** However either is spelled. */
export function isSameAddress(one: string | null | undefined, other: string): boolean {
  const plain = (text: string) => {
    const url = URL.parse(text);
    return url && `${url.origin}${url.pathname.replace(/\/+$/, "")}`;
  };
  return one !== undefined && one !== null && plain(one) !== null && plain(one) === plain(other);
}

/** What is missing of the events that the server acts on. */
export function lackedEvents(has: readonly string[], wanted: readonly string[]): string[] {
  return wanted.filter((event) => !has.includes(event));
}

export function describeEvents(events: readonly string[]): string[] {
  return events.length === 0 ? [] : [`it did not send ${events.join(", ")}`];
}
