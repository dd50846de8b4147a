/** Mail servers and mailboxes as they are configured. Pure. Errors do not contain the values. */
import { isIPv4 } from "node:net";

export interface MailServer {
  /** With the port, if one is configured: for messages. */
  readonly name: string;
  readonly host: string;
  readonly port: number;
  /** TLS from the beginning. */
  readonly secure: boolean;
  readonly login?: { readonly user: string; readonly pass: string } | undefined;
}

/** The ports of RFC 8314 and RFC 6409. */
const ports: Readonly<Record<string, number>> = { "smtps:": 465, "smtp:": 587 };

/** Parses `smtp://user:password@host:587` or `smtps://…`. */
export function parseMailServer(text: string): MailServer {
  const url = URL.parse(text);
  const port = ports[url?.protocol ?? ""];
  // Only an unescaped slash or the like in a password makes the rest of it look like a path.
  const isWhole = url !== null && url.hostname !== "" && /^\/?$/.test(url.pathname) && url.search + url.hash === "";
  const user = decode(url?.username);
  const pass = decode(url?.password);
  if (port === undefined || !isWhole || user === undefined || pass === undefined || (user === "") !== (pass === ""))
    throw new Error(
      "url: must look like smtps://user:password@host:465 or smtp://host:587, with %-escapes in user and password",
    );
  return {
    name: url.host,
    host: url.hostname.replace(/^\[|\]$/g, ""),
    port: url.port === "" ? port : Number(url.port),
    secure: url.protocol === "smtps:",
    ...(user !== "" && { login: { user, pass } }),
  };
}

function decode(text = ""): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/** Whether packets to it never leave the machine. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || (isIPv4(host) && host.startsWith("127."));
}

export interface Mailbox {
  readonly name: string;
  readonly address: string;
}

/** A dot-atom of RFC 5321, with letters of all scripts: nothing in it has a meaning in a header or a command. */
const atom = String.raw`[^\s@<>()[\]\\,;:"\p{C}]+`;
const form = new RegExp(
  `^(?:"?(?<name>[^"<>\\p{C}]*)"?\\s*<(?<inner>${atom}@${atom})>|(?<bare>${atom}@${atom}))$`,
  "u",
);
/** RFC 5321. */
const longestMailbox = 320;

/** Parses `ops@example.com` or `Operations <ops@example.com>`. */
export function findMailbox(text: string): Mailbox | undefined {
  const trimmed = text.trim();
  const { name = "", inner, bare } = (trimmed.length <= longestMailbox && form.exec(trimmed)?.groups) || {};
  const address = inner ?? bare;
  return address === undefined ? undefined : { name: name.trim(), address };
}
