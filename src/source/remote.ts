/** A repository as passed to git: a checked address, and a login that is not part of it. */
import { createHmac } from "node:crypto";
import { SourceError } from "../errors.ts";
import type { RepoId, Repository } from "../model.ts";
import { parseRepoUrl } from "../model/repo-url.ts";
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
  /** For messages: `git.example.com/org/repo`. */
  readonly label: string;
  readonly login?: Login | undefined;
  readonly hint?: string | undefined;
}

const ports: Record<Remote["protocol"], string> = { "http:": "80", "https:": "443", "ssh:": "22" };

/** Throws SourceError "refused" for anything but a supported repository URL. */
export function toRemote(repository: Repository, protocols: readonly string[]): Remote {
  const { url, credentials } = repository;
  const parsed = parseRepoUrl(url);
  // URL parsers disagree about backslashes, and so about which host is meant.
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
 * An http URL is rebuilt from its parsed form, so that git cannot understand another host than the one we checked. An
 * scp-style URL is kept: `host:path` is relative to the user's home, `ssh://host/path` is not.
 */
function splitAddress(url: string, protocol: string): { address: string; password: string } {
  if (!URL.canParse(url) || !/^[a-z][a-z0-9+.-]*:\/\//i.test(url)) return { address: url, password: "" };
  const parsed = new URL(url);
  const password = decodePassword(parsed.password);
  parsed.password = "";
  if (protocol !== "ssh:") parsed.username = "";
  return { address: parsed.href, password };
}

/** A `%` that begins no escape sequence stands for itself, as in git. */
function decodePassword(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Quotes the URL without the login: removes everything before the last `@`, because a password may contain one. */
function quote(url: string): string {
  return JSON.stringify(url.replace(/\/\/[^/]*@/, "//").slice(0, 200));
}

/** Names the mirror of a repository, and the login that reads it. */
export interface Reader {
  /** Of both together. All that the remote's answers depend on. */
  readonly id: string;
  readonly mirror: string;
  readonly login: string;
}

/**
 * All logins share one mirror, unless they trust other hosts or authorities: then another server may answer them, and
 * could claim to have any commit. The names are keyed, because they become names of files and must not be hashes that
 * passwords could be guessed against.
 */
export function toReader({ address, protocol, login }: Remote, key: Buffer): Reader {
  const { username, password, identity, knownHosts, ca } = login ?? {};
  const trusted = protocol === "ssh:" ? knownHosts : ca;
  const mirror = keyedId([address, trusted], key);
  const name = keyedId([username, password, identity], key);
  return { id: `${mirror} ${name}`, mirror, login: name };
}

export function keyedId(parts: readonly unknown[], key: Buffer): string {
  return createHmac("sha256", key).update(JSON.stringify(parts)).digest("hex").slice(0, 40);
}
