/** Which hosts the kluctl of a preview may reach: those that its deployment's resource and the base name. Pure. */
import type { Credentials, GitDeployment } from "../model.ts";
import { parseRepoUrl } from "../repo-url.ts";

/** Each as in `preview.hosts`. A branch adds nothing to them: `baseHosts` are in what has been merged already. */
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

/** Over ssh nothing is fetched in a preview, and the same host most likely speaks https as well. */
function hostsOfUrl(url: string): string[] {
  const { protocol, host = "", hostAndPort = "" } = parseRepoUrl(url) ?? {};
  return [protocol === "https:" || protocol === "http:" ? hostAndPort : host];
}

/** Docker's own has several names, and hands out tokens and contents under others. */
function hostsOfRegistry(registry: string): string[] {
  const isDockers = /^(?:.+\.)?docker\.io$/.test(registry);
  return isDockers ? ["*.docker.io", "production.cloudflare.docker.com"] : [registry];
}
