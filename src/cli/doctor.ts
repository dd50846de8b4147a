/** `towline doctor`: its options, what is shown while it works, and what is printed. */
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
What it looks at, and never changes:
  Cluster              the API server, its clock, the definition of KluctlDeployments
  kluctl's controller  whether it runs: Deployment, Lease, recent writes of a status
  Deployments          fields and Secrets that would not work; and, by a real \`kluctl diff\` of each, whether a swap
                       would deploy it again or ask for a new approval
  Repositories         whether each answers to its logins and has the branch that is followed; whether the forge's login may
                       write comments and commit statuses there; the hosts' clocks
  Rights               every verb the server needs, by access reviews
  Surroundings         kluctl, Redis, forges and their logins, the data directory

Run it with the server's configuration, where the server will run: in its pod, its rights are those of the server. With
your own login, --service-account asks for the rights of the server's.

  towline doctor                                            before and after a swap
  towline doctor --no-compare                               without the diffs, which take a second each
  towline doctor --service-account kluctl-system/towline    from your own machine
  towline doctor -o json | jq '.checks[] | select(.level != "ok")'

Exit codes:
  0  all is well
  1  there are warnings: what somebody should know before the swap
  2  there are problems: what will not work; or the command line or the configuration is wrong

What each finding means, and the swap itself: docs/migrate-from-kluctl-controller.md`;

export const defineDoctor: Define = (command, { env, doctor, out, err }, onCode) => {
  withConfigFlags(command)
    .option("--kubeconfig <file>", "of the cluster, instead of what the configuration says")
    .option("--context <name>", "of the kubeconfig, instead of its current one")
    .addOption(dataOption())
    .option("--no-compare", "do not render the deployments")
    .option("--service-account <namespace/name>", "look at the rights of this service account", parseAccount)
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
  if (namespace === undefined || name === undefined) throw new InvalidArgumentError("Write it as namespace/name.");
  return { namespace, name };
}
