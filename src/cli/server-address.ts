/** Where git hosts reach the server, as people give it: often with the path of a webhook, copied from the host's page. */
import { ConfigError } from "../errors.ts";
import { plain } from "./table.ts";

export interface ServerAddress {
  /** Ends with a slash. */
  readonly base: string;
  /** The forge whose webhook's path the address had. */
  readonly forge: string | undefined;
}

/** Throws ConfigError for what is not an address. */
export function parseServerAddress(text: string | undefined): ServerAddress {
  const url = URL.parse(text ?? "");
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new ConfigError(`--url: ${plain(text ?? "")} is not an address; use https://towline.example.com`);
  }
  const [, path = "", forge] = /^(.*?)\/*(?:\/webhooks(?:\/([^/]+))?)?\/*$/.exec(url.pathname) ?? [];
  return { base: new URL(`${path}/`, url).href, forge };
}
