/** Rules for allowed hosts: `host`, `host:port`, `*.example.com`. Pure. */

export interface HostRule {
  /** In the WHATWG URL standard's form: lower case, addresses normalized. */
  readonly host: string;
  /** Matches any name below `host` instead of `host` itself. */
  readonly below: boolean;
  /** Absent: the protocol's default, 443 or 80. */
  readonly port?: number | undefined;
}

export interface Target {
  /** Normalized like the host of a rule. */
  readonly host: string;
  readonly port: number;
}

const form = /^(?<below>\*\.)?(?<host>[^\s:/?#@\\[\]*]+|\[[0-9a-f:.]+\])(?::(?<port>\d{1,5}))?$/i;

/** Returns `undefined` if the text is not a valid rule. */
export function parseHostRule(text: string): HostRule | undefined {
  const { below, host = "", port } = form.exec(text.trim())?.groups ?? {};
  const known = toHost(host);
  if (known === undefined || (port !== undefined && !isPort(Number(port)))) return undefined;
  return { host: known, below: below !== undefined, ...(port !== undefined && { port: Number(port) }) };
}

/** Parses `host:port`; returns `undefined` if it is invalid. */
export function parseTarget(text: string): Target | undefined {
  const { below, host = "", port } = form.exec(text)?.groups ?? {};
  const known = toHost(host);
  if (known === undefined || below !== undefined || port === undefined || !isPort(Number(port))) return undefined;
  return { host: known, port: Number(port) };
}

/** Normalizes a host, so that different spellings of an address are equal: `0x7f000001` is `127.0.0.1`. */
function toHost(text: string): string | undefined {
  if (text === "" || text.length > 255 || !URL.canParse(`https://${text}`)) return undefined;
  const { hostname } = new URL(`https://${text}`);
  return hostname.replace(/\.$/, "") || undefined;
}

function isPort(port: number): boolean {
  return port > 0 && port < 65_536;
}

export function matchesRule({ host, port }: Target, rule: HostRule, defaultPort: number): boolean {
  if (port !== (rule.port ?? defaultPort)) return false;
  return rule.below ? host.endsWith(`.${rule.host}`) : host === rule.host;
}
