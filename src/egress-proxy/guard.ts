/** Checks which addresses a preview may connect to, whatever name resolves to them. */
import { networkInterfaces } from "node:os";
import { isForbiddenAddress, isLocalAddress, isSameAddress, type Lookup } from "../kit/address.ts";
import { type HostRule, matchesRule, type Target } from "../kit/host-rule.ts";

export class RefusedAddressError extends Error {
  override name = "RefusedAddressError";
}

export interface GuardDeps {
  readonly lookup: Lookup;
  /** Addresses of the API servers: previews reach them through another proxy, or not at all. */
  readonly apiServers: () => readonly Target[];
  /** The server's own addresses; those of this machine if left out. */
  readonly ownAddresses?: (() => readonly string[]) | undefined;
}

/**
 * Returns the addresses to connect to; the caller must use them, because the name may resolve differently a moment
 * later. Throws RefusedAddressError.
 */
export type Guard = (target: Target, operators: readonly HostRule[]) => Promise<readonly string[]>;

export function createGuard({ lookup, apiServers, ownAddresses = addressesOfMachine }: GuardDeps): Guard {
  const find = async (host: string): Promise<readonly string[]> => {
    const bare = host.replace(/^\[|\]$/g, "");
    return isAddress(host) ? [bare] : (await lookup(bare)).map(({ address }) => address);
  };

  return async function guard(target, operators) {
    const { host, port } = target;
    const addresses = await find(host);
    if (addresses.length === 0) throw new Error(`the name ${host} cannot be resolved`);
    if (addresses.some(isForbiddenAddress)) {
      throw new RefusedAddressError(`${host} is a link-local or metadata address, to which no connection is allowed`);
    }
    // If the operator lists the address itself, with its port, it is deliberate.
    const isNamed = isAddress(host) && operators.some((rule) => rule.port === port && matchesRule(target, rule, port));
    const own = ownAddresses();
    if (!isNamed && addresses.some((address) => isLocalAddress(address) || isAmong(address, own))) {
      throw new RefusedAddressError(`${host} is the server itself, to which a preview cannot connect`);
    }
    const served = apiServers().filter((one) => one.port === port);
    const known = await Promise.all(served.map((one) => find(one.host).catch(() => [])));
    if (addresses.some((address) => isAmong(address, known.flat()))) {
      throw new RefusedAddressError(`${host}:${port} is an API server, to which a preview cannot connect this way`);
    }
    return addresses;
  };
}

function isAddress(host: string): boolean {
  return /^\[|^\d+(\.\d+){3}$/.test(host);
}

function isAmong(address: string, others: readonly string[]): boolean {
  return others.some((other) => isSameAddress(address, other));
}

function addressesOfMachine(): string[] {
  return Object.values(networkInterfaces()).flatMap((all = []) => all.map(({ address }) => address));
}
