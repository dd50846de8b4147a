/** IP addresses and CIDR blocks. Pure. */
import { BlockList, isIP } from "node:net";

/** `10.0.0.7`, `10.0.0.0/24`, `fd00::/8`. */
export function isNetwork(text: string): boolean {
  const [address = "", bits, ...more] = text.split("/");
  const family = isIP(address);
  if (family === 0 || more.length > 0) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128));
}

/** Whether it has more than one address. */
export function isBlock(network: string): boolean {
  const [address = "", bits] = network.split("/");
  return bits !== undefined && Number(bits) < (isIP(address) === 4 ? 32 : 128);
}

/** Returns a function that checks whether an address is in any of the networks. */
export function createNetworks(networks: readonly string[]): (address: string) => boolean {
  const list = new BlockList();
  for (const text of networks) {
    const [address = "", bits] = text.split("/");
    const family = isIP(address) === 4 ? "ipv4" : "ipv6";
    if (bits === undefined) list.addAddress(address, family);
    else list.addSubnet(address, Number(bits), family);
  }
  return (address) => {
    const plain = address.replace(/^::ffff:(?=\d+\.\d+\.\d+\.\d+$)/i, ""); // dual-stack sockets map IPv4 addresses this way
    const family = isIP(plain);
    return family !== 0 && list.check(plain, family === 4 ? "ipv4" : "ipv6");
  };
}
