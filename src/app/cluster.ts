/** The adapters for the cluster. */
import { knownSecrets } from "../config.ts";
import type { LiveConfig } from "../config/live.ts";
import { deploymentApis } from "../apis/apis.ts";
import { createKubeClient } from "../kube/client.ts";
import { createDeployments } from "../apis/deployments.ts";
import { createFluxDeployments } from "../apis/flux/deployments.ts";
import { createFluxSources } from "../apis/flux/sources.ts";
import { createImpersonationCheck } from "../kube/impersonation.ts";
import { createLeases } from "../kube/lease.ts";
import { createObjects } from "../kube/objects.ts";
import { toRemoteCluster } from "../kube/remote-cluster.ts";
import { createResults, storeNothing } from "../kube/result-store.ts";
import { createSecrets } from "../kube/secrets.ts";
import { createServiceAccounts } from "../kube/service-accounts.ts";
import type { Logger } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import type { Leases } from "../ports.ts";
import { createReadIdentity } from "../access/identity.ts";
import { type InStage, stagedObjects, stagedResults, stagedStatus } from "./stages.ts";

export interface ClusterDeps {
  readonly live: LiveConfig;
  /** Identifies this server among its replicas. */
  readonly identity: string;
  readonly metrics: Metrics;
  readonly inStage: InStage;
  readonly log: Logger;
}

/** Creates the adapters without sending any request. */
export function createCluster({ live, identity, metrics, inStage, log }: ClusterDeps) {
  const { kubernetes, controllerName, lease, results, flux } = live.now;
  const { namespaces } = kubernetes;
  const client = createKubeClient({
    ...kubernetes,
    mostPerSecond: () => live.now.kubernetes.requestsPerSecond,
    observe: {
      request: (...asked) => metrics.outside.kubernetesAsked(...asked),
      heldBack: (seconds) => metrics.outside.kubernetesHeldBack(seconds),
    },
  });
  const secrets = createSecrets({
    client,
    get readAs() {
      return live.now.kubernetes.readSecretsAs;
    },
    get defaultServiceAccount() {
      return live.now.defaultServiceAccount;
    },
  });
  const deployments = createDeployments({
    apis: deploymentApis,
    client,
    secrets,
    namespaces,
    controllerName,
    log,
    observe: { restarted: (why) => metrics.outside.watchRestarted(why) },
  });
  const stored = createResults({
    client,
    namespace: results.namespace,
    get keepCommandResults() {
      return live.now.results.keepCommands;
    },
    get keepValidateResults() {
      return live.now.results.keepValidates;
    },
    log,
  });
  return {
    client,
    secrets,
    fluxSources:
      flux.trigger || flux.statuses || flux.previews ? createFluxSources({ client, namespaces, log }) : undefined,
    fluxDeployments: flux.statuses || flux.previews ? createFluxDeployments({ client, namespaces, log }) : undefined,
    deployments: stagedStatus(deployments, inStage),
    objects: stagedObjects(createObjects({ kubeconfigFor: (...asked) => client.kubeconfig(...asked) }), inStage),
    results: results.write ? stagedResults(stored, inStage) : storeNothing,
    leases: observed(createLeases({ client, identity, durationMs: lease.durationMs, log }), metrics),
    readIdentity: createReadIdentity({
      secrets,
      serviceAccounts: createServiceAccounts({ client }),
      refusedToActAs: createImpersonationCheck({ client }),
      toRemoteCluster: (kubeconfig, impersonate) =>
        toRemoteCluster(kubeconfig, { impersonate, allowUnsafe: live.now.kubernetes.allowUnsafeKubeconfigs }),
      serverSecrets: () => knownSecrets(live.now),
      get defaultServiceAccount() {
        return live.now.defaultServiceAccount;
      },
    }),
  };
}

function observed(leases: Leases, metrics: Metrics): Leases {
  return {
    async hold(key, owner) {
      const held = await leases.hold(key, owner);
      held?.lost.addEventListener("abort", () => metrics.leaseLost(), { once: true });
      return held;
    },
  };
}
