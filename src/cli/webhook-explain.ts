/** `towline webhook explain`: what the server would make of a delivery, by the server's own code. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import type { Config } from "../config.ts";
import { genuine, readHeaders } from "../forge/webhook-source.ts";
import type { Deployment, MalformedDeployment } from "../model.ts";
import { listOfBothApis } from "./both-apis.ts";
import {
  clusterConfig,
  type ClusterConfig,
  type ClusterFlags,
  type FoundDeployment,
  toFound,
  withClusterFlags,
} from "./cluster.ts";
import type { Define, ProgramDeps } from "./commands.ts";
import { deliveryHelp, type DeliveryFlags } from "./delivery-file.ts";
import { openDelivery, refuseBoth, withDeliveryFlags } from "./delivery-command.ts";
import { explainDelivery, type ExplainDeps, type Explanation } from "./explain-delivery.ts";
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

It is judged as the server would judge it now: with the configured secrets, and against the KluctlDeployments of the
cluster, or those in files (--manifests). Nothing is sent, queued or changed.

  towline webhook explain delivery.json                         a recorded one
  pbpaste | towline webhook explain --forge github              the payload from GitHub's "Recent Deliveries"
  towline webhook explain --delivery 0b6a8a4e-6f1c-4d2e-9d1f-3f2c1ab09d41
                                                                one that came; what the server remembers is in its Redis
  towline webhook explain push.json --manifests deploy/         against manifests, without a cluster
  towline webhook explain push.json -o json | jq .ignored

Exit codes:
  0  the server would take it, and it concerns a deployment or a pull request that is previewed
  1  the server would refuse it, or it concerns nothing: what is printed says why
  2  the command line or the configuration is wrong`;

export const defineWebhookExplain: Define = (command, { env, stdin, out, err }, onCode) => {
  withClusterFlags(withDeliveryFlags(command))
    .option("--delivery <id>", "no file, but one that the server has taken: its id in `get deliveries -o wide`")
    .option("--manifests <files...>", "take the KluctlDeployments of these files or directories, not the cluster's")
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
      const deployments = found.map(({ deployment }) => deployment);
      const explanation = await explainDelivery({ ...given, deployments, config });
      out(flags.output === "text" ? describeExplanation(explanation) : toData(flags.output, explanation));
      onCode(concernsSomething(explanation) ? 0 : 1);
    });
};

type Judged = Pick<ExplainDeps, "event" | "verdict" | "remembered">;

async function read(
  file: string | undefined,
  flags: Flags,
  config: Config,
  deps: Pick<ProgramDeps, "stdin">,
): Promise<Judged> {
  const { delivery, source, payloadOnly } = await openDelivery(file, flags, config, deps);
  const headers = readHeaders(delivery.rawHeaders);
  const verdict = payloadOnly ? undefined : await source.verify(headers, delivery.body);
  return { event: source.parse(headers, delivery.body), verdict };
}

/** Only what was genuine is remembered so that it can be taken anew. */
async function recall(delivery: string, forge: string | undefined, config: Config): Promise<Judged> {
  const forges = forge === undefined ? config.forges.map(({ id }) => id) : [forge];
  const found = await withRedis(config, async (connection, log) => {
    const { createDeliveries } = await import("../../jobs/deliveries.ts"); // not for a file
    const deliveries = createDeliveries({ connection, prefix: config.redis.prefix, log });
    return Promise.all(forges.map((one) => deliveries.event(one, delivery)));
  });
  const event = found.find((one) => one !== undefined);
  if (event !== undefined) return { event, verdict: genuine, remembered: true };
  throw new Error(
    `no delivery ${plain(delivery)} is remembered, or it said nothing that could be done again: towline get deliveries -o wide`,
  );
}

function concernsSomething({ genuine, matched, previews }: Explanation): boolean {
  return genuine !== false && matched.length + previews.length > 0;
}

async function fromCluster(cluster: ClusterConfig, err: (text: string) => void): Promise<readonly FoundDeployment[]> {
  const { createKubeClient } = await import("../kube/client.ts"); // not with --manifests
  const client = createKubeClient(cluster.kubernetes);
  try {
    return await listOfBothApis(client, { ...cluster, err });
  } finally {
    client.close();
  }
}

/** Every KluctlDeployment in the files; what else is in them is somebody else's. */
function readManifests(
  places: readonly string[],
): readonly { readonly deployment: Deployment | MalformedDeployment }[] {
  const files = places.flatMap((place) =>
    statSync(place).isDirectory()
      ? readdirSync(place, { recursive: true, encoding: "utf8" })
          .filter((name) => /\.ya?ml$/.test(name))
          .map((name) => join(place, name))
      : [place],
  );
  return files.flatMap((file) => {
    const documents = parseAllDocuments(readFileSync(file, "utf8"));
    return documents.flatMap((document) => {
      const [problem] = document.errors;
      if (problem) throw new Error(`${file} cannot be read: ${problem.message}`);
      return toFound(asStored(document.toJS()));
    });
  });
}

/** With what the API server would add. */
function asStored(document: unknown): unknown {
  const { kind, apiVersion, metadata } = (document ?? {}) as Record<string, unknown>;
  if (kind !== "KluctlDeployment" || !String(apiVersion).startsWith("gitops.kluctl.io/")) return undefined;
  return { ...(document as object), metadata: { namespace: "default", uid: "manifest", ...(metadata as object) } };
}
