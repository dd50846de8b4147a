/** The schema of the configuration, from which types, options, variables and documentation are derived. */
import { z } from "zod";
import { forgeSchema } from "./forge-schema.ts";
import { notificationsSchema } from "./notifications-schema.ts";
import { pageSchema } from "./page-schema.ts";
import { previewSchema } from "./preview-schema.ts";
import { recordingSchema } from "./recording-schema.ts";
import { redisSchema } from "./redis-schema.ts";
import { integer, size, text } from "./schema-parts.ts";
import { bindAddress, duration, flag, kubernetesName, network, oneOf, path, port } from "./schema-values.ts";

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

export const logLevels = ["trace", "debug", "info", "warn", "error", "fatal"] as const;
export const logFormats = ["json", "pretty", "auto"] as const;
export const leaderElections = ["shared", "exclusive", "off"] as const;

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
  page: pageSchema.prefault({}),
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
  redis: redisSchema.prefault({}),
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
  preview: previewSchema.prefault({}),
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
