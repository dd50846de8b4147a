/**
 * A real identity provider: a certified OpenID Connect server at which every browser is logged in as the chosen user.
 */
import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import Provider, { type Context } from "oidc-provider";
import { onTestFinished } from "vitest";

export interface IdentityProvider {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** Sets the next user and their claims, which are in the ID token or only returned by the userinfo endpoint. */
  comes(person: {
    readonly email: string;
    readonly groups: readonly string[];
    readonly verified?: boolean | "unsaid";
  }): void;
  /** Whether it answers requests. */
  up: boolean;
  /** If true, it signs with a different key from the one it publishes. */
  showsOtherKey: boolean;
}

/**
 * `tellsInToken: false`: puts no claims into the ID token, like some providers. HS256 signs with the client's secret.
 */
export async function useIdentityProvider(
  redirectUrl: string,
  tellsInToken = true,
  signsWith: "RS256" | "HS256" = "RS256",
): Promise<IdentityProvider> {
  const people = new Map<string, { email: string; groups: readonly string[]; verified?: boolean | "unsaid" }>();
  let next = "";
  let handle: ReturnType<Provider["callback"]> = (_req, res) => void res.writeHead(503).end();
  const idp = { up: false, showsOtherKey: false };
  const server = createServer((req, res) => {
    if (!idp.up) return void res.writeHead(503).end("not now");
    // Skips the password prompt.
    if (req.url?.startsWith("/come/"))
      return void provider.interactionFinished(req, res, { login: { accountId: next } }).catch(() => res.destroy());
    if (idp.showsOtherKey && req.url === "/jwks") return void res.end(JSON.stringify({ keys: [aKey()] }));
    handle(req, res);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  // For a browser, `localhost` is a different site from the page's.
  const issuer = `http://localhost:${(server.address() as AddressInfo).port}`;
  const client = { client_id: "towline", client_secret: "the-secret-of-this-client" };
  const provider = new Provider(issuer, {
    clients: [
      {
        ...client,
        redirect_uris: [redirectUrl],
        post_logout_redirect_uris: [redirectUrl],
        scope: "openid profile email groups",
        id_token_signed_response_alg: signsWith,
      },
    ],
    enabledJWA: { idTokenSigningAlgValues: ["RS256", signsWith] },
    jwks: { keys: [aKey()] },
    cookies: { keys: ["a-key-for-the-cookies-of-this-test"] },
    claims: { openid: ["sub"], email: ["email", "email_verified"], groups: ["groups"] },
    scopes: ["openid", "profile", "email", "groups"],
    conformIdTokenClaims: !tellsInToken,
    features: { devInteractions: { enabled: false } },
    ttl: { Interaction: 600, Grant: 600, Session: 600, AccessToken: 600, IdToken: 600 },
    pkce: { required: () => true },
    interactions: { url: () => "/come/in" },
    findAccount: (_: unknown, accountId: string) => ({
      accountId,
      claims() {
        const { email, groups, verified = true } = people.get(accountId) ?? { email: "", groups: [] };
        return { sub: accountId, email, ...(verified !== "unsaid" && { email_verified: verified }), groups };
      },
    }),
    async loadExistingGrant({ oidc }: Context) {
      const grant = new oidc.provider.Grant({ accountId: oidc.session.accountId, clientId: oidc.client.clientId });
      grant.addOIDCScope("openid profile email groups");
      await grant.save();
      return grant;
    },
  });
  handle = provider.callback();
  return Object.assign(idp, {
    issuer,
    clientId: client.client_id,
    clientSecret: client.client_secret,
    comes(person: { email: string; groups: readonly string[]; verified?: boolean | "unsaid" }) {
      next = `id-of-${person.email}`;
      people.set(next, person);
    },
  });
}

function aKey() {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  return { ...privateKey.export({ format: "jwk" }), use: "sig", alg: "RS256" };
}

/** A browser's handling of redirects and cookies: each site gets only its own cookies. */
export function createCookieJar() {
  const jar = new Map<string, Map<string, string>>();

  async function go(url: string, headers: Record<string, string> = {}, init: RequestInit = {}): Promise<Response> {
    const { host } = new URL(url);
    const cookies = jar.get(host) ?? jar.set(host, new Map<string, string>()).get(host)!;
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const res = await fetch(url, {
      ...init,
      headers: { ...headers, ...(cookie && { Cookie: cookie }) },
      redirect: "manual",
    });
    for (const line of res.headers.getSetCookie()) {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (value === "" || /expires=thu, 01 jan 1970/i.test(line)) cookies.delete(name);
      else cookies.set(name, value);
    }
    return res;
  }

  return {
    go,
    /** Follows all redirects and returns the last answer. */
    async follow(url: string): Promise<{ readonly url: string; readonly res: Response }> {
      for (let at = url, hops = 0; ; hops++) {
        const res = await go(at);
        const location = res.headers.get("location");
        if (location === null || hops > 20) return { url: at, res };
        at = new URL(location, at).href;
        if (new URL(at).pathname === "/") return { url: at, res };
      }
    },
    forget: (host: string) => void jar.delete(host),
  };
}
