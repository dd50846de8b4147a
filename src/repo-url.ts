/** One identity for the many spellings of a repository's URL. Pure. */
import type { RepoId } from "./model.ts";

const defaultPorts: Record<string, string> = { "http:": "80", "https:": "443", "ssh:": "22", "git:": "9418" };
/** No URL in earnest is longer, and what follows takes time that grows with the square of the length. */
const longestUrl = 4_000;
const scpForm = /^(?:[^@/\s]+@)?(?<host>\[[^\]]+\]|[^:/\s]+):(?!\/\/)(?<path>.*)$/;

export interface ParsedRepoUrl {
  readonly protocol: string;
  readonly host: string;
  /** Without the protocol's default port. */
  readonly hostAndPort: string;
  readonly username: string;
  /** Decoded, without leading and trailing `/` and without `.git`. */
  readonly path: string;
}

/** `undefined` for what is not the URL of a remote repository (local paths, control characters, `file:`, `ext::` …). */
export function parseRepoUrl(url: string): ParsedRepoUrl | undefined {
  if (url.length > longestUrl) return undefined;
  // Git would take a control character or a leading dash for something else than a URL.
  if (hasControls(url) || url.includes(" ") || url.startsWith("-") || /^[^/[]*::/.test(url)) return undefined;
  const scp = /^[a-z][a-z0-9+.-]*:\/\//i.test(url) ? undefined : scpForm.exec(url)?.groups;
  const text = scp
    ? `ssh://${/^[^@/\s]+@/.exec(url)?.[0] ?? ""}${scp["host"]}/${scp["path"]?.replace(/^\/+/, "")}`
    : url;
  let parsed: URL;
  try {
    parsed = new URL(text);
  } catch {
    return undefined;
  }
  const port = defaultPorts[parsed.protocol];
  if (port === undefined || parsed.hostname === "" || parsed.hostname.startsWith("-")) return undefined;
  let path: string;
  let username: string;
  try {
    path = decodeURIComponent(parsed.pathname);
    username = decodeURIComponent(parsed.username);
  } catch {
    return undefined;
  }
  if (hasControls(path)) return undefined;
  // A repository with a working copy may be served by its directory `.git`.
  path = path
    .replace(/^\/+|\/+$/g, "")
    .replace(/\.git$/i, "")
    .replace(/\/$/, "");
  if (path === "" || path.split("/").some((part) => part === ".." || part === "." || part === "")) return undefined;
  const host = parsed.hostname.toLowerCase();
  const hostAndPort = parsed.port === "" || parsed.port === port ? host : `${host}:${parsed.port}`;
  return { protocol: parsed.protocol, host, hostAndPort, username, path };
}

/**
 * The repository's identity: equal over https, ssh and scp forms, letter case, default ports, users and `.git`.
 * Hosts that serve one repository on several ports (Gitea: 3000 for http, 22 for ssh) are equal as well: the port
 * is left out, because a look-alike on another port of the same host only makes us look at git once more.
 */
export function repoId(url: string): RepoId | undefined {
  const parsed = parseRepoUrl(url);
  return parsed && (`${parsed.host}/${parsed.path.toLowerCase()}` as RepoId);
}

function hasControls(text: string): boolean {
  return /[\u0000-\u001f\u007f]/.test(text); // eslint-disable-line no-control-regex -- they are what is looked for
}

/** As somebody wrote it, for people; of ssh the user stays, who is no secret. */
export function withoutLogin(url: string): string {
  return url.replace(/^((?!ssh:)[a-z][a-z0-9+.-]*:\/\/)[^/]*@/i, "$1").replace(/^(ssh:\/\/[^:@/]*):[^/]*@/i, "$1@");
}
