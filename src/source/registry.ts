/**
 * The few calls of the OCI distribution API that are needed to read an artifact
 * (https://github.com/opencontainers/distribution-spec). Supports the authentication methods that registries ask for,
 * and redirects of blobs; a login is never sent to another host.
 */
import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { SourceError } from "../errors.ts";
import { parseJson } from "../kit/json.ts";
import type { OciCredential } from "../model.ts";
import type { OciName } from "../model/oci-url.ts";
import { parseChallenges } from "./challenge.ts";
import { type Connections, readBody } from "./http.ts";
import { isBrokenOff, isCertificateError, RegistryAnswer, toRegistryAnswer } from "./registry-answer.ts";
import { basicAuthorization } from "./registry-login.ts";

export interface RegistryOptions {
  readonly name: OciName;
  readonly login: OciCredential | undefined;
  readonly connections: Connections;
  /** Ends all calls. */
  readonly signal: AbortSignal;
}

/** One conversation about one repository. Throws SourceError, RegistryAnswer or network errors. */
export interface Registry {
  /** The digest that a tag points to; `undefined` if the registry does not report it. */
  digest(reference: string): Promise<string | undefined>;
  manifest(reference: string): Promise<{ readonly digest: string; readonly bytes: Buffer }>;
  blob(digest: string): Promise<IncomingMessage>;
}

interface Followed {
  readonly answer: IncomingMessage;
  /** Whether redirects have led to another host than the registry. */
  readonly elsewhere: boolean;
}

const manifestTypes = [
  "application/vnd.oci.image.manifest.v1+json",
  "application/vnd.docker.distribution.manifest.v2+json",
  "application/vnd.oci.image.index.v1+json",
  "application/vnd.docker.distribution.manifest.list.v2+json",
].join(", ");
const maxManifestBytes = 4 * 1024 * 1024; // the size that the specification asks registries to accept
const maxTokenBytes = 1024 * 1024;
const mostRedirects = 5;
const pausesMs = [250, 1_000];

const Token = z.object({ token: z.string().optional(), access_token: z.string().optional() });

export function createRegistry({ name, login, connections, signal }: RegistryOptions): Registry {
  const { registry, repository } = name;
  /** Known after the first response. */
  let origin: string | undefined;
  let authorization: string | undefined;

  async function follow(first: URL, method: "GET" | "HEAD", headers: Record<string, string>): Promise<Followed> {
    let url = first;
    for (let hops = 0; hops <= mostRedirects; hops++) {
      const own = url.origin === first.origin && authorization !== undefined;
      const sent = own ? { ...headers, authorization } : headers;
      const answer = await connections.send({ url, method, headers: sent as Record<string, string>, signal });
      const { location } = answer.headers;
      if (![301, 302, 303, 307, 308].includes(answer.statusCode ?? 0) || location === undefined) {
        return { answer, elsewhere: url.origin !== first.origin };
      }
      answer.resume();
      const next = URL.canParse(location, url.href) ? new URL(location, url) : undefined;
      if (next === undefined || !isAsSafe(next, url)) {
        throw new SourceError("refused", "the registry redirects to a URL that is not https");
      }
      url = next;
    }
    throw new SourceError("refused", `the registry redirects more than ${mostRedirects} times`);
  }

  /** Local registries often use plain http. It is tried after https, in the same cases as in kluctl. */
  async function reach(path: string, method: "GET" | "HEAD", headers: Record<string, string>): Promise<Followed> {
    const at = (base: string) => new URL(`${base}/v2/${repository}/${path}`);
    if (origin !== undefined) return follow(at(origin), method, headers);
    const secure = `https://${registry}`;
    let followed: Followed;
    try {
      followed = await follow(at(secure), method, headers);
      origin = secure;
    } catch (error) {
      const plain = (login?.plainHttp || isNearBy(registry)) && isNoTls(error);
      if (!plain) throw error;
      followed = await follow(at(`http://${registry}`), method, headers);
      origin = `http://${registry}`;
    }
    return followed;
  }

  async function ask(path: string, method: "GET" | "HEAD", accept: string): Promise<IncomingMessage> {
    for (let wasAsked = false; ; wasAsked = true) {
      const { answer, elsewhere } = await reach(path, method, { accept });
      if (answer.statusCode === 200) return answer;
      // A 401 from the target of a redirect is not answered: that host would get the login, or could choose the token
      // service that gets it.
      if (answer.statusCode !== 401 || wasAsked || elsewhere) throw await toRegistryAnswer(answer);
      answer.resume();
      authorization = await authorize(answer.headers["www-authenticate"]);
    }
  }

  async function authorize(header: string | undefined): Promise<string> {
    const challenge = parseChallenges(header).find(({ scheme }) => scheme === "bearer" || scheme === "basic");
    if (challenge === undefined) throw new RegistryAnswer(401);
    if (login?.token) return `Bearer ${login.token}`;
    if (challenge.scheme === "bearer") return `Bearer ${await fetchToken(challenge.parameters)}`;
    const basic = basicAuthorization(login);
    if (basic === undefined) throw new RegistryAnswer(401);
    return basic;
  }

  async function fetchToken({ realm = "", service }: Readonly<Record<string, string>>): Promise<string> {
    const url = URL.canParse(realm) ? new URL(realm) : undefined;
    if (url === undefined || !isAsSafe(url, new URL(origin ?? ""))) {
      throw new SourceError("refused", "the registry's token service is not used: its URL is not https");
    }
    const query = { ...(service && { service }), scope: `repository:${repository}:pull` };
    const answer = (await tradeIn(url, query)) ?? (await logIn(url, query));
    if (answer.statusCode !== 200) throw await toRegistryAnswer(answer);
    const text = (await readBody(answer, maxTokenBytes)).toString("utf8");
    const { data } = Token.safeParse(parseJson(text));
    const token = data?.access_token || data?.token;
    if (!token || /[^\x21-\x7e]/.test(token))
      throw new SourceError("refused", "the registry's token service returned no token");
    return token;
  }

  /**
   * Exchanges the identity token for an access token. Returns `undefined` without an identity token, or if the service
   * does not accept any.
   */
  async function tradeIn(url: URL, query: Record<string, string>): Promise<IncomingMessage | undefined> {
    if (!login?.identityToken) return undefined;
    const grant = { grant_type: "refresh_token", client_id: "towline", refresh_token: login.identityToken };
    const headers = { "content-type": "application/x-www-form-urlencoded", accept: "application/json" };
    const body = new URLSearchParams({ ...query, ...grant }).toString();
    const answer = await connections.send({ url, method: "POST", headers, body, signal });
    if (answer.statusCode !== 404 && answer.statusCode !== 405) return answer;
    answer.resume();
    return undefined;
  }

  async function logIn(url: URL, query: Record<string, string>): Promise<IncomingMessage> {
    const asked = new URL(url);
    for (const [key, value] of Object.entries(query)) asked.searchParams.set(key, value);
    const basic = basicAuthorization(login);
    const headers = { accept: "application/json", ...(basic && { authorization: basic }) };
    return connections.send({ url: asked, method: "GET", headers, signal });
  }

  async function askAgain(path: string, method: "GET" | "HEAD", accept: string): Promise<IncomingMessage> {
    for (const pauseMs of pausesMs) {
      try {
        return await ask(path, method, accept);
      } catch (error) {
        const passing =
          error instanceof RegistryAnswer ? error.status >= 500 || error.status === 429 : isBrokenOff(error);
        if (!passing) throw error;
        await delay(pauseMs, undefined, { signal });
      }
    }
    return ask(path, method, accept);
  }

  return {
    async digest(reference) {
      const answer = await askAgain(`manifests/${reference}`, "HEAD", manifestTypes);
      answer.resume();
      return [answer.headers["docker-content-digest"]].flat()[0];
    },
    async manifest(reference) {
      const bytes = await readBody(await askAgain(`manifests/${reference}`, "GET", manifestTypes), maxManifestBytes);
      const digest = `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
      if (reference.includes(":") && reference !== digest) {
        throw new SourceError("refused", `the registry returned a different manifest, ${digest}`);
      }
      return { digest, bytes };
    },
    async blob(digest) {
      return askAgain(`blobs/${digest}`, "GET", "application/octet-stream, */*");
    },
  };
}

/** A login that was sent over https must not be sent on over http. */
function isAsSafe(next: URL, from: URL): boolean {
  return next.protocol === "https:" || (next.protocol === "http:" && from.protocol === "http:");
}

/** Hosts for which kluctl's registry library falls back to http by itself. */
function isNearBy(registry: string): boolean {
  const [, host = ""] = /^(\[[^\]]*\]|[^:]*)/.exec(registry) ?? [];
  return (
    /^10\.|^192\.168\.|^172\.(?:1[6-9]|2\d|3[01])\.|^127\.0\.0\.1$/.test(host) ||
    /(?:^|\.)localhost$|\.local$|^\[::1\]$/.test(host)
  );
}

/** The server does not speak TLS. If it does but its certificate is wrong, falling back to http would be no better. */
function isNoTls(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  return /^EPROTO$|^ERR_SSL|^ECONN/.test(code) && !isCertificateError(error);
}
