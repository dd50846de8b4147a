/**
 * Finds the proxy in the server's environment for a target, unless it is excluded by `no_proxy`; follows kluctl's
 * rules. Pure.
 */
import { BlockList, isIP } from "node:net";
import type { Target } from "../kit/host-rule.ts";

export type ProxyEnvironment = Readonly<Record<string, string | undefined>>;

export function findUpstream(
  env: ProxyEnvironment,
  protocol: "http" | "https",
  { host, port }: Target,
): URL | undefined {
  const value = env[`${protocol}_proxy`] || env[`${protocol.toUpperCase()}_PROXY`] || "";
  const url = /^[a-z][a-z0-9+.-]*:\/\//i.test(value) ? value : `http://${value}`;
  if (value === "" || !/^https?:/i.test(url) || !URL.canParse(url)) return undefined;
  const exceptions = (env["no_proxy"] || env["NO_PROXY"] || "").split(",").map((one) => one.trim().toLowerCase());
  return exceptions.some((one) => excludes(one, host.replace(/^\[|\]$/g, ""), port)) ? undefined : new URL(url);
}

function excludes(exception: string, host: string, port: number): boolean {
  if (exception === "*") return true;
  const [, range = "", bits = ""] = /^([0-9a-f.:]+)\/(\d+)$/.exec(exception) ?? [];
  if (isIP(range) !== 0) return isIP(host) === isIP(range) && isInRange(host, range, Number(bits));
  const [, name = "", only] = /^\[?(.*?)\]?(?::(\d+))?$/.exec(isIP(exception) ? `[${exception}]` : exception) ?? [];
  if (name === "" || (only !== undefined && Number(only) !== port)) return false;
  const below = name.replace(/^\*?\./, "");
  return host.endsWith(`.${below}`) || (below === name && host === name);
}

function isInRange(host: string, range: string, bits: number): boolean {
  const family = isIP(range) === 4 ? "ipv4" : "ipv6";
  if (bits > (family === "ipv4" ? 32 : 128)) return false;
  const list = new BlockList();
  list.addSubnet(range, bits, family);
  return list.check(host, family);
}
