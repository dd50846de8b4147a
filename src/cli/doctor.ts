/** `towline doctor`: options, progress and output. */
import { InvalidArgumentError } from "commander";
import { exitCodeOf } from "../doctor/finding.ts";
import { toFacts, toText } from "../doctor/show.ts";
import type { Key } from "../model.ts";
import type { Define } from "./commands.ts";
import { loadFromFlags, withConfigFlags } from "./configuration.ts";
import { dataOption, toData } from "./output.ts";
import { createProgress, paint } from "./terminal.ts";

interface Flags {
  readonly output: "text" | "json" | "yaml";
  readonly compare: boolean;
  readonly serviceAccount?: Key;
  readonly kubeconfig?: string;
  readonly context?: string;
}

const help = `
What it checks, without changing anything:
  Cluster              The API server, its clock and the KluctlDeployment CRD
  kluctl's controller  Whether it runs: Deployment, Lease and recent status updates
  Deployments          Invalid fields and missing Secrets; and, with a real \`kluctl diff\` of each deployment, whether a
                       swap would deploy it again or need a new approval
  Repositories         Whether each can be read with its credentials and has the branch to follow; whether the forge's
                       login may write comments and statuses; its webhooks, if the login may read them; the clocks of
                       the git hosts
  Rights               Every permission that the server needs, by access reviews
  Surroundings         kluctl, Redis, forges and their logins, the data directory

Run it with the server's configuration and in the server's pod, where it has the server's permissions. With your own
login, check the permissions of the server's service account with --service-account.

Examples:
  towline doctor                                            Before and after a swap
  towline doctor --no-compare                               Without the diffs, which take about a second each
  towline doctor --service-account kluctl-system/towline    From your own machine
  towline doctor -o json | jq '.checks[] | select(.level != "ok")'

Exit codes:
  0  No problems or warnings
  1  Warnings: read them before a swap
  2  Problems: something will not work; or invalid command line or configuration

Findings and the swap are described in docs/migrate-from-kluctl-controller.md`;

export const defineDoctor: Define = (command, { env, doctor, out, err }, onCode) => {
  withConfigFlags(command)
    .option("--kubeconfig <file>", "Kubeconfig; default: the configured one")
    .option("--context <name>", "Kubeconfig context; default: the configured or current one")
    .addOption(dataOption())
    .option("--no-compare", "Do not render and compare the deployments")
    .option("--service-account <namespace/name>", "Check the permissions of this service account", parseAccount)
    .addHelpText("after", help)
    .action(async (flags: Flags) => {
      const { compare, serviceAccount, kubeconfig, context } = flags;
      const cluster = {
        ...(kubeconfig && { kubernetesKubeconfig: kubeconfig }),
        ...(context && { kubernetesContext: context }),
      };
      const { config } = loadFromFlags(env, { ...flags, ...cluster });
      const interrupted = new AbortController();
      const interrupt = () => interrupted.abort(new Error("interrupted"));
      process.once("SIGINT", interrupt).once("SIGTERM", interrupt);
      const progress = createProgress(err);
      const { signal } = interrupted;
      try {
        const options = { config, env, compare, serviceAccount, signal };
        const sections = await doctor({ ...options, onProgress: progress.show });
        signal.throwIfAborted();
        progress.clear();
        out(flags.output === "text" ? toText(sections, paint) : toData(flags.output, toFacts(sections)));
        onCode(exitCodeOf(sections));
      } finally {
        progress.clear();
        process.off("SIGINT", interrupt).off("SIGTERM", interrupt);
      }
    });
};

function parseAccount(text: string): Key {
  const [, namespace, name] = /^([a-z0-9-]+)\/([a-z0-9.-]+)$/.exec(text) ?? [];
  if (namespace === undefined || name === undefined) throw new InvalidArgumentError("Use the form namespace/name.");
  return { namespace, name };
}
