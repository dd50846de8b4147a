/** `towline get deployments`. */
import { setTimeout as sleep } from "node:timers/promises";
import type { KubeClient } from "../kube/client.ts";
import { keyText } from "../model.ts";
import { type DeploymentState, stateOf } from "../reconcile/state.ts";
import { clusterConfig, type ClusterFlags, withClusterFlags } from "./cluster.ts";
import type { Define } from "./commands.ts";
import { untilInterrupted } from "./interrupt.ts";
import { ageText, forPrograms, type Format, isForPeople, orDash, outputOption, short } from "./output.ts";
import { selectDeployments, type Wanted } from "./select.ts";
import { plain, table } from "./table.ts";

interface Flags extends ClusterFlags {
  readonly selector?: string;
  readonly watch?: true;
  readonly output: Format;
}

const help = `
NAME is name or namespace/name; without any, all are shown. The older API's (flux.kluctl.io) are not.

  READY     as its condition says: the last deploy, and the validation if there is one, went well
  COMMIT    the newest that was looked at
  DRIFT     what the live cluster differs in: 2 chg, 1 new, 1 orp, 1 del
  DEPLOYED  how long ago something was deployed last
  WHY       what it waits for, or what is wrong

  towline get deployments
  towline get deployments -n shop -o wide
  towline get deployments -l team=shop --watch
  towline get deployments -o json | jq '.[] | select(.ready != "True") | .name'

Exit codes:
  0  they are shown
  1  the cluster cannot be asked, or one of the names is none
  2  the command line or the configuration is wrong`;

const watchEveryMs = 2_000;

export const defineGetDeployments: Define = (command, { env, out }) => {
  withClusterFlags(command)
    .argument("[names...]", "only these")
    .option("-l, --selector <labels>", "only those with these labels: team=shop,tier!=db")
    .option("-w, --watch", "go on, and show each that changes, until Ctrl-C")
    .addOption(outputOption())
    .addHelpText("after", help)
    .action(async (names: readonly string[], flags: Flags) => {
      const { kubernetes, namespaces } = clusterConfig(env, flags);
      const { createKubeClient } = await import("../kube/client.ts"); // `--help` does not wait for it
      const client = createKubeClient(kubernetes);
      try {
        const wanted = { names, selector: flags.selector, namespaces };
        const print = (states: readonly DeploymentState[], first: boolean) =>
          out(forPrograms(flags.output, states) ?? toTable(states, flags.output === "wide", first));
        const states = await readStates(client, wanted);
        if (states.length === 0 && isForPeople(flags.output)) out("There are no KluctlDeployments here.\n");
        else print(states, true);
        if (flags.watch) await untilInterrupted((signal) => watch(client, wanted, states, print, signal));
      } finally {
        client.close();
      }
    });
};

async function readStates(client: Pick<KubeClient, "list">, wanted: Wanted): Promise<readonly DeploymentState[]> {
  const now = Date.now();
  return (await selectDeployments(client, wanted)).map(({ deployment }) => stateOf(deployment, now));
}

/** One list now and then, instead of a watch: it is for a person to look at. */
async function watch(
  client: Pick<KubeClient, "list">,
  wanted: Wanted,
  before: readonly DeploymentState[],
  print: (states: readonly DeploymentState[], first: boolean) => void,
  signal: AbortSignal,
): Promise<void> {
  const known = new Map(before.map((state) => [keyText(state), essence(state)]));
  for (;;) {
    await sleep(watchEveryMs, undefined, { signal });
    const states = await readStates(client, wanted);
    const changed = states.filter((state) => known.get(keyText(state)) !== essence(state));
    for (const state of changed) known.set(keyText(state), essence(state));
    if (changed.length > 0) print(changed, false);
  }
}

/** All but what only the clock changes. */
function essence(state: DeploymentState): string {
  return JSON.stringify({ ...state, nextLookAt: undefined });
}

function toTable(states: readonly DeploymentState[], wide: boolean, withHead: boolean): string {
  const now = Date.now();
  const head = ["NAMESPACE", "NAME", "READY", "COMMIT", "DRIFT", "DEPLOYED"];
  const more = ["NEXT LOOK", "TARGET", "FOLLOWS"];
  const rows = states.map((state) => {
    const { namespace, name, ready, commit, drift, deployedAt, nextLookAt, target, source, ref, path, why } = state;
    const age = deployedAt === undefined ? "–" : ageText(now - deployedAt);
    const next = nextLookAt === undefined ? "–" : nextLookAt <= now ? "now" : `in ${ageText(nextLookAt - now)}`;
    const follows = source === undefined ? "–" : `${source}${path ? `//${path}` : ""} ${ref ?? ""}`;
    const wideCells = wide ? [next, orDash(target), follows] : [];
    return [namespace, name, orDash(ready), short(commit), orDash(drift), age, ...wideCells, orDash(why)].map(plain);
  });
  return table(withHead ? [[...head, ...(wide ? more : []), "WHY"], ...rows] : rows);
}
