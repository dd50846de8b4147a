/** What a git host says about the login that it was given. */

export interface ForgeAccount {
  readonly name: string;
  /** When the host stops accepting the login, in epoch milliseconds; absent: never, or the host does not say. */
  readonly expiresAt?: number | undefined;
}

export interface LoginState {
  /** Why the host refuses the login, and since when this server knows. */
  readonly refused?: { readonly why: string; readonly since: number } | undefined;
  /** In epoch milliseconds. */
  readonly expiresAt?: number | undefined;
}

/** Time enough to create a new token, also if people are on holiday. */
const soonMs = 14 * 24 * 60 * 60_000;

export function expiresSoon({ expiresAt }: Pick<LoginState, "expiresAt">, now: number): boolean {
  return expiresAt !== undefined && expiresAt - now < soonMs;
}
