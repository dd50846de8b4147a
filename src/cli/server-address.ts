/** Parses the address at which git hosts reach the server. It may be a webhook address, copied from the git host. */
import { ConfigError } from "../errors.ts";
import { plain } from "./table.ts";

export interface ServerAddress {
  /** Ends with a slash. */
  readonly base: string;
  /** The forge in the path, if it was a webhook address. */
  readonly forge: string | undefined;
}

/** Throws ConfigError for an invalid address. */
export function parseServerAddress(text: string | undefined): ServerAddress {
  const url = URL.parse(text ?? "");
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new ConfigError(
      `--url: "${plain(text ?? "")}" is not an address; use a form such as https://towline.example.com`,
    );
  }
  const [, path = "", forge] = /^(.*?)\/*(?:\/webhooks(?:\/([^/]+))?)?\/*$/.exec(url.pathname) ?? [];
  return { base: new URL(`${path}/`, url).href, forge };
}
