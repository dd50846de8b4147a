/** Addresses to listen on, in the form of Go programs. Pure. */

export interface BindAddress {
  /** Absent: all interfaces. */
  readonly host?: string | undefined;
  readonly port: number;
}

export const bindAddressError = 'must be an address like ":8080" or "127.0.0.1:8080", or "0" to disable it';

/** `undefined`: disabled. */
export function parseBindAddress(text: string): BindAddress | undefined | "wrong" {
  if (text === "0") return undefined;
  const [, bracketed, plain = "", digits = ""] =
    /^(?:\[([0-9a-fA-F:.%\w]+)\]|([^\s:[\]/]*)):(\d{1,5})$/.exec(text) ?? [];
  if (digits === "" || Number(digits) > 65_535) return "wrong";
  const host = bracketed ?? plain;
  return host === "" ? { port: Number(digits) } : { host, port: Number(digits) };
}
