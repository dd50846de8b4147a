/** `towline webhook explain`: how the server would handle a delivery, by the server's own code. */
import type { Config } from "../config.ts";
import { listFluxSources } from "../apis/flux/sources.ts";
import { ApiError } from "../errors.ts";
import { genuine, readHeaders } from "../forge/webhook-source.ts";
import type { KubeClient } from "../kube/client.ts";
import type { FluxSource } from "../model.ts";
import { listAllDeployments } from "./list-deployments.ts";
import {
  clusterConfig,
  type ClusterConfig,
  type ClusterFlags,
  type FoundDeployment,
  withClusterFlags,
} from "./cluster.ts";
import type { Define, ProgramDeps } from "./commands.ts";
import { deliveryHelp, type DeliveryFlags } from "./delivery-file.ts";
import { openDelivery, refuseBoth, withDeliveryFlags } from "./delivery-command.ts";
import { createExplainer, type Explanation, type GivenEvent } from "./explain-delivery.ts";
import { asReconciled, readFluxManifests, readManifests } from "./manifests.ts";
import { dataOption, toData } from "./output.ts";
import { withRedis } from "./redis.ts";
import { plain } from "./table.ts";
import { describeExplanation } from "./describe-explanation.ts";

interface Flags extends ClusterFlags, DeliveryFlags {
  readonly manifests?: readonly string[];
  readonly delivery?: string;
  readonly output: "text" | "json" | "yaml";
}

const help = `${deliveryHelp}

Evaluates the delivery as the server would now: with the configured secrets, and against the KluctlDeployments in the cluster
or in files (--manifests). With flux.trigger, GitRepositories of Flux are considered too. Nothing is sent, queued or changed.

Examples:
  towline webhook explain delivery.json                         A recorded delivery
  pbpaste | towline webhook explain --forge github              The payload from GitHub's "Recent Deliveries"
  towline webhook explain --delivery 0b6a8a4e-6f1c-4d2e-9d1f-3f2c1ab09d41
                                                                A delivery that the server received, from its Redis
  towline webhook explain push.json --manifests deploy/         Against manifests, without a cluster
  towline webhook explain push.json -o json | jq .ignored

Exit codes:
  0  The server would accept it, and it affects a deployment, a preview or a GitRepository of Flux
  1  The server would reject it, or it affects nothing: the output says why
  2  Invalid command line or configuration`;

export const defineWebhookExplain: Define = (command, { env, stdin, out, err }, onCode) => {
  withClusterFlags(withDeliveryFlags(command))
    .option("--delivery <id>", "Delivery that the server received, instead of a file: ID from `get deliveries -o wide`")
    .option("--manifests <files...>", "Use KluctlDeployments from these files or directories instead of the cluster")
    .addOption(dataOption())
    .addHelpText("after", help)
    .action(async (file: string | undefined, flags: Flags) => {
      refuseBoth(file, flags);
      const cluster = clusterConfig(env, flags);
      const { config } = cluster;
      const given =
        flags.delivery === undefined
          ? await read(file, flags, config, { stdin })
          : await recall(flags.delivery, flags.forge, config);
      const found = flags.manifests ? readManifests(flags.manifests) : await fromCluster(cluster, err);
      const deployments = found.map(({ deployment }) => (flags.manifests ? asReconciled(deployment) : deployment));
      const fluxSources = config.flux.trigger ? await fluxSourcesOf(cluster, flags.manifests, err) : [];
      const explanation = await createExplainer({ deployments, fluxSources, config })(given);
      out(flags.output === "text" ? describeExplanation(explanation) : toData(flags.output, explanation));
      onCode(affectsSomething(explanation) ? 0 : 1);
    });
};

async function read(
  file: string | undefined,
  flags: Flags,
  config: Config,
  deps: Pick<ProgramDeps, "stdin">,
): Promise<GivenEvent> {
  const { delivery, source, payloadOnly } = await openDelivery(file, flags, config, deps);
  const headers = readHeaders(delivery.rawHeaders);
  const verdict = payloadOnly ? undefined : await source.verify(headers, delivery.body);
  return { event: source.parse(headers, delivery.body), verdict };
}

/** The server stores events of genuine deliveries only. */
async function recall(delivery: string, forge: string | undefined, config: Config): Promise<GivenEvent> {
  const forges = forge === undefined ? config.forges.map(({ id }) => id) : [forge];
  const found = await withRedis(config, async (connection, log) => {
    const { createDeliveries } = await import("../redis/deliveries.ts"); // not for a file
    const deliveries = createDeliveries({ connection, prefix: config.redis.prefix, log });
    return Promise.all(forges.map((one) => deliveries.event(one, delivery)));
  });
  const event = found.find((one) => one !== undefined);
  if (event !== undefined) return { event, verdict: genuine, remembered: true };
  throw new Error(
    `delivery ${plain(delivery)} is not stored, or has no event that can be replayed: see towline get deliveries -o wide`,
  );
}

function affectsSomething({ genuine, matched, previews, flux }: Explanation): boolean {
  return genuine !== false && matched.length + previews.length + (flux?.matched ?? 0) > 0;
}

async function fromCluster(cluster: ClusterConfig, err: (text: string) => void): Promise<readonly FoundDeployment[]> {
  return withClient(cluster, (client) => listAllDeployments(client, { ...cluster, err }));
}

async function fluxSourcesOf(
  cluster: ClusterConfig,
  manifests: readonly string[] | undefined,
  err: (text: string) => void,
): Promise<readonly FluxSource[]> {
  if (manifests !== undefined) return readFluxManifests(manifests);
  try {
    return (await withClient(cluster, (client) => listFluxSources(client, cluster.namespaces))) ?? [];
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 403)) throw error;
    const advice = "grant list on gitrepositories.source.toolkit.fluxcd.io, or use --manifests";
    err(`GitRepositories of Flux are not considered: ${error.message}; ${advice}\n`);
    return [];
  }
}

async function withClient<T>(cluster: ClusterConfig, work: (client: KubeClient) => Promise<T>): Promise<T> {
  const { createKubeClient } = await import("../kube/client.ts"); // not with --manifests
  const client = createKubeClient(cluster.kubernetes);
  try {
    return await work(client);
  } finally {
    client.close();
  }
}
