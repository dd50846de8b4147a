/** Logs in at a real identity provider, without the page. */
import { expect, test } from "vitest";
import { type OidcConfig, Secret } from "../../../src/config.ts";
import { createOidc } from "../../../src/login/oidc.ts";
import { silentLog } from "../../support/fakes.ts";
import { createCookieJar, type IdentityProvider, useIdentityProvider } from "../../support/identity-provider.ts";

const redirectUrl = "http://127.0.0.1:9/auth/callback"; // nothing listens there: only the redirect's target is read
const ann = { email: "ann@example.com", groups: ["ops", "dev"] };

function useOidc(idp: IdentityProvider, more: Partial<OidcConfig> = {}) {
  const { issuer, clientId, clientSecret } = idp;
  const claims = { scopes: ["email", "groups"], nameClaim: "email", groupsClaim: "groups", sessionMs: 60_000 };
  const config = { issuer, clientId, clientSecret: new Secret(clientSecret), redirectUrl, ...claims, ...more };
  return createOidc({ config, log: silentLog });
}

/** Follows the login like a browser, and returns the query of the redirect back to the server. */
async function goThere(url: string): Promise<string> {
  const jar = createCookieJar();
  for (let at = url; ;) {
    const res = await jar.go(at);
    const location = res.headers.get("location");
    if (location === null) throw new Error(`${at} leads nowhere: ${res.status} ${await res.text()}`);
    at = new URL(location, at).href;
    if (at.startsWith(redirectUrl)) return new URL(at).search;
  }
}

test.each([true, false])(
  "the user's name is read from the token, or requested from the provider (in the token: %s)",
  async (tellsInToken) => {
    const idp = await useIdentityProvider(redirectUrl, tellsInToken);
    idp.up = true;
    idp.comes(ann);
    const oidc = useOidc(idp);
    const { url, flow } = await oidc.begin();
    const { idToken, ...person } = await oidc.finish(await goThere(url), flow);
    expect(person).toEqual({ name: ann.email, groups: ann.groups });

    const leaving = new URL((await oidc.leave(idToken)) ?? "");
    expect(leaving.origin).toBe(idp.issuer);
    expect(Object.fromEntries(leaving.searchParams)).toMatchObject({
      id_token_hint: idToken,
      post_logout_redirect_uri: redirectUrl,
    });
    expect((await fetch(leaving)).status).toBe(200);
    expect(new URL((await oidc.leave(undefined)) ?? "").searchParams.get("client_id")).toBe(idp.clientId);
  },
);

test("a callback is valid once, only for the browser that began the login, and not if it was modified", async () => {
  const idp = await useIdentityProvider(redirectUrl);
  idp.up = true;
  idp.comes(ann);
  const oidc = useOidc(idp);
  const begin = async () => {
    const { url, flow } = await oidc.begin();
    return { flow, query: await goThere(url) };
  };
  const [mine, other] = [await begin(), await begin()];
  await expect(oidc.finish(mine.query, other.flow)).rejects.toMatchObject({ status: 400 });
  const stolen = mine.query.replace(/state=[^&]+/, `state=${other.flow.state}`);
  await expect(oidc.finish(stolen, other.flow)).rejects.toMatchObject({ status: 502 }); // the code verifier differs
  const elsewhere = other.query.replace(/iss=[^&]+/, "iss=https%3A%2F%2Fevil.example.com");
  await expect(oidc.finish(elsewhere, other.flow)).rejects.toMatchObject({ status: 503 });
  const third = await begin();
  await expect(oidc.finish(third.query, { ...third.flow, nonce: "another" })).rejects.toMatchObject({ status: 503 });
  const fourth = await begin();
  expect(await oidc.finish(fourth.query, fourth.flow)).toMatchObject({ name: ann.email });
  await expect(oidc.finish(fourth.query, fourth.flow)).rejects.toMatchObject({ status: 502 });
});

test("a token signed with a key that is not the provider's is rejected", async () => {
  const idp = await useIdentityProvider(redirectUrl);
  Object.assign(idp, { up: true, showsOtherKey: true });
  idp.comes(ann);
  const oidc = useOidc(idp);
  const { url, flow } = await oidc.begin();
  await expect(oidc.finish(await goThere(url), flow)).rejects.toMatchObject({ status: 503 });
});

test("a token signed with the client secret is rejected, although the provider offers this algorithm", async () => {
  const idp = await useIdentityProvider(redirectUrl, true, "HS256");
  idp.up = true;
  idp.comes(ann);
  const told = await fetch(`${idp.issuer}/.well-known/openid-configuration`);
  expect(await told.json()).toMatchObject({
    id_token_signing_alg_values_supported: expect.arrayContaining(["HS256"]) as string[],
  });
  const oidc = useOidc(idp);
  const { url, flow } = await oidc.begin();
  await expect(oidc.finish(await goThere(url), flow)).rejects.toMatchObject({ status: 503 });
});

test("an unreachable provider, a wrong client secret and a missing claim have different errors, none of which contains a secret", async () => {
  const idp = await useIdentityProvider(redirectUrl);
  idp.comes(ann);
  const oidc = useOidc(idp);
  await expect(oidc.begin()).rejects.toMatchObject({
    status: 503,
    message: expect.stringContaining("cannot be reached") as string,
  });
  expect(await oidc.leave("an id token")).toBeUndefined();
  idp.up = true;
  const { url, flow } = await oidc.begin();
  const query = await goThere(url);
  idp.up = false;
  await expect(oidc.finish(query, flow)).rejects.toMatchObject({ status: 503 });
  idp.up = true;

  const wrong = useOidc(idp, { clientSecret: new Secret("a-secret-of-another-client") });
  const begun = await wrong.begin();
  const failure = await wrong.finish(await goThere(begun.url), begun.flow).catch((error: Error) => error);
  expect(failure).toMatchObject({ status: 502, message: expect.stringContaining("invalid_client") as string });
  expect(JSON.stringify(failure)).not.toContain("a-secret-of-another-client");

  const nameless = useOidc(idp, { nameClaim: "upn" });
  const unknown = await nameless.begin();
  await expect(nameless.finish(await goThere(unknown.url), unknown.flow)).rejects.toMatchObject({
    status: 403,
    message: expect.stringContaining("no claim upn") as string,
  });
});

test.each([true, false])(
  "an unverified email address is not accepted as a name (in the token: %s)",
  async (tellsInToken) => {
    const idp = await useIdentityProvider(redirectUrl, tellsInToken);
    idp.up = true;
    const oidc = useOidc(idp);
    for (const verified of ["unsaid", false] as const) {
      idp.comes({ ...ann, email: `${verified}@example.com`, verified });
      const { url, flow } = await oidc.begin();
      await expect(oidc.finish(await goThere(url), flow)).rejects.toMatchObject({
        status: 403,
        message: "Your email address is not verified at the identity provider.",
      });
    }
  },
);
