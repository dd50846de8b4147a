/** Reports the isolation of previews in the log and in the metrics. */
import type { Config } from "../config.ts";
import type { Logger } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import { forksOf, type Isolation, isolationProperties, logIsolation } from "./isolation.ts";

export interface ShowIsolationDeps {
  readonly config: Pick<Config, "preview">;
  readonly metrics: Pick<Metrics, "outside">;
  readonly log: Logger;
}

/** `found` is `undefined` if previews are not confined. */
export function showIsolation(found: Isolation | undefined, { config, metrics, log }: ShowIsolationDeps): void {
  const forks = forksOf(config, found);
  if (found && config.preview.enabled) logIsolation(found, forks, log);
  metrics.outside.isolated(isolationProperties, found?.provided ?? {}, forks === "isolated");
}
