/** Decides which forge may report about which repository: the claims of another forge are not trusted. */
import type { ForgeKind } from "../model.ts";
import { parseRepoUrl } from "../model/repo-url.ts";

export interface HostedForge {
  readonly id: string;
  readonly kind: ForgeKind;
  readonly apiUrl?: string | undefined;
  readonly webUrl?: string | undefined;
  /** Other hosts from which its repositories are fetched. */
  readonly hosts: readonly string[];
}

export type SpeaksFor = (forge: string, url: string) => boolean;

/** Hosts of forges without a configured address; the second one serves SSH behind firewalls. */
const publicHosts: Partial<Record<ForgeKind, readonly string[]>> = {
  github: ["github.com", "ssh.github.com"],
  gitlab: ["gitlab.com", "altssh.gitlab.com"],
};

/** A forge may report about repositories on its own hosts, and on hosts that belong to no other forge. */
export function createSpeaksFor(forges: readonly HostedForge[]): SpeaksFor {
  const hosts = new Map(forges.map((forge) => [forge.id, hostsOf(forge)]));
  return function speaksFor(id, url) {
    const host = parseRepoUrl(url)?.host;
    if (host === undefined) return false;
    return hosts.get(id)?.has(host) === true || ![...hosts.values()].some((ofForge) => ofForge.has(host));
  };
}

/** Whether a repository is on a host of the forge; as far as none of the forge's hosts is known, whether it may be. */
export function createIsHostedBy(forges: readonly HostedForge[]): SpeaksFor {
  const hosts = new Map(forges.map((forge) => [forge.id, hostsOf(forge)]));
  const speaksFor = createSpeaksFor(forges);
  return function isHostedBy(id, url) {
    const own = hosts.get(id) ?? new Set();
    return own.size === 0 ? speaksFor(id, url) : own.has(parseRepoUrl(url)?.host ?? "");
  };
}

/**
 * Returns an empty set if the hosts are unknown: the forge may then report about all hosts that no other forge owns.
 */
export function hostsOf({ kind, apiUrl, webUrl, hosts }: HostedForge): ReadonlySet<string> {
  const addresses = [apiUrl, webUrl].flatMap((url) => (url === undefined ? [] : new URL(url).hostname));
  // GitHub's API has a host of its own, and so has the API of its hosted enterprises.
  const sites =
    kind === "github" ? addresses.map((host) => host.replace(/^api\.(?=github\.com$|.+\.ghe\.com$)/, "")) : [];
  const own = new Set([...addresses, ...sites, ...hosts].map((host) => host.toLowerCase()));
  const usual = publicHosts[kind] ?? [];
  const isPublic = apiUrl === undefined || usual.some((host) => own.has(host));
  return new Set([...own, ...(isPublic ? usual : [])]);
}
