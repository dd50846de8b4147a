/** The network access of a confined kluctl run: to its cluster, and to the hosts that it may reach. */
import { createApiProxy } from "../api-proxy/api-proxy.ts";
import type { LiveConfig } from "../config/live.ts";
import { createEgressProxy } from "../egress-proxy/egress-proxy.ts";
import { parseTarget, type Target } from "../kit/host-rule.ts";
import type { Confine } from "../kluctl/confine.ts";
import { type ApiLoginsDeps, createApiLogins } from "../kube/api-logins.ts";
import { loadKubeConfig } from "../kube/kubeconfig.ts";
import type { Logger } from "../log.ts";

export interface ConfineDeps {
  readonly live: LiveConfig;
  readonly client: ApiLoginsDeps["client"];
  /** Whether deployments without a service account are compared with the server's own login. */
  readonly allowServerLogin: () => boolean;
  readonly env: NodeJS.ProcessEnv;
  readonly log: Logger;
}

/** Opens two loopback ports for the lifetime of the process; each run has its own addresses there. */
export function createConfine({
  live,
  client,
  allowServerLogin,
  env,
  log,
}: ConfineDeps): Confine & { stop(): Promise<void> } {
  const { kubernetes } = live.now;
  const logins = createApiLogins({ kubernetes, client, allowServerLogin });
  const api = createApiProxy({ login: (run) => logins.login(run), log });
  let apiServers: readonly Target[] | undefined;
  const egress = createEgressProxy({
    hosts: () => live.now.preview.hosts,
    apiServers: () => (apiServers ??= findApiServers(loadKubeConfig(kubernetes).cluster.server, env)),
    env,
    log,
  });
  return {
    async open(run, _slot, signal) {
      signal.throwIfAborted();
      const cluster = await api.open(run);
      const way = await egress.open(run.hosts ?? []).catch(async (error: unknown) => {
        await cluster.close();
        throw error;
      });
      return {
        kubeconfig: cluster.kubeconfig,
        env: way.env,
        ports: [cluster.port, way.port],
        maskedValues: () => cluster.maskedValues(),
        isServing: () => cluster.isServing() || way.isServing(),
        refusals: () => way.refusals(),
        close: async () => void (await Promise.all([cluster.close(), way.close()])),
      };
    },
    async stop() {
      await Promise.all([api.close(), egress.stop()]);
      logins.close();
    },
  };
}

function findApiServers(
  server: string,
  { KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT }: NodeJS.ProcessEnv,
): Target[] {
  const url = new URL(server);
  const inPod = KUBERNETES_SERVICE_HOST?.includes(":") ? `[${KUBERNETES_SERVICE_HOST}]` : KUBERNETES_SERVICE_HOST;
  const places = [
    `${url.hostname}:${url.port || (url.protocol === "https:" ? 443 : 80)}`,
    `${inPod ?? ""}:${KUBERNETES_SERVICE_PORT ?? ""}`,
  ];
  return places.map(parseTarget).filter((target) => target !== undefined);
}
