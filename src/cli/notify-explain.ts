/** `towline notify explain`: which targets hear of a deployment, of what, and why. */
import { keyText, noticeEvents } from "../model.ts";
import { subscriptionsOf } from "../reporting/notifications/routing.ts";
import { listAllDeployments } from "./list-deployments.ts";
import { clusterConfig, type ClusterFlags, withClusterFlags } from "./cluster.ts";
import type { Define } from "./commands.ts";
import { type Format, isForPeople, listing, outputOption } from "./output.ts";
import { selectDeployments } from "./select.ts";
import { plain, table } from "./table.ts";

interface Flags extends ClusterFlags {
  readonly selector?: string;
  readonly output: Format;
}

/** A target that hears of a deployment. */
interface Hearing {
  readonly deployment: string;
  readonly target: string;
  readonly channel?: string | undefined;
  readonly events: readonly string[];
  readonly why: string;
}

const help = `
Uses the routes in the configuration and the annotation towline.dev/notify of the deployments. Nothing is sent.

Examples:
  towline notify explain shop/prod
  towline notify explain -n shop -o json

Exit codes:
  0  Success
  1  Cannot reach the cluster, or no such deployment
  2  Invalid command line or configuration`;

export const defineNotifyExplain: Define = (command, { env, columns, out, err }) => {
  withClusterFlags(command)
    .argument("[names...]", "Deployments: name or namespace/name; default: all")
    .option("-l, --selector <labels>", "Only deployments with these labels: team=shop,tier!=db")
    .addOption(outputOption())
    .addHelpText("after", help)
    .action(async (names: readonly string[], flags: Flags) => {
      const cluster = clusterConfig(env, flags);
      const { createKubeClient } = await import("../kube/client.ts"); // `--help` does not wait for it
      const client = createKubeClient(cluster.kubernetes);
      try {
        const wanted = { names, selector: flags.selector, ...cluster, err };
        const found = await selectDeployments(wanted, (namespaces, selector) =>
          listAllDeployments(client, { ...wanted, namespaces, selector }),
        );
        const { notifications } = cluster.config;
        const hearings = found.flatMap(({ deployment }) =>
          subscriptionsOf(deployment, notifications).map(({ target, channel, events, why }): Hearing => {
            const listed = noticeEvents.filter((event) => events.has(event));
            return { deployment: keyText(deployment.key), target, channel, events: listed, why };
          }),
        );
        if (notifications.targets.length === 0) err("No target is configured: see docs/notifications.md\n");
        if (hearings.length > 0 || !isForPeople(flags.output))
          out(listing(flags.output, hearings, columns, (shown) => toTable(shown)));
        else if (found.length > 0) out("No target hears of them.\n");
      } finally {
        client.close();
      }
    });
};

function toTable(hearings: readonly Hearing[]): string {
  const rows = hearings.map(({ deployment, target, channel, events, why }) => [
    deployment,
    target,
    plain(channel ?? "-"),
    events.length === noticeEvents.length - 1 && !events.includes("started") ? "all but started" : events.join(","),
    why,
  ]);
  return table([["DEPLOYMENT", "TARGET", "CHANNEL", "EVENTS", "WHY"], ...rows]);
}
