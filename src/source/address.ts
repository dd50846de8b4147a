/** Which network addresses a repository may have. */
import { lookup } from "node:dns/promises";
import { BlockList, isIP } from "node:net";
import { SourceError } from "../errors.ts";

/** Answers like `dns.lookup(host, {all: true})`. */
export type Lookup = (host: string) => Promise<readonly { readonly address: string }[]>;

export const systemLookup: Lookup = (host) => lookup(host, { all: true });

// Where clouds hand out their machines' credentials. Link-local, and the few that some put elsewhere.
const forbidden = new BlockList();
forbidden.addSubnet("169.254.0.0", 16, "ipv4");
forbidden.addSubnet("fe80::", 10, "ipv6");
forbidden.addAddress("100.100.100.200", "ipv4"); // Alibaba
forbidden.addAddress("192.0.0.192", "ipv4"); // Oracle
forbidden.addAddress("fd00:ec2::254", "ipv6"); // AWS
forbidden.addAddress("fd20:ce::254", "ipv6"); // Google

function isForbidden(address: string): boolean {
  const bare = address.replace(/%.*$/, "");
  return forbidden.check(bare, isIP(bare) === 6 ? "ipv6" : "ipv4");
}

/**
 * The addresses of a host, all of them allowed. Whoever connects has to use these: a name may resolve to something
 * else a moment later.
 */
export async function resolveHost(host: string, find: Lookup): Promise<readonly string[]> {
  const bare = host.replace(/^\[|\]$/g, "");
  const addresses = isIP(bare) === 0 ? await findAll(bare, find) : [bare];
  if (addresses.some(isForbidden)) {
    throw new SourceError("refused", `${host} is a link-local or metadata address: no repository is read from there`);
  }
  return addresses;
}

async function findAll(host: string, find: Lookup): Promise<readonly string[]> {
  try {
    return (await find(host)).map(({ address }) => address);
  } catch (cause) {
    throw new SourceError("unreachable", `the name ${host} cannot be resolved`, { cause });
  }
}
