/**
 * The deprecated login of a source applies to everything that the project includes. kluctl's command line takes an http
 * login only for one host and port, and the includes of a project are known only once it is rendered. So kluctl first
 * gets the login for the source's own host. If that is not enough, kluctl's output names the repository that required a
 * login, and kluctl runs again with the login for that host too. Its host name must be the same: a project must not be
 * able to have a password sent to a host of its choice. Pure.
 */
import type { GitCredential } from "../model.ts";
import { type ParsedRepoUrl, parseRepoUrl } from "../model/repo-url.ts";
import { toPlainText } from "./output.ts";

const fetching = /^Updating git cache for (\S{1,2000})$/;
/** Responses of hosts to requests without a login, also for repositories that they hide from anonymous users. */
const noLogin = /authentication required|authorization failed|repository not found/i;

/** Returns the hosts, with ports, that asked for a login according to kluctl's stderr and may be sent one. */
export function hostsAsking(stderr: string, credentials: readonly GitCredential[]): string[] {
  const logins = credentials.filter(({ namedHost }) => namedHost);
  const names = new Set(logins.map(({ namedHost }) => namedHost));
  const given = new Set(logins.map(({ host }) => host));
  if (names.size === 0 || !noLogin.test(stderr)) return [];
  const hosts = fetched(stderr).flatMap(({ protocol, host, hostAndPort }) =>
    protocol !== "ssh:" && names.has(host) ? [hostAndPort] : [],
  );
  return [...new Set(hosts)].filter((host) => !given.has(host));
}

/**
 * Lists the repositories that kluctl has begun to fetch, for error messages: kluctl's error does not say which one
 * failed.
 */
export function fetchedRepositories(stderr: string): string[] {
  // Sorted, because they are fetched concurrently and the message should not depend on which was first.
  return [...new Set(fetched(stderr).map(({ hostAndPort, path }) => `${hostAndPort}/${path}`))].sort();
}

function fetched(stderr: string): ParsedRepoUrl[] {
  const urls = toPlainText(stderr)
    .split("\n")
    .map((line) => parseRepoUrl(fetching.exec(line.trim())?.[1] ?? ""));
  return urls.filter((url) => url !== undefined);
}

/** Returns a function that expands one login to the logins that kluctl needs for it. */
export function forEachHost(asking: readonly string[]): (login: GitCredential) => GitCredential[] {
  return (login) => {
    if (login.namedHost === undefined) return [login];
    const { identity, knownHosts, ...byPassword } = login;
    const { password, ca, ...byKey } = login;
    const hosts = new Set([login.host, ...asking.filter((host) => host.replace(/:\d+$/, "") === login.namedHost)]);
    return [
      ...[...hosts].filter((host) => host !== "*").map((host) => ({ ...byPassword, host })),
      // Using a key for any host is safe: a server cannot steal the key that a client logs in with.
      { ...byKey, host: "*" },
    ];
  };
}
