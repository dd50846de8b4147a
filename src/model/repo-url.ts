/** Maps the many spellings of a repository's URL to one identity. Pure. */
import type { RepoId } from "../model.ts";

const defaultPorts: Record<string, string> = { "http:": "80", "https:": "443", "ssh:": "22", "git:": "9418" };
/** Longer than any real URL; parsing takes time quadratic in the length. */
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

/**
 * Returns `undefined` if it is not the URL of a remote repository (local paths, control characters, `file:`, `ext::`
 * …).
 */
export function parseRepoUrl(url: string): ParsedRepoUrl | undefined {
  if (url.length > longestUrl) return undefined;
  // Git would interpret a control character or a leading dash differently.
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
  // A repository with a working copy may be served from its `.git` directory.
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
 * The repository's identity: equal for https, ssh and scp forms, and independent of letter case, user, port and `.git`.
 * The port is ignored because a host may serve one repository on several ports (Gitea: 3000 for http, 22 for ssh); if
 * two repositories differ only in their port, the cost is one more check of git.
 */
export function repoId(url: string): RepoId | undefined {
  const parsed = parseRepoUrl(url);
  return parsed && (`${parsed.host}/${parsed.path.toLowerCase()}` as RepoId);
}

/** The repositories with these URLs; what is not the URL of one is left out. */
export function reposOfUrls(urls: readonly string[]): ReadonlySet<RepoId> {
  return new Set(urls.map(repoId).filter((repo) => repo !== undefined));
}

function hasControls(text: string): boolean {
  return /[\u0000-\u001f\u007f]/.test(text); // eslint-disable-line no-control-regex -- it looks for control characters
}

/** The URL for display, without its login; the user of an ssh URL is kept, because it is not a secret. */
export function withoutLogin(url: string): string {
  return url.replace(/^((?!ssh:)[a-z][a-z0-9+.-]*:\/\/)[^/]*@/i, "$1").replace(/^(ssh:\/\/[^:@/]*):[^/]*@/i, "$1@");
}
