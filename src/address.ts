/** Network addresses as bytes. Pure. */
import { isIP } from "node:net";

/** 4 or 16 bytes; `undefined` if it is not an address. A zone (`%eth0`) does not count. */
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

/** What is limited together: an IPv4 address, or the /64 that one sender has of IPv6. */
export function senderGroup(text: string): string {
  const bytes = addressBytes(text);
  if (bytes?.length !== 16) return text;
  const isMapped = bytes.slice(0, 10).every((byte) => byte === 0) && bytes[10] === 0xff && bytes[11] === 0xff;
  return isMapped ? bytes.slice(12).join(".") : Buffer.from(bytes.slice(0, 8)).toString("hex");
}
