/** Logins and permissions on the local GitHub: users' tokens, an App, and the tokens of its installation. */
import { createVerify, generateKeyPairSync, randomBytes } from "node:crypto";
import type { GithubDelivery } from "./github-delivery-routes.ts";
import { githubExample } from "./github-openapi.ts";
import type { GithubUser } from "./github-repository.ts";

export type Permissions = Readonly<Record<string, "read" | "write">>;

export type Caller =
  | { readonly kind: "app" }
  | { readonly kind: "user"; readonly user: GithubUser; readonly permissions: Permissions }
  | {
      readonly kind: "installation";
      readonly user: GithubUser;
      readonly permissions: Permissions;
      /** Repository names in lower case. */
      readonly repositories: readonly string[];
    };

export interface InstallationToken {
  readonly token: string;
  readonly repositories: readonly string[];
  readonly permissions: Permissions;
  /** Epoch milliseconds. */
  expiresAt: number;
}

const appId = "271828";
const slug = "towline-test";

export interface Installation {
  id: number;
  /** The repositories it can access. */
  selected: "all" | readonly string[];
  permissions: Permissions;
}

export type GithubLogins = ReturnType<typeof createGithubLogins>;

/** Permissions of the App that `towline init` creates, and of one from before it wrote check runs. */
const appPermissions: Readonly<Record<"checks" | "statuses", Permissions>> = {
  checks: { pull_requests: "write", checks: "write", statuses: "write", deployments: "write", metadata: "read" },
  statuses: { pull_requests: "write", statuses: "write", metadata: "read" },
};

export function createGithubLogins(
  webUrl: string,
  owner: string,
  { now, grants }: { readonly now: () => number; readonly grants: "checks" | "statuses" },
) {
  const { publicKey, privateKey } = generateKeyPairSync("rsa", {
    modulusLength: 2_048,
    publicKeyEncoding: { type: "spki", format: "pem" },
    // The format in which GitHub offers it for download.
    privateKeyEncoding: { type: "pkcs1", format: "pem" },
  });
  const token = `github_pat_${randomBytes(30).toString("hex")}`;
  const installationTokens: InstallationToken[] = [];
  const app = { ...githubExample("integration"), id: Number(appId), slug, html_url: `${webUrl}/apps/${slug}` };
  const bot: GithubUser = { id: 9_002, login: `${slug}[bot]`, type: "Bot" };

  const installed: Installation = {
    id: 4_711,
    selected: "all",
    permissions: appPermissions[grants],
  };

  const logins = {
    token,
    user: { id: 9_001, login: "towline", type: "User" } as GithubUser,
    /**
     * Permissions of the user's token. A fine-grained token gets a 403 that names the missing permission, a
     * classic one a 404.
     */
    permissions: { pull_requests: "write", statuses: "write" } as Permissions,
    classic: false,
    app: { appId, privateKey },
    appObject: app,
    bot,
    installationTokens,
    /** Apps created from a manifest and not fetched yet. */
    manifestCodes: new Set<string>(),
    /** Newest first. */
    appDeliveries: [] as GithubDelivery[],
    appHook: {} as Record<string, string | undefined>,
    /** `undefined`: the owner has not installed the App. */
    installation: installed as Installation | undefined,

    showInstallation(): Record<string, unknown> | undefined {
      const { installation } = logins;
      if (installation === undefined) return undefined;
      return {
        ...githubExample("installation"),
        ...{ id: installation.id, app_id: app.id, permissions: installation.permissions },
        repository_selection: installation.selected === "all" ? "all" : "selected",
        html_url: `${webUrl}/organizations/${owner}/settings/installations/${installation.id}`,
      };
    },

    showAppHook(): Record<string, unknown> {
      const { secret, ...shown } = logins.appHook;
      return { ...shown, ...(secret && { secret: "********" }) };
    },

    showMadeApp(): Record<string, unknown> {
      const example = githubExample("integration-from-manifest");
      return { ...example, id: Number(appId), slug, html_url: app.html_url, pem: privateKey };
    },

    /** Simulates that the owner removes the App; its tokens become invalid. */
    uninstall(): void {
      logins.installation = undefined;
      for (const one of installationTokens) one.expiresAt = 0;
    },

    makeInstallationToken(repositories: readonly string[], permissions: Permissions): Record<string, unknown> {
      const made: InstallationToken = {
        token: `ghs_${randomBytes(18).toString("hex")}`,
        repositories,
        permissions: { metadata: "read", ...permissions },
        expiresAt: now() + 3_600_000,
      };
      installationTokens.push(made);
      const expires_at = new Date(made.expiresAt).toISOString().replace(/\.\d+Z$/, "Z");
      return { token: made.token, expires_at, permissions: made.permissions, repository_selection: "selected" };
    },

    /** A string is the reason why the login is rejected, in GitHub's words. */
    authenticate(authorization: string | undefined): Caller | string {
      const given = /^(?:bearer|token) (\S+)$/i.exec(authorization ?? "")?.[1];
      if (given === undefined) return "Requires authentication";
      if (given === token) return { kind: "user", user: logins.user, permissions: logins.permissions };
      const known = installationTokens.find((one) => one.token === given && one.expiresAt > now());
      if (known !== undefined) return { kind: "installation", user: bot, ...known };
      return given.split(".").length === 3 ? verifyJwt(given) : "Bad credentials";
    },
  };

  function verifyJwt(jwt: string): Caller | string {
    const [head = "", claims = "", signature = ""] = jwt.split(".");
    const verifier = createVerify("RSA-SHA256").update(`${head}.${claims}`);
    const parse = (part: string) => JSON.parse(Buffer.from(part, "base64url").toString()) as Record<string, unknown>;
    if (parse(head)["alg"] !== "RS256" || !verifier.verify(publicKey, signature, "base64url")) {
      return "A JSON web token could not be decoded";
    }
    const { iat, exp, iss } = parse(claims);
    const seconds = now() / 1_000;
    if (String(iss) !== appId) return "Integration must generate a public key";
    if (typeof exp !== "number" || exp <= seconds) {
      return "'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion expires";
    }
    if (exp > seconds + 600) return "'Expiration time' claim ('exp') is too far in the future";
    if (!Number.isInteger(iat) || Number(iat) > seconds) {
      return "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued";
    }
    return { kind: "app" };
  }

  return logins;
}
