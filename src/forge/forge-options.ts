import type { Logger } from "../log.ts";

/** How Towline talks to one configured forge. */
export interface ForgeOptions {
  readonly id: string;
  /** Base URL of the API; absent: the host's public service. */
  readonly apiUrl?: string | undefined;
  readonly login: ForgeLogin;
  readonly log: Logger;
  /** How long one request may take, milliseconds; ten seconds unless said otherwise. */
  readonly timeoutMs?: number | undefined;
  /** Gets the headers of each answer: they tell how many requests the host still takes. */
  readonly onAnswer?: ((headers: Headers) => void) | undefined;
}

/** A user's or a bot's token, or (GitHub) an App, which makes its tokens itself. */
export type ForgeLogin =
  { readonly token: string } | { readonly app: { readonly appId: string; readonly privateKey: string } };
