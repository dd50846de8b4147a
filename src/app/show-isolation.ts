/** Reports the isolation of previews in the log and in the metrics whenever it changes. */
import type { LiveConfig } from "../config/live.ts";
import type { Logger } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import { forksOf, type Isolation, isolationProperties, logIsolation } from "./isolation.ts";

export interface ShowIsolationDeps {
  readonly live: LiveConfig;
  readonly metrics: Pick<Metrics, "outside">;
  readonly log: Logger;
}

/** `undefined`: previews are not confined. */
export function createShowIsolation({ live, metrics, log }: ShowIsolationDeps): (found: Isolation | undefined) => void {
  let shown: Isolation | undefined;
  function show(found: Isolation | undefined): void {
    shown = found;
    const forks = forksOf(live.now, found);
    if (found && live.now.preview.enabled) logIsolation(found, forks, log);
    metrics.outside.isolated(isolationProperties, found?.provided ?? {}, forks === "isolated");
  }
  live.follow(({ preview: next }, { preview: current }) =>
    next.enabled === current.enabled && next.forks === current.forks ? undefined : { take: () => show(shown) },
  );
  return show;
}
