/** The third phase of the start: the work, while this server is the leader. */
import { startLeadership } from "../kube/leader.ts";
import type { Infrastructure } from "./infrastructure.ts";
import type { OpenIntake } from "./intake.ts";
import { createReconciliation } from "./reconciliation.ts";
import type { ServerState } from "./state.ts";
import { startWork } from "./work.ts";

export interface Leading {
  /** Resolves with the reason when another controller has taken over and this server must exit. */
  readonly lost: Promise<string>;
  /** Whether another controller may already be working. */
  isLost(): boolean;
  /** Ends the work. Running jobs may continue for this long. */
  stopWork(drainMs: number): Promise<void>;
  /** From here on another controller may start. */
  release(): Promise<void>;
}

export function startLeading(infrastructure: Infrastructure, intake: OpenIntake, state: ServerState): Leading {
  const { config, client, identity, metrics, auditLog, log } = infrastructure;
  const reconciliation = createReconciliation(infrastructure, intake.overrides);
  const { controllerNamespace: namespace, leaderElection: how } = config;
  const leadership = startLeadership({ client, namespace, how, identity, log });
  let isLost = false;
  metrics.outside.leads(false);
  void leadership.lost.then(() => {
    isLost = true;
    metrics.outside.leads(false);
  });
  metrics.scrape({ sweepAge: () => state.work?.sweepAge() ?? 0 });
  const working = leadership.won.then((won) => {
    if (!won || state.stoppingSince !== undefined) return;
    metrics.outside.leads(true);
    state.work = startWork({
      ...infrastructure,
      ...reconciliation,
      turn: () => intake.turn(),
      mayBegin: () => leadership.mayBegin(),
      clusterId: () => client.clusterId(),
      audit: (line) => auditLog.info(line, line.action),
    });
  });
  state.leadership = leadership;

  return {
    lost: leadership.lost,
    isLost: () => isLost,
    async stopWork(drainMs) {
      if (state.work === undefined) {
        await leadership.stop();
        await working;
      }
      await state.work?.stop(drainMs);
    },
    release: () => leadership.stop(),
  };
}
