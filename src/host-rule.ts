/** Which hosts may be reached, as people write it: `host`, `host:port`, `*.example.com`. Pure. */

export interface HostRule {
  /** As the WHATWG URL standard writes it: lower case, addresses in their usual form. */
  readonly host: string;
  /** Any name below `host` instead of itself. */
  readonly below: boolean;
  /** Absent: the protocol's own, 443 or 80. */
  readonly port?: number | undefined;
}

export interface Target {
  /** In the same form. */
  readonly host: string;
  readonly port: number;
}

const form = /^(?<below>\*\.)?(?<host>[^\s:/?#@\\[\]*]+|\[[0-9a-f:.]+\])(?::(?<port>\d{1,5}))?$/i;

/** `undefined` for what is not a host. */
export function parseHostRule(text: string): HostRule | undefined {
  const { below, host = "", port } = form.exec(text.trim())?.groups ?? {};
  const known = toHost(host);
  if (known === undefined || (port !== undefined && !isPort(Number(port)))) return undefined;
  return { host: known, below: below !== undefined, ...(port !== undefined && { port: Number(port) }) };
}

/** Of `host:port`. */
export function parseTarget(text: string): Target | undefined {
  const { below, host = "", port } = form.exec(text)?.groups ?? {};
  const known = toHost(host);
  if (known === undefined || below !== undefined || port === undefined || !isPort(Number(port))) return undefined;
  return { host: known, port: Number(port) };
}

/** An address is the same host however it is written: `0x7f000001` is `127.0.0.1`. */
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
