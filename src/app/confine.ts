/** What a confined run of kluctl gets from outside: a way to its cluster, and none to anywhere else. */
import { createApiProxy } from "../api-proxy/api-proxy.ts";
import type { LiveConfig } from "../config/live.ts";
import type { Confine } from "../kluctl/confine.ts";
import { type ApiLoginsDeps, createApiLogins } from "../kube/api-logins.ts";
import type { Logger } from "../log.ts";

export interface ConfineDeps {
  readonly live: LiveConfig;
  readonly client: ApiLoginsDeps["client"];
  /** Whether deployments without an account are compared with the server's own login. */
  readonly allowServerLogin: () => boolean;
  readonly log: Logger;
}

/** One port of loopback, for as long as the process lives; each run has an address of its own there. */
export function createConfine({
  live,
  client,
  allowServerLogin,
  log,
}: ConfineDeps): Confine & { stop(): Promise<void> } {
  const logins = createApiLogins({ kubernetes: live.now.kubernetes, client, allowServerLogin });
  const api = createApiProxy({ login: (run) => logins.login(run), log });
  return {
    async open(run, _slot, signal) {
      signal.throwIfAborted();
      const cluster = await api.open(run);
      return {
        kubeconfig: cluster.kubeconfig,
        env: {},
        ports: [cluster.port],
        maskedValues: () => cluster.maskedValues(),
        close: () => cluster.close(),
      };
    },
    async stop() {
      await api.close();
      logins.close();
    },
  };
}
