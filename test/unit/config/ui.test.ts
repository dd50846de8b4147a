import { expect, test } from "vitest";
import { parseConfig, secretValues } from "../../../src/config.ts";

const token = "the-token-of-this-page-123";

test("without access there is no page", () => {
  expect(parseConfig({ env: {} }).ui).toBeUndefined();
  expect(parseConfig({ env: { TOWLINE_UI_PORT: "8000" } }).ui).toBeUndefined();
});

test("a token opens the page, also from a file, and counts as a secret", () => {
  const config = parseConfig({ env: { TOWLINE_UI_TOKEN_FILE: "/t" }, readFile: () => `${token}\n` });
  expect(config.ui).toMatchObject({ host: "0.0.0.0", port: 8090 });
  expect(secretValues(config)).toEqual([token]);
  expect(JSON.stringify(config)).not.toContain(token);
});

test("a proxy's header is believed from named addresses only", () => {
  const header = { TOWLINE_UI_PROXY_HEADER: "X-User" };
  expect(parseConfig({ env: { ...header, TOWLINE_UI_PROXY_ADDRESSES: "10.0.0.7,fd00::/8" } }).ui?.proxy).toEqual({
    header: "X-User",
    addresses: ["10.0.0.7", "fd00::/8"],
  });
  expect(() => parseConfig({ env: header })).toThrow(/ui\.proxyAddresses +is empty: anybody could send/);
  expect(() => parseConfig({ env: { TOWLINE_UI_PROXY_ADDRESSES: "10.0.0.7" } })).toThrow(/ui\.proxyHeader +is missing/);
  expect(() => parseConfig({ env: { ...header, TOWLINE_UI_PROXY_ADDRESSES: "10.0.0.0/33" } })).toThrow(
    /ui\.proxyAddresses\[0\].*must be an address/,
  );
});

test("a short token is refused, and so is the port of something else", () => {
  expect(() => parseConfig({ env: { TOWLINE_UI_TOKEN: "short" } })).toThrow(/ui\.token .*24 characters or more/);
  const env = { TOWLINE_UI_TOKEN: token, TOWLINE_GITHUB_WEBHOOK_SECRET: "secret-of-github-1" };
  expect(() => parseConfig({ env: { ...env, TOWLINE_UI_PORT: "8080" } })).toThrow(/ui\.port.*is also webhooks\.port/);
  expect(() => parseConfig({ env: { ...env, TOWLINE_UI_PORT: "9090" } })).toThrow(/ui\.port.*is also admin\.port/);
});
