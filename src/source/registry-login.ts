/** Chooses the login for an artifact and builds its header. Pure. */
import type { OciCredential } from "../model.ts";
import type { OciName } from "../model/oci-url.ts";
import { matchesGlob } from "../kit/glob.ts";

/** Chooses the first login that matches, as kluctl does. */
export function chooseRegistryLogin(
  { registry, repository }: OciName,
  credentials: readonly OciCredential[],
): OciCredential | undefined {
  return credentials.find((one) => {
    const theirs = one.registry === "docker.io" ? "index.docker.io" : one.registry;
    return theirs === registry && (!one.repository || matchesGlob(one.repository, repository));
  });
}

/** The header for a registry or token service with basic authentication. */
export function basicAuthorization(login: OciCredential | undefined): string | undefined {
  if (!login?.username && !login?.password) return undefined;
  return `Basic ${Buffer.from(`${login.username ?? ""}:${login.password ?? ""}`).toString("base64")}`;
}

/** For error messages; never reveals more than the username. */
export function describeLogin(login: OciCredential | undefined): string {
  if (login === undefined) return "no login: no entry of spec.credentials.oci matches";
  const shown = login.username ? `, user ${JSON.stringify(login.username)}` : "";
  if (login.secretName === "") return `the server's own login${shown}`;
  const { password, identityToken, token, cert } = login;
  const isEmpty = [password, identityToken, token, cert].every((one) => !one);
  return `secret ${login.secretName}${isEmpty ? " has no password, token, identityToken or cert" : shown}`;
}

/** The parts of a login that determine who may read what was fetched with it. */
export function loginParts(login: OciCredential | undefined): readonly unknown[] {
  const { username, password, identityToken, token, cert, key } = login ?? {};
  return [username, password, identityToken, token, cert, key];
}
