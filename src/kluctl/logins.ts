/** From a deployment's git credentials to what kluctl understands. */
import { join } from "node:path";
import { PrepareError } from "../errors.ts";
import type { GitCredential } from "../model.ts";
import type { GitLogin } from "./environment.ts";

export interface Logins {
  /** For https: by environment, where other users of the machine cannot see them. */
  readonly git: readonly GitLogin[];
  /** For ssh: by flags, the only way to hand over known hosts. They name files. */
  readonly flags: readonly string[];
  /** Path → content, to be written before kluctl starts. */
  readonly files: ReadonlyMap<string, string>;
}

/**
 * One list becomes two without a change of order that matters: kluctl uses a login with a password for https only, and
 * one with a key for ssh only. Without known hosts it refuses the ssh host.
 */
export function toLogins(credentials: readonly GitCredential[], dir: string): Logins {
  const git: GitLogin[] = [];
  const flags: string[] = [];
  const files = new Map<string, string>();
  const sshPlaces = new Set<string>();
  const file = (name: string, content: string): string => {
    const path = join(dir, name);
    files.set(path, content);
    return path;
  };

  for (const [index, credential] of credentials.entries()) {
    const { username, password, identity, knownHosts, ca } = credential;
    // kluctl compares with the lower-cased URL, its path without the leading slash.
    const host = credential.host.toLowerCase();
    const path = credential.path?.toLowerCase().replace(/^\/+/, "");
    if (password) {
      git.push({ host, path, username, password, caFile: ca === undefined ? undefined : file(`git-${index}.ca`, ca) });
    }
    const place = path === undefined ? host : `${host}/${path}`;
    // kluctl would melt two logins for one place into one; the first one is the one to try.
    if (identity === undefined || sshPlaces.has(place)) continue;
    if (place.includes("=")) {
      throw new PrepareError(
        `The host and path of the git login in secret ${credential.secretName} cannot have a "=".`,
      );
    }
    sshPlaces.add(place);
    flags.push(`--git-username=${place}=${username}`);
    flags.push(`--git-ssh-key-file=${place}=${file(`git-${index}.key`, withNewline(identity))}`);
    if (knownHosts !== undefined) {
      flags.push(`--git-ssh-known-hosts-file=${place}=${file(`git-${index}.hosts`, withNewline(knownHosts))}`);
    }
  }
  return { git, flags, files };
}

/** A key whose last line does not end is no key to OpenSSH's parsers, and YAML loses that newline easily. */
function withNewline(text: string): string {
  return text.endsWith("\n") ? text : `${text}\n`;
}
