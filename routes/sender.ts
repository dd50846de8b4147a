/** Identifies the sender of a request as far as possible before anything in it is verified. */
import type { Request } from "express";
import { isIP } from "node:net";
import { senderGroup } from "../src/kit/address.ts";

/**
 * Returns the sender that limits apply to: the connection's address, or the last one in `X-Forwarded-For` that was not
 * added by a trusted proxy. IPv6 addresses of one /64 count as one sender.
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
