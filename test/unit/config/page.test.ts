import { expect, test } from "vitest";
import { configWarnings, parseConfig, secretValues } from "../../../src/config.ts";

const token = "the-token-of-this-page-123";

test("without a way to log in there is no page", () => {
  expect(parseConfig({ env: {} }).page).toBeUndefined();
  expect(parseConfig({ env: { TOWLINE_PAGE_PORT: "8000" } }).page).toBeUndefined();
});

test("a token gives access to the page, also from a file, and counts as a secret", () => {
  const config = parseConfig({ env: { TOWLINE_PAGE_TOKEN_FILE: "/t" }, readFile: () => `${token}\n` });
  expect(config.page).toMatchObject({ host: "0.0.0.0", port: 8090 });
  expect(secretValues(config)).toEqual([token]);
  expect(JSON.stringify(config)).not.toContain(token);
});

test("a proxy's header is trusted from configured addresses only", () => {
  const header = { TOWLINE_PAGE_PROXY_HEADER: "X-User" };
  expect(parseConfig({ env: { ...header, TOWLINE_PAGE_PROXY_ADDRESSES: "10.0.0.7,fd00::/8" } }).page?.proxy).toEqual({
    header: "X-User",
    addresses: ["10.0.0.7", "fd00::/8"],
  });
  expect(() => parseConfig({ env: header })).toThrow(/page\.proxyAddresses +is empty, so any client could send/);
  expect(() => parseConfig({ env: { TOWLINE_PAGE_PROXY_ADDRESSES: "10.0.0.7" } })).toThrow(
    /page\.proxyHeader +is missing/,
  );
  expect(() => parseConfig({ env: { ...header, TOWLINE_PAGE_PROXY_ADDRESSES: "10.0.0.0/33" } })).toThrow(
    /page\.proxyAddresses\[0\].*must be an address/,
  );
});

test("a proxy can have a secret, and address blocks without one cause a warning", () => {
  const env = { TOWLINE_PAGE_PROXY_HEADER: "X-User", TOWLINE_PAGE_PROXY_ADDRESSES: "10.0.0.7/32,10.1.0.0/16" };
  const block = configWarnings(parseConfig({ env }));
  expect(block.join("\n")).toContain("page.proxyAddresses has address blocks and page.proxySecret is not set");
  const secret = "what-the-proxy-sends-along";
  const config = parseConfig({ env: { ...env, TOWLINE_PAGE_PROXY_SECRET_FILE: "/s" }, readFile: () => `${secret}\n` });
  expect(configWarnings(config).join("\n")).not.toContain("proxySecret");
  expect(config.page?.proxy?.secret).toMatchObject({ header: "X-Towline-Proxy-Secret" });
  expect(secretValues(config)).toEqual([secret]);
  const alone = configWarnings(parseConfig({ env: { ...env, TOWLINE_PAGE_PROXY_ADDRESSES: "10.0.0.7/32,fd00::7" } }));
  expect(alone.join("\n")).not.toContain("proxySecret");
  expect(() => parseConfig({ env: { TOWLINE_PAGE_PROXY_SECRET: secret } })).toThrow(/page\.proxyHeader +is missing/);
});

test("a short token is refused, and so is a port that is already used", () => {
  expect(() => parseConfig({ env: { TOWLINE_PAGE_TOKEN: "short" } })).toThrow(/page\.token .*24 characters or more/);
  const env = { TOWLINE_PAGE_TOKEN: token, TOWLINE_GITHUB_WEBHOOK_SECRET: "secret-of-github-1" };
  expect(() => parseConfig({ env: { ...env, TOWLINE_PAGE_PORT: "8080" } })).toThrow(
    /page\.port.*is the same as webhooks\.port/,
  );
  expect(() => parseConfig({ env: { ...env, TOWLINE_PAGE_PORT: "9090" } })).toThrow(
    /page\.port.*is the same as admin\.port/,
  );
});

const oidc = {
  TOWLINE_PAGE_OIDC_ISSUER: "https://login.example.com/realms/shop",
  TOWLINE_PAGE_OIDC_CLIENT_ID: "towline",
  TOWLINE_PAGE_OIDC_CLIENT_SECRET_FILE: "/s",
  TOWLINE_PAGE_OIDC_REDIRECT_URL: "https://towline.example.com/auth/callback",
};
const readFile = () => "a-client-secret\n";

test("an identity provider gives groups access to the page, and its client secret counts as a secret", () => {
  const config = parseConfig({ env: { ...oidc, TOWLINE_PAGE_OPERATOR_GROUPS: "ops,admins" }, readFile });
  expect(config.page).toMatchObject({
    oidc: {
      issuer: oidc.TOWLINE_PAGE_OIDC_ISSUER,
      nameClaim: "email",
      groupsClaim: "groups",
      sessionMs: 8 * 3_600_000,
    },
    viewerGroups: [],
    operatorGroups: ["ops", "admins"],
    actAs: "caller",
  });
  expect(secretValues(config)).toEqual(["a-client-secret"]);
  expect(JSON.stringify(config)).not.toContain("a-client-secret");
});

test("a token and a proxy give read-only access unless configured otherwise", () => {
  expect(parseConfig({ env: { TOWLINE_PAGE_TOKEN: token } }).page).toMatchObject({ tokenRole: "viewer" });
  const proxy = { TOWLINE_PAGE_PROXY_HEADER: "X-User", TOWLINE_PAGE_PROXY_ADDRESSES: "10.0.0.7" };
  expect(parseConfig({ env: proxy }).page).toMatchObject({ viewerGroups: ["*"], operatorGroups: [] });
  const grouped = { ...proxy, TOWLINE_PAGE_PROXY_GROUPS_HEADER: "X-Groups", TOWLINE_PAGE_OPERATOR_GROUPS: "ops" };
  expect(parseConfig({ env: grouped }).page).toMatchObject({
    proxy: { header: "X-User", groupsHeader: "X-Groups" },
    viewerGroups: [],
    operatorGroups: ["ops"],
  });
});

test.each([
  ["nobody is named who may look", {}, /page\.viewerGroups +and page\.operatorGroups are both empty/],
  ["a part is missing", { TOWLINE_PAGE_OIDC_CLIENT_ID: undefined }, /page\.oidc\.clientId +is missing/],
  [
    "the issuer can be overheard",
    { TOWLINE_PAGE_OIDC_ISSUER: "http://login.example.com" },
    /issuer.*must begin with https/,
  ],
  [
    "people come back to somewhere else",
    { TOWLINE_PAGE_OIDC_REDIRECT_URL: "https://towline.example.com/" },
    /redirectUrl.*must end with \/auth\/callback/,
  ],
  ["its port is another's", { TOWLINE_PAGE_PORT: "9090" }, /page\.port.*is the same as admin\.port/],
  ["groups without who is in them", { TOWLINE_PAGE_PROXY_GROUPS_HEADER: "X-G" }, /page\.proxyHeader +is missing/],
])("an identity provider is refused if %s", (_what, env, problem) => {
  expect(() => parseConfig({ env: { ...oidc, ...env }, readFile })).toThrow(problem);
});

test("links in comments open the page for everyone who has them only where users have no login of their own", () => {
  const publicUrl = { TOWLINE_PAGE_PUBLIC_URL: "https://towline.example.com" };
  const links = (env: Record<string, string>) => parseConfig({ env: { ...publicUrl, ...env } }).page?.pullRequestLinks;
  expect(links({ TOWLINE_PAGE_TOKEN: token })).toBe("signed");
  const proxy = { TOWLINE_PAGE_PROXY_HEADER: "X-User", TOWLINE_PAGE_PROXY_ADDRESSES: "10.0.0.7" };
  expect(links(proxy)).toBe("login");
  expect(links({ ...proxy, TOWLINE_PAGE_PULL_REQUEST_LINKS: "signed" })).toBe("signed");
  expect(links({ TOWLINE_PAGE_TOKEN: token, TOWLINE_PAGE_PULL_REQUEST_LINKS: "off" })).toBe("off");
  expect(() => parseConfig({ env: { TOWLINE_PAGE_PULL_REQUEST_LINKS: "public" } })).toThrow(/page\.pullRequestLinks/);
  expect(() => parseConfig({ env: { TOWLINE_PAGE_TOKEN: token, TOWLINE_PAGE_PULL_REQUEST_LINKS: "signed" } })).toThrow(
    /page\.publicUrl +is missing: page\.pullRequestLinks needs/,
  );
});
