/** Asks each forge every few minutes whether it accepts the login, and until when: nobody reads logs before it is too late. */
import { ForgeError } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { ForgeAccount, LoginState } from "../model.ts";
import type { Clock } from "../ports.ts";

export interface LoginChecksDeps {
  /** The forges with a login, each with a request for its account. */
  readonly forges: () => readonly { readonly id: string; readonly account: () => Promise<ForgeAccount> }[];
  readonly clock: Clock;
  readonly log: Logger;
}

export interface LoginChecks {
  /** Asks all forges, or those with these ids. Never throws: a forge that is down prevents nothing. */
  check(ids?: readonly string[]): Promise<void>;
  /** By forge id; absent until the forge has answered. */
  states(): ReadonlyMap<string, LoginState>;
  /** The forges with a login, by id. */
  ids(): readonly string[];
  stop(): void;
}

const everyMs = 5 * 60_000;

/** Logs what changes. */
export function startLoginChecks({ forges, clock, log }: LoginChecksDeps): LoginChecks {
  const states = new Map<string, LoginState>();
  /** What was logged last. */
  const logged = new Map<string, string>();

  function report(forge: string, level: "info" | "warn", fields: Record<string, string>, message: string): void {
    const text = JSON.stringify([message, fields]);
    if (logged.get(forge) !== text) log[level]({ forge, ...fields }, message);
    logged.set(forge, text);
  }

  async function checkOne(id: string, account: () => Promise<ForgeAccount>): Promise<void> {
    try {
      const { name, expiresAt } = await account();
      states.set(id, { expiresAt });
      const expires = expiresAt !== undefined && { expiresAt: new Date(expiresAt).toISOString() };
      report(id, "info", { user: name, ...expires }, "forge login works");
    } catch (error) {
      // Not a word about the login, and the host is not asked while it wants no requests.
      if (error instanceof ForgeError && error.problem === "rate-limited") return;
      const why = (error as Error).message;
      report(id, "warn", { error: why }, "forge login failed");
      // No answer says nothing about the login.
      if (!(error instanceof ForgeError) || error.problem !== "unauthorized") return;
      states.set(id, { refused: { why, since: states.get(id)?.refused?.since ?? clock.now() } });
    }
  }

  async function check(ids?: readonly string[]): Promise<void> {
    const all = forges();
    for (const id of states.keys()) if (!all.some((forge) => forge.id === id)) states.delete(id);
    const some = all.filter(({ id }) => ids === undefined || ids.includes(id));
    await Promise.all(some.map(({ id, account }) => checkOne(id, account)));
  }

  const timer = setInterval(() => void check(), everyMs).unref();
  void check();
  return { check, states: () => states, ids: () => forges().map(({ id }) => id), stop: () => clearInterval(timer) };
}
