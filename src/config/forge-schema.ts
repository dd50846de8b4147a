/** The schema of a git host (`forges` in the configuration). */
import { z } from "zod";
import { text, token } from "./schema-parts.ts";
import {
  appId,
  flag,
  hostName,
  httpUrl,
  oneOf,
  path,
  privateKey,
  shortestWebhookSecret,
  webhookSecret,
} from "./schema-values.ts";

export const forgeKinds = ["github", "gitlab", "gitea"] as const;
export const reportForms = ["auto", "checks", "statuses"] as const;

export const forgeSchema = z.strictObject({
  id: text
    .regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/, "must consist of lower-case letters, digits and -")
    .max(40, "must have at most 40 characters")
    .meta({ description: "Unique name of the forge, in logs and in its webhook address `/webhooks/<id>`." }),
  kind: oneOf(forgeKinds).meta({ description: "Kind of git host. Use `gitea` for Forgejo." }),
  apiUrl: httpUrl.optional().meta({
    description:
      "Base URL of the API of a self-hosted git host: `https://github.example.com/api/v3`, `https://gitlab.example.com/api/v4`, `https://gitea.example.com/api/v1`.",
  }),
  webUrl: httpUrl.optional().meta({
    defaultText: "derived from `apiUrl`",
    description:
      "Public address of the git host, for links and repository URLs, if Towline reaches its API at another address: `https://gitea.example.com` with `apiUrl: http://gitea.gitea.svc:3000/api/v1`.",
  }),
  hosts: z.array(hostName, { error: "must be a list" }).prefault([]).meta({
    defaultText: "the hosts of `apiUrl` and `webUrl`, or the public service",
    description:
      "Additional host names of its repositories, such as one for SSH. Events from other forges for repositories on these hosts are ignored.",
  }),
  webhooks: flag.prefault(true).meta({
    description:
      "`false`: the forge sends no webhooks, for example because it cannot reach the server. No webhook secret is needed; branches and pull requests are polled every ten seconds instead: see docs/webhooks.md.",
  }),
  deployments: flag.prefault(false).meta({
    description:
      "Also reports each deployed commit as a deployment to an environment of the git host, whose pages then show what is deployed where: see docs/deployments.md. GitHub and GitLab only; needs a token or a GitHub App.",
  }),
  webhookSecrets: z
    .array(webhookSecret, { error: "must be a list" })
    .prefault([])
    .meta({
      secret: true,
      variable: "WEBHOOK_SECRET",
      description: `Webhook secrets, ${shortestWebhookSecret} characters or more each. Any of them is accepted. To rotate: add the new secret, change it at the git host, remove the old one. In the variable, separate secrets with commas or line breaks.`,
    }),
  webhookSecretFiles: z.array(path, { error: "must be a list" }).prefault([]).meta({
    variable: "WEBHOOK_SECRET_FILE",
    description: "Files with webhook secrets, one per line.",
  }),
  token: token.optional().meta({
    secret: true,
    description:
      "Token for the API. With a token or a GitHub App, Towline sets commit statuses or check runs and, with `preview.enabled`, previews pull requests.",
  }),
  tokenFile: path.optional().meta({ description: "File to read the token from." }),
  appId: appId.optional().meta({ description: "ID of an installed GitHub App, instead of a token." }),
  appPrivateKey: privateKey.optional().meta({ secret: true, description: "The App's private key (PEM)." }),
  appPrivateKeyFile: path.optional().meta({ description: "File to read the App's private key from." }),
  reportAs: oneOf(reportForms).prefault("auto").meta({
    description:
      "GitHub only. `checks`: shows the state of a commit as check runs, which only an App may write. `statuses`: as commit statuses. `auto`: as check runs where the App has the permission.",
  }),
  insecureAllowUnsigned: flag.prefault(false).meta({
    description:
      "Accepts unsigned deliveries, so that every client that reaches the port can trigger reconciliations. For experiments only.",
  }),
});
