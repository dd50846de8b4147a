/**
 * The deprecated login of a source is meant for whatever the project includes. To kluctl's command line a login over http
 * is for one host and port, and what a project includes is known when it is rendered. So kluctl first gets the login for
 * the source's own; when that is not enough it names the repository that it has asked for, and runs again with the login
 * for that too. It has to be on a host of the same name: a project must not have a password sent to wherever it likes. Pure.
 */
import type { GitCredential } from "../model.ts";
import { type ParsedRepoUrl, parseRepoUrl } from "../repo-url.ts";
import { toPlainText } from "./output.ts";

const fetching = /^Updating git cache for (\S{1,2000})$/;
/** What hosts say to somebody without a login, or of a repository that they show to nobody else. */
const noLogin = /authentication required|authorization failed|repository not found/i;

/** Those of the hosts in kluctl's last words, with their ports, that asked for a login which may be sent there. */
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

/** The repositories that kluctl has begun to fetch, for people. Which of them failed, its error does not say. */
export function fetchedRepositories(stderr: string): string[] {
  // They are fetched side by side: what people read should not change with who was first.
  return [...new Set(fetched(stderr).map(({ hostAndPort, path }) => `${hostAndPort}/${path}`))].sort();
}

function fetched(stderr: string): ParsedRepoUrl[] {
  const urls = toPlainText(stderr)
    .split("\n")
    .map((line) => parseRepoUrl(fetching.exec(line.trim())?.[1] ?? ""));
  return urls.filter((url) => url !== undefined);
}

/** A login as the several that kluctl has to be given for it. */
export function forEachHost(asking: readonly string[]): (login: GitCredential) => GitCredential[] {
  return (login) => {
    if (login.namedHost === undefined) return [login];
    const { identity, knownHosts, ...byPassword } = login;
    const { password, ca, ...byKey } = login;
    const hosts = new Set([login.host, ...asking.filter((host) => host.replace(/:\d+$/, "") === login.namedHost)]);
    return [
      ...[...hosts].filter((host) => host !== "*").map((host) => ({ ...byPassword, host })),
      // Nobody can take a key away from who logs in with it.
      { ...byKey, host: "*" },
    ];
  };
}
