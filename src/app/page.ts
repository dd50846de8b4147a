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

export interface Page extends Listener {
  /** What lets everybody in as this says, from the next request on, when it is called. Host and port stay. */
  prepare(next: UiConfig): () => void;
}

/** Throws if the address is in use, or cannot be had. */
export async function startPage(ui: UiConfig, deps: PageDeps): Promise<Page> {
  const { deployments, clock, log } = deps;
  const { host, port } = ui;
  const facts = createPageFacts(deps);
  const events = createPageEvents({ describe: facts.describe });
  const lines = createPageLog(deps.logLines);
  deployments.onChange(({ deployment }) => events.changed(deployment.key));

  function build({ token, proxy }: UiConfig) {
    const access = createPageAccess({
      token: token?.reveal(),
      proxy: proxy && { header: proxy.header, isProxy: createNetworks(proxy.addresses) },
      now: () => clock.now(),
    });
    return express().disable("x-powered-by").use(createPageRoutes({ facts, access, events, lines, assets, log }));
  }

  let app = build(ui);
  const address = { host, port, purpose: "the page", variable: "TOWLINE_UI" };
  const listener = await startListener((req, res) => void app(req, res), address);
  return {
    port: listener.port,
    prepare(next) {
      const built = build(next);
      return () => void (app = built);
    },
    async stop(graceMs) {
      events.stop();
      lines.stop();
      await listener.stop(graceMs);
    },
  };
}

/** Built into `dist/ui`; this file is run as it is, or from `dist/src/app`. */
const assets = join(import.meta.dirname, import.meta.filename.endsWith(".ts") ? "../../dist/ui" : "../../ui");
