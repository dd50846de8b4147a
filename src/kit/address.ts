/** Network addresses: which of them may be connected to, and which belong to the same sender or machine. */
import { lookup } from "node:dns/promises";
import type { AgentOptions } from "node:http";
import { isIP } from "node:net";
import { callbackify } from "node:util";

/** Returns 4 or 16 bytes; `undefined` if it is not an address. A zone (`%eth0`) is ignored. */
function addressBytes(text: string): readonly number[] | undefined {
  const address = text.replace(/%.*$/, "");
  const family = isIP(address);
  if (family === 4) return address.split(".").map(Number);
  if (family !== 6) return undefined;
  // The last 32 bits may be written as an IPv4 address.
  const hex = address.replace(/\d+\.\d+\.\d+\.\d+$/, (last) => {
    const [a = 0, b = 0, c = 0, d = 0] = last.split(".").map(Number);
    return `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
  });
  const [head = "", tail] = hex.split("::");
  const before = head === "" ? [] : head.split(":");
  const after = tail ? tail.split(":") : [];
  const words = [...before, ...Array<string>(8 - before.length - after.length).fill("0"), ...after];
  return words.map((word) => parseInt(word, 16)).flatMap((word) => [word >> 8, word & 0xff]);
}

/** The group that shares one limit: an IPv4 address, or an IPv6 /64, which one sender can have to itself. */
export function senderGroup(text: string): string {
  const bytes = addressBytes(text);
  if (bytes?.length !== 16) return text;
  const isMapped = bytes.slice(0, 10).every((byte) => byte === 0) && bytes[10] === 0xff && bytes[11] === 0xff;
  return isMapped ? bytes.slice(12).join(".") : Buffer.from(bytes.slice(0, 8)).toString("hex");
}

/** Returns the same as `dns.lookup(host, {all: true})`. */
export type Lookup = (host: string) => Promise<readonly { readonly address: string }[]>;

export const systemLookup: Lookup = (host) => lookup(host, { all: true });

export class ForbiddenAddressError extends Error {
  override name = "ForbiddenAddressError";

  constructor(host: string) {
    super(`${host} is a link-local or metadata address`);
  }
}

// Where clouds serve the credentials of their machines: link-local addresses, and a few others that some clouds use.
const forbiddenV4 = [
  [169, 254],
  [100, 100, 100, 200], // Alibaba
  [192, 0, 0, 192], // Oracle
  [168, 63, 129, 16], // Azure
];
const awsV6 = [0xfd, 0x00, 0x0e, 0xc2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x54];
const googleV6 = [0xfd, 0x20, 0x00, 0xce, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x54];

/** The IPv4 addresses that an IPv6 address may lead to: its prefix → their positions in it. */
const embedded: readonly { readonly prefix: readonly number[]; readonly at: readonly (readonly number[])[] }[] = [
  { prefix: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], at: [[12, 13, 14, 15]] }, // IPv4-compatible
  { prefix: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff], at: [[12, 13, 14, 15]] }, // IPv4-mapped
  { prefix: [0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0], at: [[12, 13, 14, 15]] }, // IPv4-translated
  { prefix: [0x00, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0], at: [[12, 13, 14, 15]] }, // NAT64
  // NAT64 with a network-specific prefix, whose length determines the position: RFC 6052 and 8215.
  {
    prefix: [0x00, 0x64, 0xff, 0x9b, 0x00, 0x01],
    at: [
      [6, 7, 9, 10],
      [7, 9, 10, 11],
      [9, 10, 11, 12],
      [12, 13, 14, 15],
    ],
  },
  { prefix: [0x20, 0x02], at: [[2, 3, 4, 5]] }, // 6to4
];

export function isForbiddenAddress(address: string): boolean {
  const bytes = addressBytes(address);
  if (bytes === undefined) return false;
  const isLinkLocal = bytes.length === 16 && bytes[0] === 0xfe && ((bytes[1] ?? 0) & 0xc0) === 0x80;
  if (isLinkLocal || isBelow(bytes, awsV6) || isBelow(bytes, googleV6)) return true;
  return v4In(bytes).some((v4) => forbiddenV4.some((prefix) => isBelow(v4, prefix)));
}

/** Loopback, "this host", multicast and broadcast: never a service of another machine. */
export function isLocalAddress(address: string): boolean {
  const bytes = addressBytes(address);
  if (bytes === undefined) return false;
  if (bytes.length === 16 && bytes[0] === 0xff) return true;
  const [first] = v4In(bytes).at(-1) ?? [];
  return first !== undefined && (first === 0 || first === 127 || first >= 224);
}

/** Whether two addresses may lead to the same machine; one of them may be an IPv4 address within IPv6. */
export function isSameAddress(one: string, other: string): boolean {
  const [a, b] = [one, other].map((text) => {
    const bytes = addressBytes(text);
    return bytes === undefined ? [text] : [bytes.join(), ...v4In(bytes).map((v4) => v4.join())];
  });
  return a?.some((text) => b?.includes(text)) ?? false;
}

function isBelow(bytes: readonly (number | undefined)[], prefix: readonly number[]): boolean {
  return prefix.every((byte, i) => bytes[i] === byte);
}

/** The IPv4 addresses that an address is or may lead to. `::1` counts as one: `0.0.0.1`. */
function v4In(bytes: readonly number[]): readonly (readonly (number | undefined)[])[] {
  if (bytes.length === 4) return [bytes];
  return embedded
    .filter(({ prefix }) => isBelow(bytes, prefix))
    .flatMap(({ at }) => at.map((places) => places.map((i) => bytes[i])));
}

/**
 * The addresses of a host, none of them forbidden; empty if the name has none. The caller must connect to these: the
 * name may resolve to another address a moment later. Throws ForbiddenAddressError, or the error of the lookup.
 */
export async function resolveAllowed(host: string, find: Lookup): Promise<readonly string[]> {
  const bare = host.replace(/^\[|\]$/g, "");
  const addresses = isIP(bare) === 0 ? (await find(bare)).map(({ address }) => address) : [bare];
  if (addresses.some(isForbiddenAddress)) throw new ForbiddenAddressError(host);
  return addresses;
}

type NodeLookup = NonNullable<AgentOptions["lookup"]>;

/** A lookup function for Node's agents and sockets. They only use it for names: addresses must be checked before. */
export function toNodeLookup(resolve: (host: string) => Promise<readonly string[]>): NodeLookup {
  const findAll = callbackify(async (host: string): Promise<[Found, ...Found[]]> => {
    const addresses = await resolve(host);
    const [first, ...others] = addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 }));
    if (first === undefined) throw new Error(`the name ${host} cannot be resolved`);
    return [first, ...others];
  });
  return (host, { all }, done) =>
    findAll(host, (error, found) => {
      if (error) done(error, "");
      else if (all) done(null, found);
      else done(null, found[0].address, found[0].family);
    });
}

interface Found {
  readonly address: string;
  readonly family: number;
}
