/**
 * Login at an identity provider: OpenID Connect's authorization code flow, with PKCE, state and nonce. The provider is
 * discovered at the first login, and again after a failure: it never keeps the server from starting.
 */
import * as client from "openid-client";
import { z } from "zod";
import type { OidcConfig } from "../config.ts";
import { RequestError } from "../errors.ts";
import { within } from "../kit/deadline.ts";
import type { Logger } from "../log.ts";

export interface OidcDeps {
  readonly config: OidcConfig;
  readonly log: Logger;
  /** Monotonic milliseconds. */
  readonly now?: (() => number) | undefined;
}

/** What has to be stored between the redirect to the provider and the return. */
export const LoginFlow = z.object({
  state: z.string(),
  nonce: z.string(),
  verifier: z.string(),
});
export type LoginFlow = z.infer<typeof LoginFlow>;

export interface OidcUser {
  readonly name: string;
  readonly groups: readonly string[];
  /** Identifies the session to the provider when it has to end. */
  readonly idToken: string;
}

export interface Oidc {
  /**
   * Returns where to redirect the user; `anew`: the provider has to authenticate the user again, despite a session
   * there. Throws a RequestError.
   */
  begin(anew?: boolean): Promise<{ readonly url: string; readonly flow: LoginFlow }>;
  /** Returns the user who came back with this query. Throws a RequestError. */
  finish(query: string, flow: LoginFlow): Promise<OidcUser>;
  /**
   * Returns where users end their session at the provider; `undefined` if the provider has no such endpoint, or does
   * not answer in time.
   */
  leave(idToken: string | undefined): Promise<string | undefined>;
}

/** A provider may change its keys at any time, which the library detects; its endpoints hardly ever change. */
const knownForMs = 3_600_000;
const patienceS = 10;
const longestName = 200;
/** A logout does not wait for a provider that is slow to answer. */
const leavingMs = 3_000;

export function createOidc({ config, log, now = () => performance.now() }: OidcDeps): Oidc {
  const { issuer, clientId, clientSecret, redirectUrl, scopes, nameClaim, groupsClaim } = config;
  let found: { readonly provider: Promise<client.Configuration>; readonly at: number } | undefined;

  /** Every provider must support Basic, unless it lists its methods. */
  const authentication: client.ClientAuth = (server, ...rest) => {
    const { token_endpoint_auth_methods_supported: known = ["client_secret_basic"] } = server;
    const kind = known.includes("client_secret_basic") ? client.ClientSecretBasic : client.ClientSecretPost;
    return kind(clientSecret.reveal())(server, ...rest);
  };

  function discover(): Promise<client.Configuration> {
    if (found !== undefined && now() - found.at < knownForMs) return found.provider;
    const url = new URL(issuer);
    const provider = client.discovery(url, clientId, undefined, authentication, {
      timeout: patienceS,
      // Signatures are checked, too: the standard considers TLS sufficient, but a proxy in between may terminate it.
      // The configuration allows issuers without TLS only on this machine.
      execute: [client.enableNonRepudiationChecks, ...(url.protocol === "http:" ? [client.allowInsecureRequests] : [])],
    });
    const mine = { provider, at: now() };
    provider.catch(() => {
      if (found === mine) found = undefined;
    });
    found = mine;
    return provider;
  }

  async function reach<T>(what: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw explain(what, error);
    }
  }

  /** The provider's message is logged; the user sees only the standard's error code. */
  function explain(what: string, error: unknown): RequestError {
    if (error instanceof RequestError) return error;
    const { code, details } = describe(error);
    log.warn({ issuer, what, ...details }, "login failed");
    if (error instanceof client.AuthorizationResponseError)
      return new RequestError(
        403,
        `The identity provider refused the login: ${code}.`,
        "Contact the provider's administrator, or try again.",
      );
    if (error instanceof client.ResponseBodyError || error instanceof client.WWWAuthenticateChallengeError)
      return new RequestError(
        502,
        `The identity provider rejected the server's client: ${code}.`,
        "page.oidc.clientId, clientSecret and redirectUrl must match the provider's configuration. See the server's log for details.",
      );
    return new RequestError(
      503,
      `The identity provider ${new URL(issuer).host} ${what === "finding it" ? "cannot be reached" : "returned an invalid response"}.`,
      "Try again; if it keeps failing, see the server's log.",
    );
  }

  return {
    async begin(anew = false) {
      const provider = await reach("finding it", discover);
      const flow = {
        state: client.randomState(),
        nonce: client.randomNonce(),
        verifier: client.randomPKCECodeVerifier(),
      };
      const url = client.buildAuthorizationUrl(provider, {
        redirect_uri: redirectUrl,
        scope: [...new Set(["openid", ...scopes])].join(" "),
        state: flow.state,
        nonce: flow.nonce,
        code_challenge: await client.calculatePKCECodeChallenge(flow.verifier),
        code_challenge_method: "S256",
        ...(anew && { prompt: "login" }),
      });
      return { url: url.href, flow };
    },
    async finish(query, { state, nonce, verifier }) {
      const provider = await reach("finding it", discover);
      const back = new URL(redirectUrl);
      back.search = query;
      // A response to another login is not a fault of the provider.
      if (back.searchParams.get("state") !== state)
        throw new RequestError(
          400,
          "This response does not belong to the login that was started in this browser.",
          "Log in again.",
        );
      const { claims, idToken } = await reach("the login", async () => {
        const tokens = await client.authorizationCodeGrant(provider, back, {
          pkceCodeVerifier: verifier,
          expectedState: state,
          expectedNonce: nonce,
          idTokenExpected: true,
        });
        const known: Record<string, unknown> = { ...tokens.claims() };
        const { id_token: token = "" } = tokens;
        const needed = [nameClaim, groupsClaim, ...(nameClaim === "email" ? ["email_verified"] : [])];
        const whole = needed.every((claim) => claim in known);
        if (whole || !provider.serverMetadata().userinfo_endpoint) return { claims: known, idToken: token };
        // Some providers include fewer claims in the token than they have.
        const more = await client.fetchUserInfo(provider, tokens.access_token, String(tokens.claims()?.sub));
        return { claims: { ...more, ...known } as Record<string, unknown>, idToken: token };
      });
      return { name: nameOf(claims), groups: groupsOf(claims[groupsClaim]), idToken };
    },
    async leave(idToken) {
      const discovered = discover().catch(() => undefined);
      const provider = await within(leavingMs, discovered, () => undefined, { ref: false });
      const { end_session_endpoint: place = "" } = provider?.serverMetadata() ?? {};
      if (provider === undefined || !/^https?:/i.test(place)) return undefined;
      // The provider already knows the redirect URL of logins; a logout returns there, too.
      const parameters = { post_logout_redirect_uri: redirectUrl, ...(idToken && { id_token_hint: idToken }) };
      return client.buildEndSessionUrl(provider, parameters).href;
    },
  };

  function nameOf(claims: Readonly<Record<string, unknown>>): string {
    const name = claims[nameClaim];
    if (typeof name !== "string" || name.trim() === "" || name.length > longestName)
      throw new RequestError(
        403,
        `The identity provider did not send your name: its tokens have no claim ${nameClaim}.`,
        "Set page.oidc.nameClaim to a claim that they have, or add a scope to page.oidc.scopes that provides it.",
      );
    // Users can claim any address; some providers send the flag as a string.
    if (nameClaim === "email" && String(claims["email_verified"]) !== "true")
      throw new RequestError(
        403,
        "Your email address is not verified at the identity provider.",
        "Verify it there. If the provider never sends email_verified, set page.oidc.nameClaim to a claim that users cannot choose themselves.",
      );
    return name.trim();
  }
}

function groupsOf(claim: unknown): string[] {
  const all = Array.isArray(claim) ? claim : [claim];
  return [...new Set(all.filter((group): group is string => typeof group === "string" && group !== ""))];
}

function describe(error: unknown) {
  const { name, code, message, cause } = error as Error & { code?: string };
  const word = wordOf(error) ?? code;
  const why = cause instanceof Error ? cause.message : undefined;
  return {
    code: /^[a-z_]{1,60}$/.test(word ?? "") ? String(word) : "no reason given",
    details: { name, code: word, error: message, cause: why },
  };
}

/** The standard's name of the error. */
function wordOf(error: unknown): string | undefined {
  if (error instanceof client.AuthorizationResponseError || error instanceof client.ResponseBodyError)
    return error.error;
  // For a wrong secret, from most providers that use Basic.
  if (error instanceof client.WWWAuthenticateChallengeError)
    return error.cause.find(({ parameters }) => parameters.error !== undefined)?.parameters.error ?? "invalid_client";
  return undefined;
}
