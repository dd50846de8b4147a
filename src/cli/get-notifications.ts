/** `towline get notifications`: what each target was sent, and why one receives nothing. */
import { type ShownTarget, showTarget } from "../views/notifications.ts";
import { clusterConfig, type ClusterFlags, withClusterFlags } from "./cluster.ts";
import type { Define } from "./commands.ts";
import { ageText, type Format, isForPeople, listing, outputOption } from "./output.ts";
import { plain, table } from "./table.ts";

interface Flags extends ClusterFlags {
  readonly output: Format;
}

const help = `
Reads what the servers have recorded in the cluster.

  LAST     When the last message was sent, and its title
  OPEN     How many deployments fail, and how much else is open, as far as the target knows
  PROBLEM  Why the target receives nothing at the moment

Examples:
  towline get notifications
  towline get notifications -o json | jq '.[] | select(.trouble)'

Exit codes:
  0  Success
  1  Cannot reach the cluster
  2  Invalid command line or configuration`;

export const defineGetNotifications: Define = (command, { env, columns, out }) => {
  withClusterFlags(command)
    .addOption(outputOption())
    .addHelpText("after", help)
    .action(async (flags: Flags) => {
      const { config, kubernetes } = clusterConfig(env, flags);
      const [{ createKubeClient }, { createSentNotifications }] = await Promise.all([
        import("../kube/client.ts"), // `--help` does not wait for it
        import("../kube/sent-notifications.ts"),
      ]);
      const client = createKubeClient(kubernetes);
      try {
        const { controllerNamespace: namespace, kubernetes: own, notifications } = config;
        const sent = createSentNotifications({ client, namespace, watched: own.namespaces });
        const targets = await Promise.all(
          notifications.targets.map(async ({ id, kind }) => showTarget(id, kind, (await sent.read(id))?.record)),
        );
        if (targets.length === 0 && isForPeople(flags.output))
          out("No target is configured: see docs/notifications.md\n");
        else out(listing(flags.output, targets, columns, (shown) => toTable(shown)));
      } finally {
        client.close();
      }
    });
};

function toTable(targets: readonly ShownTarget[]): string {
  const now = Date.now();
  const rows = targets.map(({ target, kind, recent: [last], open, trouble }) => [
    target,
    kind,
    last === undefined ? "-" : `${ageText(now - last.at)} ago: ${plain(last.title)}`,
    String(open),
    trouble === undefined ? "-" : plain(trouble.message),
  ]);
  return table([["TARGET", "KIND", "LAST", "OPEN", "PROBLEM"], ...rows]);
}
