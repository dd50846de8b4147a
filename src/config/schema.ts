/** The schema of the configuration, from which types, options, variables and documentation are derived. */
import { z } from "zod";
import { notificationsSchema } from "./notifications-schema.ts";
import { recordingSchema } from "./recording-schema.ts";
import { integer, size, text, token } from "./schema-parts.ts";
import {
  appId,
  bindAddress,
  callbackUrl,
  claim,
  duration,
  flag,
  groups,
  hostName,
  hostRule,
  httpUrl,
  issuerUrl,
  loginCallbackPath,
  kubernetesName,
  network,
  oneOf,
  pageToken,
  path,
  port,
  privateKey,
  proxySecret,
  redisUrl,
  runnerAddress,
  runnerBindAddress,
  runnerToken,
  secret,
  shortestToken,
  shortestWebhookSecret,
  sentinel,
  webhookSecret,
} from "./schema-values.ts";

/** Metadata of a key. zod copies it to the JSON schema under these names. */
export interface FieldMeta {
  readonly description?: string;
  /** Description of a default that is not a constant. */
  readonly defaultText?: string;
  /** The key's variable, if it does not follow from its path. */
  readonly variable?: string;
  /** Never shown, and never an option: every user of the machine can read a process's arguments. */
  readonly secret?: boolean;
}

export const forgeKinds = ["github", "gitlab", "gitea"] as const;
export const reportForms = ["auto", "checks", "statuses"] as const;
export const logLevels = ["trace", "debug", "info", "warn", "error", "fatal"] as const;
export const logFormats = ["json", "pretty", "auto"] as const;
export const leaderElections = ["shared", "exclusive", "off"] as const;

export const pageRoles = ["viewer", "operator"] as const;
export const pullRequestLinks = ["signed", "login", "off"] as const;

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

export const configSchema = z.strictObject({
  forges: z
    .array(forgeSchema, { error: "must be a list" })
    .prefault([])
    .meta({ description: "Git hosts that send webhooks. Without any, git is only polled." }),
  webhooks: z
    .strictObject({
      host: text.prefault("0.0.0.0").meta({ description: "Address to receive webhooks on." }),
      port: port.prefault(8080).meta({ description: "Port to receive webhooks on; 0: any free port." }),
      maxBody: size("1KiB", "25MiB").prefault("10MiB").meta({
        description: "Maximum size of a delivery, before and after decompression. GitHub sends up to 25 MiB.",
      }),
      proxyAddresses: z.array(network, { error: "must be a list" }).prefault([]).meta({
        description:
          "Addresses of proxies in front of the server, such as an ingress controller's pods: `10.0.0.7` or `10.0.0.0/24`. Rate limits then use the client address in `X-Forwarded-For`, which is ignored from any other sender.",
      }),
    })
    .prefault({}),
  admin: z
    .strictObject({
      enabled: flag.prefault(true).meta({ description: "Enables the port for health and metrics." }),
      host: text.prefault("0.0.0.0").meta({ description: "Address of the port for health and metrics." }),
      port: port.prefault(9090).meta({
        description:
          "Port of `/livez`, `/readyz`, `/metrics` and `/version`; 0: any free port. Do not expose it to the internet.",
      }),
    })
    .prefault({}),
  metrics: z
    .strictObject({
      bindAddress: bindAddress.prefault("0").meta({
        description: "Additional address for `/metrics`, as `host:port` or `:port`; `0`: disabled.",
      }),
    })
    .prefault({}),
  probes: z
    .strictObject({
      bindAddress: bindAddress.prefault("0").meta({
        description: "Additional address for `/healthz` and `/readyz`, as `host:port` or `:port`; `0`: disabled.",
      }),
    })
    .prefault({}),
  page: z
    .strictObject({
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
            description:
              "Duration of a session. Changes to a user's groups at the provider take effect at the next login.",
          }),
        })
        .prefault({}),
      viewerGroups: groups.meta({
        description:
          "Groups with read access; `*`: every authenticated user. Users in neither list have no access, except if both lists are empty and a proxy authenticates users.",
      }),
      operatorGroups: groups.meta({
        description:
          "Groups that may also reconcile, deploy, validate, prune, suspend, resume, approve, replay and retry.",
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
    })
    .prefault({}),
  sourceOverride: z
    .strictObject({
      bindAddress: bindAddress.prefault("0").meta({
        description:
          "Address for source overrides of `kluctl gitops`, which send files of a working copy, as `host:port` or `:port`; `0`: disabled.",
      }),
    })
    .prefault({}),
  log: z
    .strictObject({
      level: oneOf(logLevels).prefault("info").meta({ description: "Minimum level of log lines." }),
      format: oneOf(logFormats).prefault("auto").meta({
        description:
          "`json`: one object per line. `pretty`: human-readable. `auto`: pretty on a terminal, otherwise JSON.",
      }),
    })
    .prefault({}),
  audit: z
    .strictObject({
      file: path.optional().meta({
        defaultText: "the log, as lines with `audit: true`",
        description:
          "File for the audit log, one line per change of what is deployed: see docs/audit.md. Its directory must exist.",
      }),
    })
    .prefault({}),
  dataDir: path.optional().meta({
    defaultText: "`$XDG_STATE_HOME/towline`, `~/.local/state/towline` or `/var/lib/towline`",
    description: "Directory for mirrors of repositories and the private Redis. It can be deleted without data loss.",
  }),
  redis: z
    .strictObject({
      url: redisUrl.optional().meta({
        secret: true,
        defaultText: "a private Redis",
        description:
          "URL of Redis: `redis://`, `rediss://` (TLS) or `unix://`. Without it Towline starts a private Redis, which supports one replica only.",
      }),
      urlFile: path.optional().meta({ description: "File to read the URL from." }),
      password: secret
        .optional()
        .meta({ secret: true, description: "Password for `redis.url`, to keep it out of the URL." }),
      passwordFile: path.optional().meta({ description: "File to read the password from." }),
      caFile: path.optional().meta({
        defaultText: "Node's certificate authorities",
        description: "File (PEM) with the certificate authorities of Redis and its sentinels.",
      }),
      sentinels: z.array(sentinel, { error: "must be a list" }).prefault([]).meta({
        description:
          "Redis Sentinels, as `host:port`. The host of `redis.url` is then the name of the master: `redis://mymaster`.",
      }),
      sentinelPassword: secret.optional().meta({ secret: true, description: "Password of the sentinels." }),
      sentinelPasswordFile: path.optional().meta({ description: "File to read the sentinels' password from." }),
      prefix: text
        .regex(/^[\w.-]+$/, 'must consist of letters, digits, "_", "." and "-"')
        .prefault("towline")
        .meta({ description: "Prefix of all keys. Servers with the same prefix share one queue." }),
      server: path.optional().meta({
        defaultText: "`redis-server` or `valkey-server` on PATH",
        description: "Executable of the private Redis.",
      }),
    })
    .prefault({}),
  kubernetes: z
    .strictObject({
      kubeconfig: path.optional().meta({
        defaultText: "`$KUBECONFIG`, the pod's service account or `~/.kube/config`",
        description: "Kubeconfig of the cluster with the KluctlDeployments.",
      }),
      context: text.optional().meta({ defaultText: "the current one", description: "Context in the kubeconfig." }),
      namespaces: z
        .array(kubernetesName, { error: "must be a list" })
        .prefault([])
        .meta({ defaultText: "all", description: "Watched namespaces: KluctlDeployments elsewhere are ignored." }),
      requestsPerSecond: integer(1, 10_000).prefault(100).meta({
        description:
          "Rate limit for the server's own requests to the API server, per second; bursts may be twice as large. kluctl has its own limits. Lease renewals are exempt.",
      }),
      allowUnsafeKubeconfigs: flag.prefault(false).meta({
        description:
          "Allows a kubeconfig in `spec.kubeConfig` to run programs on the server to log in (`exec`, `auth-provider`) and to refer to files on the server.",
      }),
      readSecretsAs: oneOf(["server", "account"]).prefault("server").meta({
        description:
          "Identity that reads the Secrets with credentials, keys and kubeconfigs of a deployment. `server`: the server. `account`: the deployment's service account, if it has one; the deployment can then use only Secrets that this account may read, and the server needs no permission to read Secrets.",
      }),
    })
    .prefault({}),
  kluctl: z
    .strictObject({
      path: path.optional().meta({
        variable: "TOWLINE_KLUCTL",
        defaultText: "`kluctl` on PATH",
        description: "kluctl executable, 2.22.1 or newer.",
      }),
      cacheDir: path.optional().meta({
        defaultText: "`$KLUCTL_CACHE_DIR` or `kluctl-cache` in `dataDir`",
        description:
          "Directory for kluctl's Python, charts and includes. Keep it across restarts, because filling it takes seconds.",
      }),
      unpackedDir: path.optional().meta({
        defaultText: "none; the image has one",
        description:
          "Directory with kluctl's Python already unpacked. Read-only; if it does not fit the kluctl version, kluctl unpacks into `cacheDir`.",
      }),
      systemPython: flag.prefault(false).meta({
        description: "Renders with `python3` on PATH and without warm renderers. Needs kluctl 2.25 or newer.",
      }),
      warm: oneOf(["on", "off"]).prefault("on").meta({
        variable: "TOWLINE_WARM",
        description:
          "Keeps kluctl's template renderers warm, which halves the duration of a reconciliation and takes 40 MB, and 40 MB more for isolated previews. Linux only; needs kluctl 2.22, or 2.25 or newer.",
      }),
    })
    .prefault({}),
  concurrency: integer(1, 256).optional().meta({
    defaultText: "the number of cores, from 2 to 64, limited by the available memory",
    description:
      "Maximum number of concurrent reconciliations; fewer if memory runs low. Each runs one kluctl, which takes about one core and 200 MB. Half as many more may run for requests of users who wait for the result.",
  }),
  sweep: z
    .strictObject({
      interval: duration("5s", "24h").prefault("60s").meta({
        description: "Interval of polling git for commits of lost webhooks: one `ls-remote` per repository.",
      }),
      adaptive: flag.prefault(true).meta({
        description:
          "Adapts `sweep.interval` for each repository: every ten seconds while a webhook is missing, and up to five times as long, five minutes at most, while webhooks are proven to arrive. `false`: always the interval. See docs/webhooks.md.",
      }),
      skipping: z.boolean().prefault(true).meta({
        description:
          "Skips what cannot find anything new: reconciliations while nothing has changed, comparisons before a deploy, runs of `kluctl validate` whose result follows from the objects just compared or deployed. `false`: everything runs each time, and drift is found at the interval only.",
      }),
      fullInterval: duration("0s", "24h").prefault("1h").meta({
        description:
          "Maximum time for which reconciliations of a deployment are skipped because nothing can have changed; `0s`: never skip. The annotation `towline.dev/full-interval` overrides it for one deployment.",
      }),
      auditSkips: integer(0, 1_000_000).prefault(0).meta({
        description:
          "Runs one of this many skipped checks nevertheless, and reports those that find a change; `1`: all of them, `0`: none.",
      }),
    })
    .prefault({}),
  lease: z
    .strictObject({
      duration: duration("5s", "5m").prefault("15s").meta({
        description: "Lease duration: time without a renewal after which another replica takes over a deployment.",
      }),
    })
    .prefault({}),
  results: z
    .strictObject({
      write: flag.prefault(true).meta({ description: "Stores results in the cluster." }),
      namespace: kubernetesName.prefault("kluctl-results").meta({
        description: "Namespace of stored results, which `kluctl gitops` and kluctl's web UI show.",
      }),
      keepCommands: integer(0, 1_000)
        .prefault(5)
        .meta({ description: "Number of stored command results per deployment." }),
      keepValidates: integer(0, 1_000)
        .prefault(2)
        .meta({ description: "Number of stored validate results per deployment." }),
    })
    .prefault({}),
  preview: z
    .strictObject({
      enabled: flag.prefault(false).meta({
        description:
          "Previews pull requests: shows what merging them would change. Needs a login for the git host's API. Pull requests are rendered before any review, confined by `preview.isolation`: read docs/preview-security.md first.",
      }),
      isolation: z
        .enum(["required", "auto", "off"], { error: "must be required, auto or off" })
        .prefault("required")
        .meta({
          description:
            "Confines the processes of a preview, so that code in a branch can only render. `required`: no previews if any part of the isolation is unavailable. `auto`: uses what is available and reports what is missing. `off`: no isolation, so that every user who can push a branch can run code on the server.",
        }),
      forks: z.enum(["off", "isolated"], { error: "must be off or isolated" }).prefault("off").meta({
        description:
          "Previews of pull requests from forks. `off`: only commits that were explicitly allowed. `isolated`: all, without access to the cluster, credentials, keys or network, and compared with the base rendered the same way; needs complete `preview.isolation`.",
      }),
      forksInMergeQueue: flag.prefault(false).meta({
        description:
          "Renders merge queue groups even if a member comes from a fork or its origin is unknown: see docs/pull-requests.md.",
      }),
      serviceAccountName: kubernetesName.optional().meta({
        defaultText: "the deployment's service account",
        description:
          "Service account for previews, in each deployment's namespace. It needs permission to read, and to create and patch with dry-run. With `preview.isolation: required`, a deployment without a service account is not previewed.",
      }),
      hosts: z.array(hostRule, { error: "must be a list" }).prefault([]).meta({
        description:
          "Hosts that isolated previews may reach in addition to those of the deployment's source and credentials, such as public chart repositories: `host`, `host:port` or `*.example.com`.",
      }),
      concurrency: integer(1, 256).optional().meta({
        defaultText: "half the number of cores, at least 2",
        description: "Maximum number of concurrent previews of deployments, in addition to reconciliations.",
      }),
      interval: duration("30s", "24h").prefault("5m").meta({
        description: "Interval of polling forges for pull requests of lost webhooks.",
      }),
      runner: z
        .strictObject({
          address: runnerAddress.optional().meta({
            description:
              "Address of a `towline preview-runner`, as `host:port` or `unix:/path`. All previews are then rendered there. Not possible with `preview.isolation: off`.",
          }),
          token: runnerToken.optional().meta({
            secret: true,
            description: `Shared token of the server and its preview runner, ${shortestToken} characters or more. Use it for nothing else.`,
          }),
          tokenFile: path.optional().meta({ description: "File to read the preview runner's token from." }),
          bindAddress: runnerBindAddress.prefault(":8092").meta({
            description:
              "Address that `towline preview-runner` listens on, as `host:port`, `:port` or `unix:/path`. Not used by the server.",
          }),
        })
        .prefault({}),
    })
    .superRefine(({ isolation, runner: { address, token } }, ctx) => {
      if (address === undefined) return;
      const add = (key: string[], message: string) => ctx.addIssue({ code: "custom", path: key, message });
      if (token === undefined)
        add(["runner", "token"], "is missing: set it or tokenFile to the same value as at the preview runner");
      if (isolation === "off") add(["isolation"], "is off: a preview runner needs isolation; set required or auto");
    })
    .prefault({}),
  prune: z
    .strictObject({
      confirm: flag.prefault(true).meta({
        description:
          "Large prunes, and prunes of projects that render no objects, need confirmation by an annotation, unless they were requested manually: see docs/deployments.md.",
      }),
      confirmPercent: integer(0, 100)
        .prefault(50)
        .meta({ description: "A prune is large if it deletes more than this percentage of the deployed objects." }),
      confirmFromObjects: integer(1, 100_000)
        .prefault(10)
        .meta({ description: "With fewer deployed objects than this, `confirmPercent` does not apply." }),
    })
    .prefault({}),
  notifications: notificationsSchema.prefault({}),
  recording: recordingSchema.prefault({}),
  flux: z
    .strictObject({
      trigger: flag.prefault(false).meta({
        description:
          "Makes Flux fetch a GitRepository as soon as a webhook reports a push to what it follows, or the sweep finds one that no webhook reported: see docs/flux.md. It needs `patch` on GitRepositories.",
      }),
      statuses: flag.prefault(false).meta({
        description:
          "Reports what became of a pushed commit in Flux's Kustomizations and HelmReleases as commit statuses, beside those of KluctlDeployments: see docs/flux.md. It needs `get`, `list` and `watch` on these and on HelmCharts.",
      }),
      previews: flag.prefault(false).meta({
        description:
          "Shows on pull requests what merging would change in what Flux's Kustomizations apply, beside the previews of KluctlDeployments; it needs `preview.enabled`: see docs/flux.md. It needs the same rights as `flux.statuses`.",
      }),
      renderer: path.optional().meta({
        defaultText: "`towline-flux` on PATH; the image has one",
        description: "Program that renders Flux's Kustomizations for previews.",
      }),
    })
    .prefault({}),
  statusName: text
    .regex(/^[\w.-]{1,60}$/, 'must have at most 60 characters: letters, digits, "_", "." and "-"')
    .prefault("towline")
    .meta({
      description:
        "Prefix of commit statuses, and identifier of comments on pull requests. Servers that follow the same repositories, for different clusters or namespaces, need different names.",
    }),
  clusterName: text.max(60, "must have at most 60 characters").optional().meta({
    defaultText: "the beginning of the cluster's UID",
    description: "Name of the cluster in comments on pull requests.",
  }),
  git: z
    .strictObject({
      timeout: duration("1s", "1h").prefault("2m").meta({ description: "Timeout of one fetch or `ls-remote`." }),
    })
    .prefault({}),
  shutdown: z
    .strictObject({
      drain: duration("0s", "1h").prefault("60s").meta({
        description:
          "How long running reconciliations may continue after SIGTERM before they are handed over to another replica. The pod's termination grace period should be 30 seconds longer.",
      }),
    })
    .prefault({}),
  controllerName: text.prefault("kluctl-controller").meta({
    description:
      "Field manager and event source. The default is that of kluctl's controller, so that each can replace the other.",
  }),
  controllerNamespace: kubernetesName.prefault("kluctl-system").meta({
    description: "Namespace of the leader election Lease and of the keys for source overrides.",
  }),
  leaderElection: oneOf(leaderElections).prefault("shared").meta({
    description:
      "Use of the Lease of kluctl's own controller, `5ab5d0f9.kluctl.io`. `shared`: wait while that controller holds it, then share it with all other Towline servers. `exclusive`: only one server at a time is active. `off`: ignore the Lease.",
  }),
  defaultServiceAccount: kubernetesName.optional().meta({
    description:
      "Service account of deployments without `serviceAccountName`. Without both, deployments use the server's own identity.",
  }),
  dryRun: flag.prefault(false).meta({ description: "Dry run for all deployments: nothing is applied." }),
});
