/**
 * Requests notifications when a deployment changes, when something was too fresh to be sent, and every minute, because what
 * Redis lost or no change announces has to be noticed too.
 */
import type { Logger } from "../../log.ts";
import type { DeploymentChange } from "../../model.ts";
import type { Queue } from "../../ports.ts";

export interface NotificationWatchDeps {
  readonly deployments: { onChange(callback: (change: DeploymentChange) => void): void };
  readonly targets: () => readonly string[];
  readonly queue: Pick<Queue, "enqueue">;
  readonly log: Logger;
}

export interface NotificationWatch {
  /** Requests the target again at that time, in epoch milliseconds; the earliest of several times counts. */
  again(target: string, afterMs: number): void;
  stop(): void;
}

/** A push changes many statuses, several times each. */
const gatherMs = 2_000;
const everyMs = 60_000;

export function startNotificationWatch({ deployments, targets, queue, log }: NotificationWatchDeps): NotificationWatch {
  const planned = new Map<string, { readonly timer: NodeJS.Timeout; readonly at: number }>();
  let isStopped = false;

  async function request(target: string): Promise<void> {
    planned.delete(target);
    try {
      await queue.enqueue([{ kind: "notify", target }]);
    } catch (error) {
      // The next minute requests it again.
      log.debug({ target, error: (error as Error).message }, "could not queue a notification");
    }
  }

  function again(target: string, afterMs: number): void {
    const at = performance.now() + afterMs;
    const known = planned.get(target);
    if (isStopped || (known !== undefined && known.at <= at)) return;
    clearTimeout(known?.timer);
    planned.set(target, { at, timer: setTimeout(() => void request(target), afterMs).unref() });
  }

  function all(afterMs: number): void {
    for (const target of targets()) again(target, afterMs);
  }

  deployments.onChange(() => all(gatherMs));
  const timer = setInterval(() => all(0), everyMs).unref();
  all(gatherMs);
  return {
    again,
    stop() {
      isStopped = true;
      clearInterval(timer);
      for (const one of planned.values()) clearTimeout(one.timer);
    },
  };
}
