/** Chooses the login for a repository. Pure. */
import type { GitCredential } from "../model.ts";
import type { ParsedRepoUrl } from "../model/repo-url.ts";
import { matchesGlob } from "../kit/glob.ts";

/** What git logs in with. */
export interface Login {
  readonly username: string;
  readonly password?: string | undefined;
  readonly identity?: string | undefined;
  readonly knownHosts?: string | undefined;
  readonly ca?: string | undefined;
  /** `undefined`: the login came with the URL. Empty: the server's own login. */
  readonly secretName?: string | undefined;
}

export interface LoginChoice {
  readonly login?: Login | undefined;
  /** Why a login that matches the repository cannot be used; shown to the user if no other login is found. */
  readonly hint?: string | undefined;
}

/** Chooses the first login that matches, as kluctl does, or else a password in the URL. */
export function chooseLogin(
  url: ParsedRepoUrl,
  urlPassword: string,
  credentials: readonly GitCredential[],
): LoginChoice {
  let hint: string | undefined;
  for (const credential of credentials) {
    if (!isMeantFor(credential, url)) continue;
    const username = credential.username === "*" ? url.username : credential.username;
    const missing = whatIsMissing(credential, username, url);
    if (missing !== undefined) {
      hint ??= `${nameOf(credential)} has no ${missing}`;
      continue;
    }
    const { password, identity, knownHosts, ca, secretName } = credential;
    return { login: { username, password, identity, knownHosts, ca, secretName } };
  }
  const near = credentials.find((credential) => isForOtherPort(credential, url));
  if (near)
    hint ??= `${nameOf(near)} is for host ${near.host}, but the URL's host is ${url.hostAndPort}: include the port`;
  const fromUrl = url.protocol !== "ssh:" && (urlPassword !== "" || url.username !== "");
  return fromUrl ? { login: { username: url.username, password: urlPassword }, hint } : { hint };
}

function nameOf({ secretName }: GitCredential): string {
  return secretName === "" ? "the server's own login" : `secret ${secretName}`;
}

function isMeantFor(credential: GitCredential, url: ParsedRepoUrl): boolean {
  if (credential.namedHost !== undefined) return url.protocol === "ssh:" || credential.namedHost === url.host;
  const host = credential.host === "" ? "*" : credential.host.toLowerCase();
  if (host === "*" ? url.protocol !== "ssh:" : host !== url.hostAndPort.toLowerCase()) return false;
  // As in kluctl, the path is compared in lower case, but the pattern is not lower-cased.
  return !credential.path || matchesGlob(credential.path, url.path.toLowerCase());
}

/** Whether the host matches except for its port: kluctl compares both. */
function isForOtherPort({ host, namedHost }: GitCredential, { host: wanted, hostAndPort }: ParsedRepoUrl): boolean {
  const [name, port] = host.toLowerCase().split(":");
  return namedHost === undefined && name === wanted && (port ?? "") !== (hostAndPort.split(":")[1] ?? "");
}

function whatIsMissing(credential: GitCredential, username: string, url: ParsedRepoUrl): string | undefined {
  if (url.protocol === "ssh:") return credential.identity ? undefined : "identity";
  if (!credential.password) return "password";
  return username === "" ? "username, and the URL contains no user" : undefined;
}
