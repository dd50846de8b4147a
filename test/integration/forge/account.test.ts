import { generateKeyPairSync } from "node:crypto";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { findAccount } from "../../../src/forge/account.ts";
import { silentLog } from "../../support/fakes.ts";
import { useGithubHost } from "../../support/github-host.ts";
import { useGitea } from "../../support/world.ts";

const token = "canary-token-0123456789";
const asToken = (text: string) => ({ login: { token: text }, log: silentLog });

async function useHost(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test("a real Gitea reports the token's user, and rejects a wrong token", async () => {
  const { url, user, token: real } = (await useGitea()).login;
  expect(await findAccount({ ...asToken(real), kind: "gitea", apiUrl: `${url}/api/v1` })).toEqual({ name: user });
  await expect(findAccount({ ...asToken(token), kind: "gitea", apiUrl: `${url}/api/v1` })).rejects.toThrow(
    "was rejected (401)",
  );
});

test.each(["github", "gitlab"] as const)(
  "requests to %s go to the configured address, with the token in the right header",
  async (kind) => {
    const seen: string[] = [];
    const host = await useHost((req, res) => {
      seen.push(`${req.url} ${req.headers.authorization ?? String(req.headers["private-token"])}`);
      res.setHeader("Content-Type", "application/json");
      res.end(JSON.stringify({ login: "towline-bot", username: "towline-bot" }));
    });
    const apiUrl = kind === "gitlab" ? `${host}/api/v4` : `${host}/api/v3`;
    expect(await findAccount({ ...asToken(token), kind, apiUrl })).toMatchObject({ name: "towline-bot" });
    expect(seen).toEqual(
      kind === "gitlab"
        ? [`/api/v4/user ${token}`, `/api/v4/personal_access_tokens/self ${token}`]
        : [`/api/v3/user Bearer ${token}`],
    );
  },
);

test.each(["github", "gitlab", "gitea"] as const)("errors about %s do not contain the token", async (kind) => {
  const refusing = await useHost((_req, res) => res.writeHead(401).end("{}"));
  const odd = await useHost((_req, res) => res.setHeader("Content-Type", "application/json").end("[]"));
  const path = kind === "gitlab" ? "/api/v4" : "";
  const said = async (host: string) =>
    findAccount({ ...asToken(token), kind, apiUrl: host + path }).then(
      () => "fine",
      (error: unknown) => String(error),
    );
  expect(await said(refusing)).toContain("was rejected (401)");
  expect(await said(odd)).toContain("did not return a user");
  expect(await said("http://127.0.0.1:1")).toContain("cannot be reached");
  for (const host of [refusing, odd]) expect(await said(host)).not.toContain(token);
});

test("the hosts that know when a token expires are asked for it", async () => {
  const host = await useHost((req, res) => {
    res.setHeader("Content-Type", "application/json");
    res.setHeader("GitHub-Authentication-Token-Expiration", "2026-12-31 05:00:00 UTC");
    res.end(JSON.stringify(req.url?.endsWith("/self") ? { expires_at: "2027-01-31" } : { login: "a", username: "a" }));
  });
  const expiry = async (kind: "github" | "gitlab", path = "") =>
    (await findAccount({ ...asToken(token), kind, apiUrl: host + path })).expiresAt;
  expect(await expiry("github")).toBe(Date.parse("2026-12-31T05:00:00Z"));
  expect(await expiry("gitlab", "/api/v4")).toBe(Date.parse("2027-01-31T00:00:00Z"));
});

test("a token that may not read its own expiry works all the same", async () => {
  const host = await useHost((req, res) => {
    res.setHeader("Content-Type", "application/json");
    if (req.url?.endsWith("/self")) res.statusCode = 403;
    res.end(JSON.stringify({ username: "towline-bot" }));
  });
  const found = await findAccount({ ...asToken(token), kind: "gitlab", apiUrl: `${host}/api/v4` });
  expect(found).toEqual({ name: "towline-bot" });
});

test("a redirect does not send the token to another host", async () => {
  const other: string[] = [];
  const elsewhere = await useHost((req, res) => {
    other.push(req.headers.authorization ?? "");
    res.end();
  });
  const host = await useHost((_req, res) => res.writeHead(302, { Location: elsewhere }).end());
  await expect(findAccount({ ...asToken(token), kind: "github", apiUrl: host })).rejects.toThrow("cannot be reached");
  expect(other).toEqual([]);
});

test("the login of a GitHub App is the name of its comments' author, and a wrong key is reported at once", async () => {
  const { apiUrl, logins } = await useGithubHost({ as: "app" });
  const found = (app: typeof logins.app) => findAccount({ kind: "github", apiUrl, login: { app }, log: silentLog });
  expect((await found(logins.app)).name).toMatch(/\[bot\]$/);
  const key = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ type: "pkcs1", format: "pem" });
  await expect(found({ ...logins.app, privateKey: String(key) })).rejects.toMatchObject({
    problem: "unauthorized",
    message: expect.stringContaining("the App"),
  });
});
