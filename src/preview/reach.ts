/** Which hosts the kluctl of a preview may reach: those that its deployment's resource and the base name. Pure. */
import type { Credentials, GitDeployment } from "../model.ts";
import { parseRepoUrl } from "../model/repo-url.ts";

/**
 * Each in the format of `preview.hosts`. A pull request cannot add hosts: `baseHosts` are those in the merged state.
 */
export function hostsOf(
  { spec }: Pick<GitDeployment, "spec">,
  { git, oci, helm }: Credentials,
  baseHosts: readonly string[],
): string[] {
  const hosts = [
    ...hostsOfUrl(spec.source.url),
    ...git.map(({ host }) => host).filter((host) => host !== "*"),
    ...oci.flatMap(({ registry }) => hostsOfRegistry(registry)),
    ...helm.map(({ host }) => host),
    ...baseHosts.flatMap(hostsOfRegistry),
  ];
  return [...new Set(hosts.filter((host) => host !== ""))];
}

/** Previews fetch nothing over ssh, and the same host most likely serves https as well. */
function hostsOfUrl(url: string): string[] {
  const { protocol, host = "", hostAndPort = "" } = parseRepoUrl(url) ?? {};
  return [protocol === "https:" || protocol === "http:" ? hostAndPort : host];
}

/** Docker's own registry has several names, and serves tokens and contents from other hosts. */
function hostsOfRegistry(registry: string): string[] {
  const isDockers = /^(?:.+\.)?docker\.io$/.test(registry);
  return isDockers ? ["*.docker.io", "production.cloudflare.docker.com"] : [registry];
}
