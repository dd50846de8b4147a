/** Whose request it is, as far as that can be known before anything in it is verified. */
import type { Request } from "express";
import { isIP } from "node:net";
import { senderGroup } from "../src/address.ts";

/**
 * The sender's address, by which limits count: the connection's, or the last in `X-Forwarded-For` that no trusted proxy
 * added. IPv6 addresses of one /64 are one sender.
 */
export function createSenderOf(isProxy: (address: string) => boolean): (req: Request) => string {
  return function senderOf(req) {
    let address = req.socket.remoteAddress ?? "";
    const hops = isProxy(address) ? (req.get("x-forwarded-for") ?? "").split(",") : [];
    while (hops.length > 0 && isProxy(address)) {
      const hop = hops.pop()?.trim() ?? "";
      if (isIP(hop) === 0) break;
      address = hop;
    }
    return senderGroup(address);
  };
}
