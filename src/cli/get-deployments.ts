/** `towline get deployments`. */
import { setTimeout as sleep } from "node:timers/promises";
import type { KubeClient } from "../kube/client.ts";
import { keyText } from "../model.ts";
import type { FluxState } from "../views/flux-state.ts";
import { type DeploymentState, stateOf } from "../views/state.ts";
import { type ListOptions, listAllDeployments } from "./list-deployments.ts";
import { listFluxStates } from "./list-flux.ts";
import type { NewerCommit } from "../views/newer-commit.ts";
import { withNewerCommit } from "../views/newer-text.ts";
import { type NewerCommitsOptions, readNewerCommits } from "./newer-commits.ts";
import { type OpenRedis, openRedisOrWarn } from "./redis.ts";
import { clusterConfig, type ClusterFlags, withClusterFlags } from "./cluster.ts";
import type { Define } from "./commands.ts";
import { untilInterrupted } from "./interrupt.ts";
import { ageText, listing, type Format, isForPeople, orDash, outputOption, short } from "./output.ts";
import { selectDeployments, type Selection } from "./select.ts";
import { plain, table } from "./table.ts";

interface Flags extends ClusterFlags {
  readonly flux?: true;
  readonly selector?: string;
  readonly watch?: true;
  readonly output: Format;
}

const help = `
Lists all deployments unless names are given. A terminal cuts WHY at its width; -o wide shows all of it. Deployments of the
legacy API are marked with (flux.kluctl.io).

With --flux, or flux.statuses in the server's configuration, Kustomizations and HelmReleases of Flux follow, marked with
"applied by Flux": Towline shows them, and neither deploys nor changes them. They are not listed if names are given.

  READY     The Ready condition: whether the last deploy and, if enabled, the validation succeeded
  COMMIT    The newest commit that was reconciled
  DRIFT     Differences in the live cluster: 2 chg (changed), 1 new, 1 orp (orphaned), 1 del (deleted), 1 err (errors)
  DEPLOYED  Time since the last deploy
  WHY       What the deployment waits for, or what is wrong; and a newer commit that waits, with the reason
  NEWER     With -o wide: that newer commit

Whether a newer commit waits in the queue or for a retry is known if this command can reach the server's Redis
(TOWLINE_REDIS_URL, or in the server's pod). It has to be the server of the same cluster: deployments are found there by their
names, and those of another cluster may have the same ones. What waits for an approval or until it is resumed is known anyway.

Examples:
  towline get deployments
  towline get deployments -n shop -o wide
  towline get deployments --flux
  towline get deployments -l team=shop --watch
  towline get deployments -o json | jq '.[] | select(.ready != "True") | .name'

Exit codes:
  0  Success
  1  Cannot reach the cluster, or no such deployment
  2  Invalid command line or configuration`;

const watchEveryMs = 2_000;

/** `newer`: a newer commit that waits. `apiVersion` is set for deployments of the legacy API only, `kind` and `appliedBy` for what Flux applies. */
interface ShownState extends DeploymentState, Partial<Pick<FluxState, "kind" | "appliedBy">> {
  readonly apiVersion?: string | undefined;
  readonly newer?: NewerCommit | undefined;
}

export const defineGetDeployments: Define = (command, { env, columns, out, err }) => {
  withClusterFlags(command)
    .argument("[names...]", "Deployments: name or namespace/name; default: all")
    .option("-l, --selector <labels>", "Only deployments with these labels: team=shop,tier!=db")
    .option("--flux", "Also what Flux applies; default: flux.statuses of the configuration")
    .option("-w, --watch", "Keep running and print deployments that change, until Ctrl-C")
    .addOption(outputOption())
    .addHelpText("after", help)
    .action(async (names: readonly string[], flags: Flags) => {
      const cluster = clusterConfig(env, flags);
      const { kubernetes, namespaces } = cluster;
      const { createKubeClient } = await import("../kube/client.ts"); // `--help` does not wait for it
      const client = createKubeClient(kubernetes);
      let redis: OpenRedis | undefined;
      try {
        const warned = new Set<string>();
        const warnOnce = (text: string) => void (warned.has(text) || (warned.add(text), err(text)));
        redis = await openRedisOrWarn(cluster.config, warnOnce);
        const wanted = { names, selector: flags.selector, namespaces };
        const print = (states: readonly ShownState[], first: boolean) =>
          out(listing(flags.output, states, columns, (shown, wide) => toTable(shown, wide, first)));
        const withFlux = names.length === 0 && (flags.flux ?? cluster.config.flux.statuses);
        const read: ReadStates = () => readStates(client, { ...wanted, ...cluster, redis, withFlux, err: warnOnce });
        const states = await read();
        if (states.length === 0 && isForPeople(flags.output))
          out(`No KluctlDeployments${whereOf(flags, namespaces)}.\n`);
        else print(states, true);
        if (flags.watch) await untilInterrupted((signal) => watch(read, states, print, signal));
      } finally {
        redis?.connection.disconnect();
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
  wanted: Selection & ListOptions & Omit<NewerCommitsOptions, "now"> & { readonly withFlux: boolean },
): ReturnType<ReadStates> {
  const now = Date.now();
  const found = await selectDeployments(wanted, (namespaces, selector) =>
    listAllDeployments(client, { ...wanted, namespaces, selector }),
  );
  const [flux, newer] = await Promise.all([
    wanted.withFlux ? listFluxStates(client, wanted) : [],
    readNewerCommits(
      found.map(({ deployment }) => deployment),
      { ...wanted, now },
    ),
  ]);
  const own = found.map(({ deployment }) => ({
    ...stateOf(deployment, now),
    apiVersion: deployment.apiVersion,
    newer: newer.get(keyText(deployment.key)),
  }));
  return [...own, ...flux];
}

/** Polls instead of using a watch, which is enough for a human reader. */
async function watch(
  read: ReadStates,
  before: readonly ShownState[],
  print: (states: readonly ShownState[], first: boolean) => void,
  signal: AbortSignal,
): Promise<void> {
  const known = new Map(before.map((state) => [nameOf(state), essence(state)]));
  for (;;) {
    await sleep(watchEveryMs, undefined, { signal });
    const states = await read();
    const changed = states.filter((state) => known.get(nameOf(state)) !== essence(state));
    for (const state of changed) known.set(nameOf(state), essence(state));
    if (changed.length > 0) print(changed, false);
  }
}

/** A KluctlDeployment and what Flux applies may have the same name. */
function nameOf(state: ShownState): string {
  return `${state.kind ?? ""} ${keyText(state)}`;
}

/** The state without the fields that change with the clock only. */
function essence(state: ShownState): string {
  return JSON.stringify({ ...state, nextCheckAt: undefined, newer: { ...state.newer, nextAt: undefined } });
}

function toTable(states: readonly ShownState[], wide: boolean, withHead: boolean): string {
  const now = Date.now();
  const head = ["NAMESPACE", "NAME", "READY", "COMMIT", "DRIFT", "DEPLOYED"];
  const more = ["NEWER", "NEXT CHECK", "TARGET", "FOLLOWS"];
  const rows = states.map((state) => {
    const { namespace, name, ready, commit, drift, deployedAt, nextCheckAt, target, source, ref, path, newer } = state;
    const age = deployedAt === undefined ? "–" : ageText(now - deployedAt);
    const next = nextCheckAt === undefined ? "–" : nextCheckAt <= now ? "now" : `in ${ageText(nextCheckAt - now)}`;
    const follows = source === undefined ? "–" : `${source}${path ? `//${path}` : ""} ${ref ?? ""}`;
    const wideCells = wide ? [short(newer?.commit), next, orDash(target), follows] : [];
    return [
      namespace,
      `${name}${markOf(state)}`,
      orDash(ready),
      short(commit),
      orDash(drift),
      age,
      ...wideCells,
      orDash(withNewerCommit(state, newer)),
    ].map(plain);
  });
  return table(withHead ? [[...head, ...(wide ? more : []), "WHY"], ...rows] : rows);
}

function markOf({ apiVersion, kind, appliedBy }: ShownState): string {
  if (appliedBy !== undefined) return ` (${kind}, applied by ${appliedBy})`;
  return apiVersion === undefined ? "" : ` (${apiVersion.replace(/\/.*/, "")})`;
}
