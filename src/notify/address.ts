/** The addresses and logins of targets that are reached by HTTP. Pure. */

/** Returns the host, for messages. Throws an Error without the address, which is a secret of many targets. */
export function checkAddress(url: string): string {
  const { host, protocol, username, password } = URL.parse(url) ?? {};
  if (host === undefined || (protocol !== "https:" && protocol !== "http:"))
    throw new Error("url: must begin with https:// or http://");
  // fetch rejects such an address in each request, and quotes it.
  if (username !== "" || password !== "") throw new Error("url: must not contain a user name or password");
  return host;
}

/** The header that proves who sends; none without a token. Throws an Error that does not contain the token. */
export function bearerOf(token: string | undefined): { readonly authorization?: string } {
  if (token === undefined) return {};
  if (!/^[\x21-\x7e]+$/.test(token))
    throw new Error("token: is empty, or contains a character that is invalid in a header");
  return { authorization: `Bearer ${token}` };
}
