/** The page's port. Only opened where somebody has access. */
import { join } from "node:path";
import express from "express";
import { createPageAccess } from "../../routes/page-access.ts";
import { createPageEvents } from "../../routes/page-events.ts";
import { createPageLog, type PageLogDeps } from "../../routes/page-log.ts";
import { createPageRoutes } from "../../routes/page.ts";
import type { UiConfig } from "../config.ts";
import { createNetworks } from "../config/network.ts";
import type { Logger } from "../log.ts";
import type { WatchedDeployments } from "../kube/deployments.ts";
import type { Clock } from "../ports.ts";
import { type Listener, startListener } from "./listener.ts";
import { createPageFacts, type PageFactsDeps } from "./page-facts.ts";

export interface PageDeps extends PageFactsDeps {
  readonly deployments: PageFactsDeps["deployments"] & Pick<WatchedDeployments, "onChange">;
  readonly logLines: Pick<PageLogDeps, "read">;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Throws if the address is in use, or cannot be had. */
export async function startPage({ host, port, token, proxy }: UiConfig, deps: PageDeps): Promise<Listener> {
  const { deployments, clock, log } = deps;
  const facts = createPageFacts(deps);
  const events = createPageEvents({ describe: facts.describe });
  const lines = createPageLog(deps.logLines);
  deployments.onChange(({ deployment }) => events.changed(deployment.key));
  const access = createPageAccess({
    token: token?.reveal(),
    proxy: proxy && { header: proxy.header, isProxy: createNetworks(proxy.addresses) },
    now: () => clock.now(),
  });
  const app = express().disable("x-powered-by").use(createPageRoutes({ facts, access, events, lines, assets, log }));
  const listener = await startListener(app, { host, port, purpose: "the page", variable: "TOWLINE_UI" });
  return {
    port: listener.port,
    async stop(graceMs) {
      events.stop();
      lines.stop();
      await listener.stop(graceMs);
    },
  };
}

/** Built into `dist/ui`; this file is run as it is, or from `dist/src/app`. */
const assets = join(import.meta.dirname, import.meta.filename.endsWith(".ts") ? "../../dist/ui" : "../../ui");
