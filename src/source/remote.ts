/** A repository as git is told about it: an address that was judged, and a login that is not part of it. */
import { createHmac } from "node:crypto";
import { SourceError } from "../errors.ts";
import type { RepoId, Repository } from "../model.ts";
import { parseRepoUrl } from "../repo-url.ts";
import { chooseLogin } from "./login.ts";
import type { Login } from "./login.ts";

export interface Remote {
  /** For git: the URL without password, and for http without user. */
  readonly address: string;
  readonly protocol: "http:" | "https:" | "ssh:";
  readonly host: string;
  readonly port: string;
  readonly hostAndPort: string;
  readonly repo: RepoId;
  /** For people: `git.example.com/org/repo`. */
  readonly label: string;
  readonly login?: Login | undefined;
  readonly hint?: string | undefined;
}

const ports: Record<Remote["protocol"], string> = { "http:": "80", "https:": "443", "ssh:": "22" };

/** Throws SourceError "refused" for what is not the URL of a repository that we read. */
export function toRemote(repository: Repository, protocols: readonly string[]): Remote {
  const { url, credentials } = repository;
  const parsed = parseRepoUrl(url);
  // URL parsers disagree about a backslash, and with them about which host it is.
  if (parsed === undefined || url.includes("\\") || parsed.username.startsWith("-")) {
    throw new SourceError(
      "refused",
      `${quote(url)} is not the URL of a git repository (https://…, ssh://… or git@host:path)`,
    );
  }
  const { protocol, host, hostAndPort, path } = parsed;
  if (!isKnown(protocol) || !protocols.includes(protocol.slice(0, -1))) {
    throw new SourceError("refused", `${quote(url)} is not supported: only ${protocols.join(", ")} URLs are`);
  }
  const { address, password } = splitAddress(url, protocol);
  const port = hostAndPort === host ? ports[protocol] : hostAndPort.slice(host.length + 1);
  const choice = chooseLogin(parsed, password, credentials);
  const repo = `${host}/${path.toLowerCase()}` as RepoId;
  return { address, protocol, host, port, hostAndPort, repo, label: `${hostAndPort}/${path}`, ...choice };
}

function isKnown(protocol: string): protocol is Remote["protocol"] {
  return Object.hasOwn(ports, protocol);
}

/**
 * The http form is written anew from what was parsed, so that git cannot understand another host than we judged.
 * The scp form stays: `host:path` starts at the user's home, which `ssh://host/path` does not.
 */
function splitAddress(url: string, protocol: string): { address: string; password: string } {
  if (!URL.canParse(url) || !/^[a-z][a-z0-9+.-]*:\/\//i.test(url)) return { address: url, password: "" };
  const parsed = new URL(url);
  const password = decodePassword(parsed.password);
  parsed.password = "";
  if (protocol !== "ssh:") parsed.username = "";
  return { address: parsed.href, password };
}

/** A `%` that begins no escape stands for itself, as git reads it. */
function decodePassword(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Without the login: everything before the last `@`, for a password may hold one itself. */
function quote(url: string): string {
  return JSON.stringify(url.replace(/\/\/[^/]*@/, "//").slice(0, 200));
}

/**
 * Names a repository together with the login, so that nobody is given what another one's login fetched. Keyed: the
 * name becomes a directory's, and must not be a hash that a password could be guessed against.
 */
export function remoteId({ address, login }: Remote, key: Buffer): string {
  const { username, password, identity } = login ?? {};
  return keyedId([address, username, password, identity], key);
}

/**
 * Names who asks the remote which commits it has: the same, and whom they believe it. What is fetched then needs no such
 * name, because the commit's hash says what it has to be.
 */
export function askerId({ address, login }: Remote, key: Buffer): string {
  const { username, password, identity, knownHosts, ca } = login ?? {};
  return keyedId([address, username, password, identity, knownHosts, ca], key);
}

export function keyedId(parts: readonly unknown[], key: Buffer): string {
  return createHmac("sha256", key).update(JSON.stringify(parts)).digest("hex").slice(0, 40);
}
