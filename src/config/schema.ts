/** The configuration file: one schema, from which the types, the flags, the variables and the documentation follow. */
import { z } from "zod";
import { parseDuration } from "../duration.ts";
import { parseHostRule, parseTarget } from "../host-rule.ts";
import { bindAddressError, parseBindAddress } from "./bind-address.ts";
import { parseBytes } from "./bytes.ts";
import { findNearest } from "./nearest.ts";
import { isNetwork } from "./network.ts";
import { Secret } from "./secret.ts";

/** What a key is besides its type. zod copies it into the JSON schema, under these names. */
export interface FieldMeta {
  readonly description?: string;
  /** Where the default is not one constant: how it comes about, for people. */
  readonly defaultText?: string;
  /** The key's variable, where it is not the one that follows from its path. */
  readonly variable?: string;
  /** Never shown, and never a flag: everybody on the machine can read a process's arguments. */
  readonly secret?: boolean;
}

export const forgeKinds = ["github", "gitlab", "gitea"] as const;
export const logLevels = ["trace", "debug", "info", "warn", "error", "fatal"] as const;
export const logFormats = ["json", "pretty", "auto"] as const;
export const leaderElections = ["shared", "exclusive", "off"] as const;

/** Long enough that it cannot be guessed, short enough that every host's own generator passes. */
export const shortestWebhookSecret = 16;
/** It may be guessed at by whoever reaches the page. */
const shortestUiToken = 24;
/** Where an identity provider sends people back to. */
const loginCallbackPath = "/auth/callback";
export const pageRoles = ["viewer", "operator"] as const;

const text = z.string({ error: "must be text" }).trim().min(1, "must not be empty");
const path = text;
const flag = z.boolean({ error: "must be true or false" });

const secret = z
  .string({ error: "must be text: put it in quotes" })
  .trim()
  .min(1, "is empty")
  .transform((value) => new Secret(value));

/** What a header can hold: the error that refuses anything else would quote it. */
const token = z
  .string({ error: "must be text: put it in quotes" })
  .trim()
  .min(1, "is empty")
  .regex(/^[\x21-\x7e]*$/, "holds a space, a line end or another character that no token has")
  .transform((value) => new Secret(value));

const webhookSecret = z
  .string({ error: "must be text: put it in quotes" })
  .trim()
  .min(shortestWebhookSecret, `is too short: a webhook secret has ${shortestWebhookSecret} characters or more`)
  .transform((value) => new Secret(value));

const uiToken = z
  .string({ error: "must be text: put it in quotes" })
  .trim()
  .min(shortestUiToken, `is too short: the page's token has ${shortestUiToken} characters or more`)
  .transform((value) => new Secret(value));

/** Whoever knows it can have previews rendered, and be taken for what renders them. */
const runnerToken = z
  .string({ error: "must be text: put it in quotes" })
  .trim()
  .min(shortestUiToken, `is too short: the preview runner's token has ${shortestUiToken} characters or more`)
  .transform((value) => new Secret(value));

const proxySecret = z
  .string({ error: "must be text: put it in quotes" })
  .trim()
  .min(shortestUiToken, `is too short: the proxy's secret has ${shortestUiToken} characters or more`)
  .transform((value) => new Secret(value));

/** An address, or a block of them. */
const network = text.refine(isNetwork, 'must be an address like "10.0.0.7" or a block like "10.0.0.0/24"');

/** A host that previews may reach. */
const hostRule = text.refine(
  (rule) => parseHostRule(rule) !== undefined,
  'must be a host like "charts.example.com", "charts.example.com:8443" or "*.example.com"',
);

/** Where the preview runner is: `host:port`, or the path of a socket. */
const runnerAddress = text.transform((value, ctx) => {
  const found = parseSocketPath(value) ?? parseTarget(value);
  if (found !== undefined) return found;
  ctx.addIssue({ code: "custom", message: 'must be like "towline-previews:8092" or "unix:/run/previews/socket"' });
  return z.NEVER;
});

/** Where the preview runner listens: the same, and the host may be missing. */
const runnerBindAddress = text.transform((value, ctx) => {
  const found = parseSocketPath(value) ?? parseBindAddress(value);
  if (typeof found === "object") return found;
  ctx.addIssue({ code: "custom", message: 'must be like ":8092", "127.0.0.1:8092" or "unix:/run/previews/socket"' });
  return z.NEVER;
});

function parseSocketPath(value: string): { readonly path: string } | undefined {
  return /^unix:\/./.test(value) ? { path: value.slice("unix:".length) } : undefined;
}

const appId = z
  .union([z.string().trim(), z.number()], { error: "must be the App's id" })
  .transform(String)
  .refine((id) => /^[\w.]{1,100}$/.test(id), "must be the App's id, a number, or its client id");

const privateKey = z
  .string({ error: "must be text: put it in quotes" })
  .trim()
  // Variables often carry line ends as the two characters that stand for them.
  .transform((value) => value.replaceAll("\\n", "\n"))
  .refine((value) => /^-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(value), "is not a private key in PEM form")
  .transform((value) => new Secret(value));

function integer(least: number, most: number) {
  const error = `must be a whole number from ${least} to ${most}`;
  return z.int({ error }).min(least, error).max(most, error);
}

const port = integer(0, 65_535);

/** A choice between words; its message guesses what was meant. */
function oneOf<const Words extends readonly [string, ...string[]]>(words: Words) {
  return z.enum(words, {
    error: ({ input }) => {
      const list = words.map((word) => `"${word}"`).join(", ");
      if (typeof input !== "string") return `must be one of ${list}`;
      const nearest = findNearest(input, words);
      return `${JSON.stringify(input)} is not known; ${nearest ? `did you mean "${nearest}"?` : `it can be ${list}`}`;
    },
  });
}

/** Text of a form that our own messages tell better than a pattern; editors and Helm know it by the pattern. */
const written = (pattern: string, error: string) => z.string({ error }).meta({ pattern });
const durationPattern = "^\\s*[+-]?(0|([0-9]*\\.?[0-9]*(ns|us|\u00b5s|\u03bcs|ms|s|m|h))+)\\s*$";
const sizePattern = "^\\s*[0-9]+ ?([KkMmGg][Ii]?[Bb]?)?\\s*$";

/** A Go duration within bounds, as milliseconds. */
function duration(least: string, most: string) {
  const [leastMs = 0, mostMs = 0] = [parseDuration(least), parseDuration(most)];
  const error = `must be a duration from ${least} to ${most}, like "30s" or "1m30s"`;
  return written(durationPattern, error).transform((value, ctx) => {
    const ms = parseDuration(value.trim());
    if (ms !== undefined && ms >= leastMs && ms <= mostMs) return ms;
    ctx.addIssue({ code: "custom", message: error });
    return z.NEVER;
  });
}

/** A size within bounds, as bytes. */
function size(least: string, most: string) {
  const [leastBytes = 0, mostBytes = 0] = [parseBytes(least), parseBytes(most)];
  const error = `must be a size from ${least} to ${most}, like "10MiB", or a number of bytes`;
  return z.union([written(sizePattern, error), z.number()], { error }).transform((value, ctx) => {
    const bytes = parseBytes(String(value).trim());
    if (bytes !== undefined && bytes >= leastBytes && bytes <= mostBytes) return bytes;
    ctx.addIssue({ code: "custom", message: error });
    return z.NEVER;
  });
}

/** Where to listen, as kluctl's controller is told it. `undefined`: nowhere. */
const bindAddress = text.transform((value, ctx) => {
  const address = parseBindAddress(value);
  if (address !== "wrong") return address;
  ctx.addIssue({ code: "custom", message: bindAddressError });
  return z.NEVER;
});

const kubernetesName = text
  .max(63, "must have at most 63 characters")
  .regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/, "must be a Kubernetes name: lower-case letters, digits and -");

const httpUrl = text.superRefine((value, ctx) => {
  const url = URL.parse(value);
  // Not the value itself: people put logins into URLs.
  if (url === null || !/^https?:$/.test(url.protocol))
    ctx.addIssue("must be a URL that begins with https:// or http://");
  else if (url.username !== "" || url.password !== "") ctx.addIssue("must not contain a login: use the token");
});

/** Of whom people are believed to be: what it says must not be said by somebody in between. */
const issuerUrl = httpUrl.superRefine((value, ctx) => {
  const { protocol, hostname } = URL.parse(value) ?? {};
  if (protocol === "http:" && !/^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname ?? ""))
    ctx.addIssue("must begin with https://");
});

const callbackUrl = httpUrl.refine((value) => {
  const { pathname, search, hash } = URL.parse(value) ?? {};
  return pathname === loginCallbackPath && !search && !hash;
}, `must end with ${loginCallbackPath}, as https://towline.example.com${loginCallbackPath}`);

const hostName = text.regex(/^(?:[\w.-]+|\[[0-9a-f:.]+\])$/i, "must be the name of a host, without a port");

const groups = z.array(text, { error: "must be a list" }).prefault([]);
const claim = text.max(200, "must have at most 200 characters");

const redisUrl = z
  .string({ error: "must be text" })
  .trim()
  .superRefine((value, ctx) => {
    const { protocol = "", password = "" } = URL.parse(value) ?? {};
    if (!["redis:", "rediss:", "unix:"].includes(protocol))
      ctx.addIssue("must be a URL that begins with redis://, rediss:// or unix://");
    else if (/%(?![0-9a-f]{2})/i.test(password))
      ctx.addIssue("has a password with a % that begins no escape: write %25, or use redis.password");
  })
  .transform((value) => new Secret(value));

const sentinel = text.regex(/^(?:\[[0-9a-fA-F:.]+\]|[^\s:[\]/@]+):\d{1,5}$/, 'must be an address like "redis-0:26379"');

export const forgeSchema = z.strictObject({
  id: text
    .regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/, "must consist of lower-case letters, digits and -")
    .max(40, "must have at most 40 characters")
    .meta({ description: "Names the forge in logs and in its webhook's address, `/webhooks/<id>`. Unique." }),
  kind: oneOf(forgeKinds).meta({ description: "What it runs. Forgejo is `gitea`." }),
  apiUrl: httpUrl.optional().meta({
    description:
      "Base URL of its API, for a host of your own: `https://github.example.com/api/v3`, `https://gitlab.example.com/api/v4`, `https://gitea.example.com/api/v1`.",
  }),
  webUrl: httpUrl.optional().meta({
    defaultText: "where the API is",
    description:
      "What people and deployments know it by, if Towline reaches its API at another address: `https://gitea.example.com` with an `apiUrl` of `http://gitea.gitea.svc:3000/api/v1`.",
  }),
  hosts: z.array(hostName, { error: "must be a list" }).prefault([]).meta({
    defaultText: "those of `apiUrl` and `webUrl`, else the public host",
    description:
      "More names of hosts that its repositories are read from, such as one for SSH. What another forge says about repositories there is ignored.",
  }),
  webhookSecrets: z
    .array(webhookSecret, { error: "must be a list" })
    .prefault([])
    .meta({
      secret: true,
      variable: "WEBHOOK_SECRET",
      description: `Secrets of its webhooks, ${shortestWebhookSecret} characters or more each. Any of them is accepted, so that they can be rotated: add the new one, change it at the host, remove the old one. In the variable they are separated by commas or line ends.`,
    }),
  webhookSecretFiles: z.array(path, { error: "must be a list" }).prefault([]).meta({
    variable: "WEBHOOK_SECRET_FILE",
    description: "Files with more of them, one secret per line.",
  }),
  token: token.optional().meta({
    secret: true,
    description:
      "Login for its API. With it, or as a GitHub App, commits get statuses, and pull requests are previewed if `preview.enabled` says so.",
  }),
  tokenFile: path.optional().meta({ description: "File to read the token from." }),
  appId: appId.optional().meta({ description: "Instead of a token: the id of a GitHub App that is installed there." }),
  appPrivateKey: privateKey.optional().meta({ secret: true, description: "The App's private key (PEM)." }),
  appPrivateKeyFile: path.optional().meta({ description: "File to read the App's private key from." }),
  insecureAllowUnsigned: flag.prefault(false).meta({
    description:
      "Accepts deliveries that nobody signed. Whoever reaches the port can then make Towline look at git; for experiments only.",
  }),
});

export const configSchema = z.strictObject({
  forges: z
    .array(forgeSchema, { error: "must be a list" })
    .prefault([])
    .meta({ description: "The git hosts whose webhooks are received. Without any, git is only polled." }),
  webhooks: z
    .strictObject({
      host: text.prefault("0.0.0.0").meta({ description: "Address that webhooks are received on." }),
      port: port.prefault(8080).meta({ description: "Port that webhooks are received on; 0 takes any free one." }),
      maxBody: size("1KiB", "25MiB").prefault("10MiB").meta({
        description: "Largest delivery, also after it is unpacked. GitHub sends up to 25 MiB.",
      }),
      proxyAddresses: z.array(network, { error: "must be a list" }).prefault([]).meta({
        description:
          "Addresses of proxies in front of it, such as those of an ingress controller's pods: `10.0.0.7` or `10.0.0.0/24`. Limits then count by the sender that they name in `X-Forwarded-For`, which is believed from nobody else.",
      }),
    })
    .prefault({}),
  admin: z
    .strictObject({
      enabled: flag.prefault(true).meta({ description: "Whether there is a port for health and metrics." }),
      host: text.prefault("0.0.0.0").meta({ description: "Address of the port for health and metrics." }),
      port: port.prefault(9090).meta({
        description:
          "Port of `/livez`, `/readyz`, `/metrics` and `/version`. Not for the internet; 0 takes any free one.",
      }),
    })
    .prefault({}),
  metrics: z
    .strictObject({
      bindAddress: bindAddress.prefault("0").meta({
        description: "One more address with `/metrics`, as `host:port` or `:port`; `0` is none.",
      }),
    })
    .prefault({}),
  probes: z
    .strictObject({
      bindAddress: bindAddress.prefault("0").meta({
        description: "One more address with `/healthz` and `/readyz`, as `host:port` or `:port`; `0` is none.",
      }),
    })
    .prefault({}),
  ui: z
    .strictObject({
      host: text.prefault("0.0.0.0").meta({ description: "Address of the page." }),
      port: port.prefault(8090).meta({
        description:
          "Port of the page and its API, which are there only if `token`, `proxyHeader` or `oidc.issuer` is set: see docs/page.md. Never the webhooks' port; 0 takes any free one.",
      }),
      token: uiToken.optional().meta({
        secret: true,
        description: `Who has it sees the page: ${shortestUiToken} characters or more.`,
      }),
      tokenFile: path.optional().meta({ description: "File to read the page's token from." }),
      tokenRole: oneOf(pageRoles).prefault("viewer").meta({
        description: "What the token is good for: `viewer` only looks, `operator` may also ask for deploys.",
      }),
      proxyHeader: text
        .regex(/^[A-Za-z0-9-]{1,100}$/, "must be the name of a header")
        .optional()
        .meta({
          description:
            "Header in which a proxy that asks people who they are names them, as `X-Auth-Request-User`. Believed only from `proxyAddresses`.",
        }),
      proxyGroupsHeader: text
        .regex(/^[A-Za-z0-9-]{1,100}$/, "must be the name of a header")
        .optional()
        .meta({
          description: "Header in which that proxy says their groups, separated by commas, as `X-Auth-Request-Groups`.",
        }),
      proxyAddresses: z
        .array(network, { error: "must be a list" })
        .prefault([])
        .meta({ description: "Addresses of that proxy, as `10.0.0.7` or `10.0.0.0/24`." }),
      proxySecret: proxySecret.optional().meta({
        secret: true,
        description: `What that proxy sends along with each request, so that nobody else who has one of its addresses is believed: ${shortestUiToken} characters or more.`,
      }),
      proxySecretFile: path.optional().meta({ description: "File to read that secret from." }),
      proxySecretHeader: text
        .regex(/^[A-Za-z0-9-]{1,100}$/, "must be the name of a header")
        .prefault("X-Towline-Proxy-Secret")
        .meta({ description: "Header that it comes in." }),
      oidc: z
        .strictObject({
          issuer: issuerUrl.optional().meta({
            description: "Identity provider (OpenID Connect) that people log in at: the URL that its tokens name.",
          }),
          clientId: text.optional().meta({ description: "What it knows Towline by." }),
          clientSecret: secret.optional().meta({
            secret: true,
            description: "Secret that goes with it. Sessions are sealed with it, so that another one ends them all.",
          }),
          clientSecretFile: path.optional().meta({ description: "File to read that secret from." }),
          redirectUrl: callbackUrl.optional().meta({
            description: `Where it sends people back to: the page's address as a browser knows it, and \`${loginCallbackPath}\`.`,
          }),
          scopes: z
            .array(text, { error: "must be a list" })
            .prefault(["openid", "profile", "email"])
            .meta({ description: "What is asked for; some providers want `groups` besides." }),
          nameClaim: claim.prefault("email").meta({
            description:
              "Claim that names people, in the audit log and in the cluster. One that they cannot choose themselves. An `email` counts only with `email_verified: true`.",
          }),
          groupsClaim: claim.prefault("groups").meta({ description: "Claim with their groups." }),
          session: duration("5m", "24h").prefault("8h").meta({
            description:
              "How long a login lasts. Groups that somebody loses at the provider are gone with the next one.",
          }),
        })
        .prefault({}),
      viewerGroups: groups.meta({
        description:
          "Groups whose people may look; `*` is everybody who has a name. Who is in neither list has no access, unless both are empty and a proxy does the asking.",
      }),
      operatorGroups: groups.meta({
        description:
          "Groups whose people may also reconcile, deploy, validate, prune, suspend, resume, approve, replay and retry.",
      }),
      namespacesByGroup: z
        .array(text.regex(/^.+=[a-z0-9*][-a-z0-9*]*$/, 'must be "group=namespace", as "developers=shop-*"'), {
          error: "must be a list",
        })
        .prefault([])
        .meta({
          description:
            "Namespaces that the people of a group see, as `developers=shop` or `developers=shop-*`; `*=…` is everybody who has a name. If it is not empty, people see no others. With `actAs: caller` they also have to be allowed to `get` KluctlDeployments there.",
        }),
      actAs: oneOf(["caller", "server"]).prefault("caller").meta({
        description:
          "As whom the cluster is asked for what somebody wants, and what they see. `caller`: as that person, with the rights they have there; the server then needs the right to impersonate them: see docs/rights.md. `server`: with the server's own login.",
      }),
      userPrefix: text.optional().meta({
        defaultText: "none",
        description:
          "What stands before people's names when the cluster is asked as them, as its own `--oidc-username-prefix`.",
      }),
      groupPrefix: text.optional().meta({
        defaultText: "none",
        description: "What stands before their groups' names then, as its own `--oidc-groups-prefix`.",
      }),
    })
    .prefault({}),
  sourceOverride: z
    .strictObject({
      bindAddress: bindAddress.prefault("0").meta({
        description:
          "Address on which `kluctl gitops` offers the files of a working copy, as `host:port` or `:port`; `0` is none.",
      }),
    })
    .prefault({}),
  log: z
    .strictObject({
      level: oneOf(logLevels).prefault("info").meta({ description: "Least important lines that are written." }),
      format: oneOf(logFormats).prefault("auto").meta({
        description: "`json`, one object per line; `pretty`, for people; `auto`, pretty on a terminal.",
      }),
    })
    .prefault({}),
  audit: z
    .strictObject({
      file: path.optional().meta({
        defaultText: "the log, as lines with `audit: true`",
        description:
          "File that one line is appended to for each change of what is deployed, see docs/audit.md. Its directory has to be there.",
      }),
    })
    .prefault({}),
  dataDir: path.optional().meta({
    defaultText: "`$XDG_STATE_HOME/towline`, else `~/.local/state/towline`, else `/var/lib/towline`",
    description:
      "Directory for mirrors of repositories and the private Redis. Nothing in it is missed when it is lost.",
  }),
  redis: z
    .strictObject({
      url: redisUrl.optional().meta({
        secret: true,
        defaultText: "a private one",
        description:
          "`redis://`, `rediss://` (TLS) or `unix://`. Without it Towline starts a Redis of its own, which serves only one replica.",
      }),
      urlFile: path.optional().meta({ description: "File to read the URL from." }),
      password: secret
        .optional()
        .meta({ secret: true, description: "Password for `redis.url`, to keep it out of the URL." }),
      passwordFile: path.optional().meta({ description: "File to read the password from." }),
      caFile: path.optional().meta({
        defaultText: "those that Node knows",
        description: "File with the authorities (PEM) that sign the certificates of Redis and its sentinels.",
      }),
      sentinels: z.array(sentinel, { error: "must be a list" }).prefault([]).meta({
        description:
          "Sentinels, as `host:port`, that know where the Redis is. The host of `redis.url` is then the name that they know it by: `redis://mymaster`.",
      }),
      sentinelPassword: secret
        .optional()
        .meta({ secret: true, description: "Password of the sentinels, if they have one." }),
      sentinelPasswordFile: path.optional().meta({ description: "File to read the sentinels' password from." }),
      prefix: text
        .regex(/^[\w.-]+$/, "must consist of letters, digits and _.-")
        .prefault("towline")
        .meta({ description: "What the keys begin with. Servers that share it share their work." }),
      server: path.optional().meta({
        defaultText: "`redis-server` or `valkey-server` on PATH",
        description: "Program of the private Redis.",
      }),
    })
    .prefault({}),
  kubernetes: z
    .strictObject({
      kubeconfig: path.optional().meta({
        defaultText: "`$KUBECONFIG`, else the pod's service account, else `~/.kube/config`",
        description: "Kubeconfig of the cluster whose KluctlDeployments are served.",
      }),
      context: text.optional().meta({ defaultText: "the current one", description: "Context in the kubeconfig." }),
      namespaces: z
        .array(kubernetesName, { error: "must be a list" })
        .prefault([])
        .meta({ defaultText: "all", description: "Namespaces whose KluctlDeployments are served." }),
      requestsPerSecond: integer(1, 10_000).prefault(100).meta({
        description:
          "How many requests a second the server itself sends to the API server at most, on average; twice as many may come at once. kluctl keeps limits of its own. Leases are renewed whatever else waits.",
      }),
      allowUnsafeKubeconfigs: flag.prefault(false).meta({
        description:
          "Whether a kubeconfig in `spec.kubeConfig` may run programs of the server to log in (`exec`, `auth-provider`) and name files of it.",
      }),
      readSecretsAs: oneOf(["server", "account"]).prefault("server").meta({
        description:
          "Who reads the Secrets with logins, keys and kubeconfigs that a deployment names. `account`: its service account, if it has one, so that it can name only what that may read, and the server needs no right to read Secrets.",
      }),
    })
    .prefault({}),
  kluctl: z
    .strictObject({
      path: path.optional().meta({
        variable: "TOWLINE_KLUCTL",
        defaultText: "`kluctl` on PATH",
        description: "The kluctl to run, 2.22.1 or newer.",
      }),
      cacheDir: path.optional().meta({
        defaultText: "`$KLUCTL_CACHE_DIR`, else `kluctl-cache` in `dataDir`",
        description:
          "Where kluctl keeps its Python, charts and includes. Keep it between starts: filling it takes seconds.",
      }),
      unpackedDir: path.optional().meta({
        defaultText: "none; the image has one",
        description:
          "Where kluctl's Python lies unpacked already. It is only read; a kluctl that finds nothing of its own there unpacks into `cacheDir`.",
      }),
      systemPython: flag.prefault(false).meta({
        description: "Lets kluctl render with `python3` on PATH, never warm. kluctl 2.25 or newer.",
      }),
      warm: oneOf(["on", "off"]).prefault("on").meta({
        variable: "TOWLINE_WARM",
        description:
          "Keeps kluctl's template renderers warm, which halves the time of a loop and takes 40 MB, and as much again for isolated previews. Linux only; kluctl 2.22, 2.25 or newer.",
      }),
    })
    .prefault({}),
  concurrency: integer(1, 256).optional().meta({
    defaultText: "the number of cores, from 2 to 64, but no more than memory is there for",
    description:
      "How many deployments are worked on at once, at most: while memory runs out there are fewer. Each runs one kluctl, about one core and 200 MB. Half as many more may be worked on for somebody who asked and waits for the answer.",
  }),
  sweep: z
    .strictObject({
      interval: duration("5s", "24h").prefault("60s").meta({
        description: "How often git is asked for what a lost webhook did not tell: one `ls-remote` per repository.",
      }),
      fullInterval: duration("0s", "24h").prefault("1h").meta({
        description:
          "How long at most the loops of a deployment are left out, one after the other, because nothing can have changed; `0s`: none is. `towline.dev/full-interval` says otherwise for one deployment.",
      }),
      auditSkips: integer(0, 1_000_000).prefault(0).meta({
        description:
          "Runs one in so many skipped checks all the same, and reports those that would have found something; `1`: all of them, `0`: none.",
      }),
    })
    .prefault({}),
  lease: z
    .strictObject({
      duration: duration("5s", "5m").prefault("15s").meta({
        description: "After how long without a sign of life another replica takes over a deployment.",
      }),
    })
    .prefault({}),
  results: z
    .strictObject({
      write: flag.prefault(true).meta({ description: "Whether results are stored in the cluster." }),
      namespace: kubernetesName.prefault("kluctl-results").meta({
        description: "Namespace for the results that `kluctl gitops` and kluctl's web UI show.",
      }),
      keepCommands: integer(0, 1_000).prefault(5).meta({ description: "Stored command results per deployment." }),
      keepValidates: integer(0, 1_000).prefault(2).meta({ description: "Stored validate results per deployment." }),
    })
    .prefault({}),
  preview: z
    .strictObject({
      enabled: flag.prefault(false).meta({
        description:
          "Shows on pull requests what merging them would change; needs a login for the git host's API. Pull requests are then rendered before any review, confined by `preview.isolation`: read docs/preview-security.md first.",
      }),
      isolation: z
        .enum(["required", "auto", "off"], { error: "must be required, auto or off" })
        .prefault("required")
        .meta({
          description:
            "Confines what a preview runs, so that a branch can do nothing but render. `required`: no preview where something of it cannot be had. `auto`: as much as there is, and the server says what is missing. `off`: none of it, so that everybody who can push a branch can run code on the server.",
        }),
      forks: z.enum(["off", "isolated"], { error: "must be off or isolated" }).prefault("off").meta({
        description:
          "What is rendered of pull requests from forks. `off`: nothing but what somebody has allowed. `isolated`: everything, without the cluster, logins, keys and network, compared with the base rendered the same way; needs all of `preview.isolation`.",
      }),
      forksInMergeQueue: flag.prefault(false).meta({
        description:
          "Renders groups of a merge queue also if a member comes from a fork, or if nobody can show where it comes from: see docs/pull-requests.md.",
      }),
      serviceAccountName: kubernetesName.optional().meta({
        defaultText: "the deployment's own",
        description:
          "Service account that previews act as, in each deployment's namespace; it needs to read, and to create and patch with dry-run. With `preview.isolation: required` a deployment without any is not previewed.",
      }),
      hosts: z.array(hostRule, { error: "must be a list" }).prefault([]).meta({
        description:
          "Hosts that isolated previews may reach besides those of the deployment's own source and logins, such as chart repositories without a login: `host`, `host:port` or `*.example.com`.",
      }),
      concurrency: integer(1, 256).optional().meta({
        defaultText: "half the number of cores, at least 2",
        description: "How many deployments are previewed at once, besides those that are worked on.",
      }),
      interval: duration("30s", "24h").prefault("5m").meta({
        description: "How often forges are asked for pull requests whose webhooks were lost.",
      }),
      runner: z
        .strictObject({
          address: runnerAddress.optional().meta({
            description:
              "Where a `towline preview-runner` listens, as `host:port` or `unix:` and a path. Previews are then rendered there and nowhere else; it needs `preview.isolation`.",
          }),
          token: runnerToken.optional().meta({
            secret: true,
            description: `What the server and its preview runner know each other by, ${shortestUiToken} characters or more. Use it for nothing else.`,
          }),
          tokenFile: path.optional().meta({ description: "File to read that token from." }),
          bindAddress: runnerBindAddress.prefault(":8092").meta({
            description:
              "Of `towline preview-runner` alone: where it listens, as `host:port`, `:port` or `unix:` and a path.",
          }),
        })
        .prefault({}),
    })
    .superRefine(({ isolation, runner: { address, token } }, ctx) => {
      if (address === undefined) return;
      const add = (key: string[], message: string) => ctx.addIssue({ code: "custom", path: key, message });
      if (token === undefined)
        add(["runner", "token"], "is missing: set it or tokenFile, as the preview runner has it");
      if (isolation === "off") add(["isolation"], "is off: a preview runner renders confined; set required or auto");
    })
    .prefault({}),
  prune: z
    .strictObject({
      confirm: flag.prefault(true).meta({
        description:
          "A prune that nobody asked for by hand waits for an annotation if it is large, or if the project renders no object at all: see docs/deployments.md.",
      }),
      confirmPercent: integer(0, 100)
        .prefault(50)
        .meta({ description: "What is large: more than this percentage of the deployed objects." }),
      confirmFromObjects: integer(1, 100_000)
        .prefault(10)
        .meta({ description: "Where fewer objects are deployed, no share of them is large." }),
    })
    .prefault({}),
  statusName: text
    .regex(/^[\w.-]{1,60}$/, "must consist of at most 60 letters, digits and _.-")
    .prefault("towline")
    .meta({
      description:
        "What the statuses of commits begin with, and what keeps comments apart. Give servers that follow the same repositories, for several clusters or parts of one, a name each.",
    }),
  clusterName: text.max(60, "must have at most 60 characters").optional().meta({
    defaultText: "the beginning of the cluster's UID",
    description: "What comments on pull requests call the cluster.",
  }),
  git: z
    .strictObject({
      timeout: duration("1s", "1h").prefault("2m").meta({ description: "How long one fetch or `ls-remote` may take." }),
    })
    .prefault({}),
  shutdown: z
    .strictObject({
      drain: duration("0s", "1h").prefault("60s").meta({
        description:
          "How long running deployments may go on after SIGTERM before they are handed to another replica. Keep the pod's grace period 30 seconds longer.",
      }),
    })
    .prefault({}),
  controllerName: text.prefault("kluctl-controller").meta({
    description:
      "Field manager and event source; kluctl's own, so that either controller can take over from the other.",
  }),
  controllerNamespace: kubernetesName.prefault("kluctl-system").meta({
    description: "Namespace of what only one controller may have: the Lease that says which one serves the cluster.",
  }),
  leaderElection: oneOf(leaderElections).prefault("shared").meta({
    description:
      "The Lease of kluctl's own controller, `5ab5d0f9.kluctl.io`. `shared`: while that controller holds it, wait; then hold it together with all other Towline servers. `exclusive`: only one server at a time works. `off`: the Lease is nothing to us.",
  }),
  defaultServiceAccount: kubernetesName.optional().meta({
    description: "Service account for deployments that name none. Without either, Towline's own identity deploys.",
  }),
  dryRun: flag.prefault(false).meta({ description: "Applies nothing, whatever the deployments say." }),
});
