/** Parses the URL of an OCI artifact like kluctl's registry library. Pure. */

export interface OciName {
  /** The registry's host, with its port if the URL has one; Docker Hub is `index.docker.io`. */
  readonly registry: string;
  readonly repository: string;
}

const dockers = "index.docker.io";
const prefix = "oci://";

/** Returns `undefined` if it is not `oci://registry/repository`, or has a login, tag or digest. */
export function parseOciUrl(url: string): OciName | undefined {
  if (!url.startsWith(prefix) || url.length > 1_000) return undefined;
  const name = url.slice(prefix.length).replace(/\/+$/, "");
  const slash = name.indexOf("/");
  const first = slash === -1 ? "" : name.slice(0, slash);
  const named = /[.:]/.test(first) || first === "localhost";
  if (slash === -1 && /[.:]/.test(name)) return undefined; // a registry without a repository
  const registry = !named || first === "docker.io" ? dockers : first;
  const rest = named ? name.slice(slash + 1) : name;
  // Docker Hub keeps repositories without an owner below `library/`.
  const repository = registry === dockers && !rest.includes("/") ? `library/${rest}` : rest;
  return isRegistry(registry) && isRepository(repository) ? { registry, repository } : undefined;
}

/** `sha256:` and 64 digits; registries use no other algorithm in practice. */
export function isDigest(text: string): boolean {
  return /^sha256:[0-9a-f]{64}$/.test(text);
}

export function isTag(text: string): boolean {
  return /^[A-Za-z0-9_.-]{1,128}$/.test(text);
}

function isRegistry(registry: string): boolean {
  if (!/^(?:\[[0-9a-f:.]+\]|[A-Za-z0-9][A-Za-z0-9.-]*)(?::\d{1,5})?$/.test(registry)) return false;
  return URL.canParse(`https://${registry}`);
}

function isRepository(repository: string): boolean {
  const parts = repository.split("/");
  return /^[a-z0-9._/-]{2,255}$/.test(repository) && parts.every((part) => !/^\.{0,2}$/.test(part));
}
