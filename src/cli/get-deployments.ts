/** `towline get deployments`. */
import { setTimeout as sleep } from "node:timers/promises";
import type { KubeClient } from "../kube/client.ts";
import { keyText } from "../model.ts";
import { type DeploymentState, stateOf } from "../reconcile/state.ts";
import { type BothOptions, listOfBothApis } from "./both-apis.ts";
import { clusterConfig, type ClusterFlags, withClusterFlags } from "./cluster.ts";
import type { Define } from "./commands.ts";
import { untilInterrupted } from "./interrupt.ts";
import { ageText, listing, type Format, isForPeople, orDash, outputOption, short } from "./output.ts";
import { selectDeployments, type Wanted } from "./select.ts";
import { plain, table } from "./table.ts";

interface Flags extends ClusterFlags {
  readonly selector?: string;
  readonly watch?: true;
  readonly output: Format;
}

const help = `
Without names all are shown. A terminal shows as much of WHY as it is wide, with -o wide all of it. Those of the older API are marked with its name, (flux.kluctl.io).

  READY     as its condition says: the last deploy, and the validation if there is one, went well
  COMMIT    the newest that was looked at
  DRIFT     what the live cluster differs in: 2 chg (changed), 1 new, 1 orp (orphaned), 1 del (deleted), 1 err (errors)
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

/** Of which API it is, where it is not today's. */
interface ShownState extends DeploymentState {
  readonly apiVersion?: string | undefined;
}

export const defineGetDeployments: Define = (command, { env, columns, out, err }) => {
  withClusterFlags(command)
    .argument("[names...]", "only these: name, or namespace/name")
    .option("-l, --selector <labels>", "only those with these labels: team=shop,tier!=db")
    .option("-w, --watch", "go on, and show each that changes, until Ctrl-C")
    .addOption(outputOption())
    .addHelpText("after", help)
    .action(async (names: readonly string[], flags: Flags) => {
      const cluster = clusterConfig(env, flags);
      const { kubernetes, namespaces } = cluster;
      const { createKubeClient } = await import("../kube/client.ts"); // `--help` does not wait for it
      const client = createKubeClient(kubernetes);
      try {
        const wanted = { names, selector: flags.selector, namespaces };
        const print = (states: readonly ShownState[], first: boolean) =>
          out(listing(flags.output, states, columns, (shown, wide) => toTable(shown, wide, first)));
        const told = new Set<string>();
        const tellOnce = (text: string) => void (told.has(text) || (told.add(text), err(text)));
        const read: ReadStates = () => readStates(client, { ...wanted, ...cluster, err: tellOnce });
        const states = await read();
        if (states.length === 0 && isForPeople(flags.output))
          out(`There are no KluctlDeployments${whereOf(flags, namespaces)}.\n`);
        else print(states, true);
        if (flags.watch) await untilInterrupted((signal) => watch(read, states, print, signal));
      } finally {
        client.close();
      }
    });
};

function whereOf({ selector }: Flags, namespaces: readonly string[]): string {
  const labelled = selector === undefined ? "" : ` with ${selector}`;
  return labelled + (namespaces.length === 0 ? "" : ` in ${namespaces.join(", ")}`);
}

type ReadStates = () => Promise<readonly ShownState[]>;

async function readStates(
  client: Pick<KubeClient, "list" | "request">,
  wanted: Wanted & BothOptions,
): ReturnType<ReadStates> {
  const now = Date.now();
  const found = await selectDeployments(wanted, (namespaces, selector) =>
    listOfBothApis(client, { ...wanted, namespaces, selector }),
  );
  return found.map(({ deployment }) => ({ ...stateOf(deployment, now), apiVersion: deployment.apiVersion }));
}

/** One list now and then, instead of a watch: it is for a person to look at. */
async function watch(
  read: ReadStates,
  before: readonly ShownState[],
  print: (states: readonly ShownState[], first: boolean) => void,
  signal: AbortSignal,
): Promise<void> {
  const known = new Map(before.map((state) => [keyText(state), essence(state)]));
  for (;;) {
    await sleep(watchEveryMs, undefined, { signal });
    const states = await read();
    const changed = states.filter((state) => known.get(keyText(state)) !== essence(state));
    for (const state of changed) known.set(keyText(state), essence(state));
    if (changed.length > 0) print(changed, false);
  }
}

/** All but what only the clock changes. */
function essence(state: ShownState): string {
  return JSON.stringify({ ...state, nextLookAt: undefined });
}

function toTable(states: readonly ShownState[], wide: boolean, withHead: boolean): string {
  const now = Date.now();
  const head = ["NAMESPACE", "NAME", "READY", "COMMIT", "DRIFT", "DEPLOYED"];
  const more = ["NEXT LOOK", "TARGET", "FOLLOWS"];
  const rows = states.map((state) => {
    const { namespace, name, ready, commit, drift, deployedAt, nextLookAt, target, source, ref, path, why } = state;
    const age = deployedAt === undefined ? "–" : ageText(now - deployedAt);
    const next = nextLookAt === undefined ? "–" : nextLookAt <= now ? "now" : `in ${ageText(nextLookAt - now)}`;
    const follows = source === undefined ? "–" : `${source}${path ? `//${path}` : ""} ${ref ?? ""}`;
    const wideCells = wide ? [next, orDash(target), follows] : [];
    const marked = state.apiVersion === undefined ? name : `${name} (${state.apiVersion.replace(/\/.*/, "")})`;
    return [namespace, marked, orDash(ready), short(commit), orDash(drift), age, ...wideCells, orDash(why)].map(plain);
  });
  return table(withHead ? [[...head, ...(wide ? more : []), "WHY"], ...rows] : rows);
}
