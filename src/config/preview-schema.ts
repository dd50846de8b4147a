/** The schema of previews of pull requests (`preview` in the configuration). */
import { z } from "zod";
import { integer } from "./schema-parts.ts";
import {
  duration,
  flag,
  hostRule,
  kubernetesName,
  path,
  runnerAddress,
  runnerBindAddress,
  runnerToken,
  shortestToken,
} from "./schema-values.ts";

export const previewSchema = z
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
  });
