/** From a deployment's git credentials to what kluctl understands. */
import { join } from "node:path";
import { PrepareError } from "../errors.ts";
import type { GitCredential } from "../model.ts";
import type { GitLogin } from "./environment.ts";

export interface Logins {
  readonly git: readonly GitLogin[];
  /** The file with the keys of ssh hosts that one of the logins knows; none without a login for ssh. */
  readonly knownHosts?: string | undefined;
  /** Path → content, to be written before kluctl starts. */
  readonly files: ReadonlyMap<string, string>;
}

/**
 * By environment, which every kluctl reads, and where other users of the machine see nothing: the flags for ssh came
 * after 2.22. kluctl uses the password of a login for https and its key for ssh. What it has no variable for is the known
 * hosts of a single login, so all logins of a run share theirs. Each line of them names its host anyway.
 */
export function toLogins(credentials: readonly GitCredential[], dir: string): Logins {
  const files = new Map<string, string>();
  const file = (name: string, content: string): string => {
    const path = join(dir, name);
    files.set(path, content);
    return path;
  };

  const usable = credentials.filter(({ password, identity }) => password || identity);
  const git = usable.map(({ username, password, identity, ca, ...credential }, index): GitLogin => {
    // Node would put the value into its error's message.
    if (`${username}${password ?? ""}`.includes("\0")) {
      throw new PrepareError(`The git login in secret ${credential.secretName} has a NUL character.`);
    }
    return {
      // kluctl compares with the lower-cased URL, its path without the leading slash.
      host: credential.host.toLowerCase(),
      path: credential.path?.toLowerCase().replace(/^\/+/, ""),
      username,
      password,
      caFile: ca === undefined ? undefined : file(`git-${index}.ca`, ca),
      keyFile: identity ? file(`git-${index}.key`, withNewline(identity)) : undefined,
    };
  });
  // Even with nothing in it: without one kluctl would look in its home, and ask somebody who is not there.
  const knownHosts = git.some(({ keyFile }) => keyFile)
    ? file("known_hosts", usable.flatMap((one) => (one.knownHosts ? withNewline(one.knownHosts) : [])).join(""))
    : undefined;
  return { git, knownHosts, files };
}

/** kluctl's words for it name a variable of ours, which nobody can set. */
export function explainHostKey(text: string): string {
  return text.replaceAll(
    "host not found and SSH_KNOWN_HOSTS has been set",
    "the host's key is not known: put it into known_hosts of the secret",
  );
}

/** A key whose last line does not end is no key to OpenSSH's parsers, and YAML loses that newline easily. */
function withNewline(text: string): string {
  return text.endsWith("\n") ? text : `${text}\n`;
}
