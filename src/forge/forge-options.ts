import type { Logger } from "../log.ts";

/** How Towline connects to one configured forge. */
export interface ForgeOptions {
  readonly id: string;
  /** Base URL of the API; default: the host's public service. */
  readonly apiUrl?: string | undefined;
  readonly login: ForgeLogin;
  /** GitHub only; default: `auto`. */
  readonly reportAs?: ReportAs | undefined;
  readonly log: Logger;
  /** Timeout of one request in milliseconds; default: ten seconds. */
  readonly timeoutMs?: number | undefined;
  /** Receives the headers of each response, which contain the remaining rate limit. */
  readonly onAnswer?: ((headers: Headers) => void) | undefined;
}

/** The token of a user or a bot, or (GitHub) an App, which creates its tokens itself. */
export type ForgeLogin =
  { readonly token: string } | { readonly app: { readonly appId: string; readonly privateKey: string } };

/** How the state of a commit is shown. `auto`: as check runs where the login may write them, otherwise as statuses. */
export type ReportAs = "auto" | "checks" | "statuses";
