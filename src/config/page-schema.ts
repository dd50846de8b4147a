/** The schema of the page (`page` in the configuration): who may see it, and how they log in. */
import { z } from "zod";
import { text } from "./schema-parts.ts";
import {
  callbackUrl,
  claim,
  duration,
  groups,
  httpUrl,
  issuerUrl,
  loginCallbackPath,
  network,
  oneOf,
  pageToken,
  path,
  port,
  proxySecret,
  secret,
  shortestToken,
} from "./schema-values.ts";

export const pageRoles = ["viewer", "operator"] as const;
export const pullRequestLinks = ["signed", "login", "off"] as const;

export const pageSchema = z.strictObject({
  host: text.prefault("0.0.0.0").meta({ description: "Address of the page." }),
  port: port.prefault(8090).meta({
    description:
      "Port of the page and its API, which are enabled by `token`, `proxyHeader` or `oidc.issuer`: see docs/page.md. Must differ from the webhooks' port; 0: any free port.",
  }),
  publicUrl: httpUrl.optional().meta({
    defaultText: "derived from `oidc.redirectUrl`",
    description:
      "Public address of the page, for links in notifications, in comments on pull requests and in statuses of commits: `https://towline.example.com`.",
  }),
  pullRequestLinks: oneOf(pullRequestLinks).optional().meta({
    defaultText: "`login` with `proxyHeader` or `oidc`, otherwise `signed`",
    description:
      "Links in comments on pull requests to the full diff on the page, signed and valid for 30 days. `signed`: a link opens the page of its pull request without a login. `login`: only for users who are logged in. `off`: neither comments nor statuses of pushed commits have links. Needs `publicUrl`.",
  }),
  token: pageToken.optional().meta({
    secret: true,
    description: `Token for access to the page, ${shortestToken} characters or more.`,
  }),
  tokenFile: path.optional().meta({ description: "File to read the page's token from." }),
  tokenRole: oneOf(pageRoles).prefault("viewer").meta({
    description: "Role of the token: `viewer` is read-only, `operator` may also request deploys and other actions.",
  }),
  proxyHeader: text
    .regex(/^[A-Za-z0-9-]{1,100}$/, "must be the name of a header")
    .optional()
    .meta({
      description:
        "Header with the user name that an authenticating proxy sets, such as `X-Auth-Request-User`. Accepted from `proxyAddresses` only.",
    }),
  proxyGroupsHeader: text
    .regex(/^[A-Za-z0-9-]{1,100}$/, "must be the name of a header")
    .optional()
    .meta({
      description:
        "Header with the user's groups, separated by commas, that this proxy sets, such as `X-Auth-Request-Groups`.",
    }),
  proxyAddresses: z
    .array(network, { error: "must be a list" })
    .prefault([])
    .meta({ description: "Addresses of this proxy, as `10.0.0.7` or `10.0.0.0/24`." }),
  proxySecret: proxySecret.optional().meta({
    secret: true,
    description: `Secret that this proxy sends with each request, ${shortestToken} characters or more. It protects against other clients with one of \`proxyAddresses\`.`,
  }),
  proxySecretFile: path.optional().meta({ description: "File to read the proxy's secret from." }),
  proxySecretHeader: text
    .regex(/^[A-Za-z0-9-]{1,100}$/, "must be the name of a header")
    .prefault("X-Towline-Proxy-Secret")
    .meta({ description: "Header with the proxy's secret." }),
  oidc: z
    .strictObject({
      issuer: issuerUrl.optional().meta({
        description: "OpenID Connect identity provider for logins: the issuer URL in its tokens.",
      }),
      clientId: text.optional().meta({ description: "Client ID of Towline at the identity provider." }),
      clientSecret: secret.optional().meta({
        secret: true,
        description: "Client secret. It also encrypts sessions: changing the client secret ends all sessions.",
      }),
      clientSecretFile: path.optional().meta({ description: "File to read the client secret from." }),
      redirectUrl: callbackUrl.optional().meta({
        description: `Redirect URL after a login: the page's public address followed by \`${loginCallbackPath}\`.`,
      }),
      scopes: z
        .array(text, { error: "must be a list" })
        .prefault(["openid", "profile", "email"])
        .meta({ description: "Requested scopes; some providers need `groups` as well." }),
      nameClaim: claim.prefault("email").meta({
        description:
          "Claim with the user name. The audit log records it, and requests to the cluster impersonate it. It must not be editable by users. With `email`, logins without `email_verified: true` are rejected.",
      }),
      groupsClaim: claim.prefault("groups").meta({ description: "Claim with the user's groups." }),
      session: duration("5m", "24h").prefault("8h").meta({
        description: "Duration of a session. Changes to a user's groups at the provider take effect at the next login.",
      }),
    })
    .prefault({}),
  viewerGroups: groups.meta({
    description:
      "Groups with read access; `*`: every authenticated user. Users in neither list have no access, except if both lists are empty and a proxy authenticates users.",
  }),
  operatorGroups: groups.meta({
    description: "Groups that may also reconcile, deploy, validate, prune, suspend, resume, approve, replay and retry.",
  }),
  namespacesByGroup: z
    .array(text.regex(/^.+=[a-z0-9*][-a-z0-9*]*$/, 'must be "group=namespace", such as "developers=shop-*"'), {
      error: "must be a list",
    })
    .prefault([])
    .meta({
      description:
        "Namespaces that a group may see, as `developers=shop` or `developers=shop-*`; `*=…`: every authenticated user. If set, users see no other namespaces. With `actAs: caller` they also need permission to `get` KluctlDeployments there.",
    }),
  actAs: oneOf(["caller", "server"]).prefault("caller").meta({
    description:
      "Identity for requests to the cluster on behalf of page users. `caller`: the user, with their own permissions; the server needs permission to impersonate them, see docs/rights.md. `server`: the server's own identity.",
  }),
  userPrefix: text.optional().meta({
    defaultText: "none",
    description:
      "Prefix of user names when the server impersonates users, like the API server's `--oidc-username-prefix`.",
  }),
  groupPrefix: text.optional().meta({
    defaultText: "none",
    description:
      "Prefix of group names when the server impersonates users, like the API server's `--oidc-groups-prefix`.",
  }),
});
