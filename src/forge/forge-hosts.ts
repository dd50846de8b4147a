/** Which forge may speak for which repository: another one's word for it would be only a claim. */
import { parseRepoUrl } from "../repo-url.ts";
import type { ForgeKind } from "./webhook-source.ts";

export interface HostedForge {
  readonly id: string;
  readonly kind: ForgeKind;
  readonly apiUrl?: string | undefined;
  readonly webUrl?: string | undefined;
  /** Others that its repositories are read from. */
  readonly hosts: readonly string[];
}

export type SpeaksFor = (forge: string, url: string) => boolean;

/** Of those that are not configured with an address; the second is for SSH behind firewalls. */
const publicHosts: Partial<Record<ForgeKind, readonly string[]>> = {
  github: ["github.com", "ssh.github.com"],
  gitlab: ["gitlab.com", "altssh.gitlab.com"],
};

/** A forge speaks for repositories on hosts of its own, and on those that are no other forge's. */
export function createSpeaksFor(forges: readonly HostedForge[]): SpeaksFor {
  const hosts = new Map(forges.map((forge) => [forge.id, hostsOf(forge)]));
  return function speaksFor(id, url) {
    const host = parseRepoUrl(url)?.host;
    if (host === undefined) return false;
    return hosts.get(id)?.has(host) === true || ![...hosts.values()].some((ofForge) => ofForge.has(host));
  };
}

/** Empty where nothing says which they are: then any forge that has no such host of its own could be meant. */
export function hostsOf({ kind, apiUrl, webUrl, hosts }: HostedForge): ReadonlySet<string> {
  const addresses = [apiUrl, webUrl].flatMap((url) => (url === undefined ? [] : new URL(url).hostname));
  // GitHub's own API has a host of its own, also for those that it hosts for others.
  const sites =
    kind === "github" ? addresses.map((host) => host.replace(/^api\.(?=github\.com$|.+\.ghe\.com$)/, "")) : [];
  const own = new Set([...addresses, ...sites, ...hosts].map((host) => host.toLowerCase()));
  const usual = publicHosts[kind] ?? [];
  const isPublic = apiUrl === undefined || usual.some((host) => own.has(host));
  return new Set([...own, ...(isPublic ? usual : [])]);
}
