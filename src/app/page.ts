/** The page's port. Only opened if a way to log in is configured. */
import { join } from "node:path";
import express from "express";
import { createPageAccess } from "../web/access.ts";
import { createPageEvents } from "../web/events.ts";
import { createPageLog, type PageLogDeps } from "../web/log.ts";
import { createPageRoutes } from "../web/routes.ts";
import type { PageWrite } from "../web/writes.ts";
import type { PageConfig } from "../config.ts";
import { createNetworks } from "../config/network.ts";
import type { Logger } from "../log.ts";
import type { WatchedDeployments } from "../apis/deployments.ts";
import { createOidc, LoginFlow } from "../login/oidc.ts";
import { createSeal } from "../login/seal.ts";
import type { Clock } from "../ports.ts";
import { type Listener, startListener } from "./listener.ts";
import { createPageActions, type PageActionsDeps } from "./page-actions.ts";
import { createPageSight } from "./page-sight.ts";
import { createPageFacts, type PageFactsDeps } from "./page-facts.ts";
import type { PullRequestLinks } from "./pull-request-links.ts";

export interface PageDeps extends PageFactsDeps, Omit<PageActionsDeps, "mapping" | "sight"> {
  readonly deployments: PageFactsDeps["deployments"] &
    PageActionsDeps["deployments"] &
    Pick<WatchedDeployments, "onChange">;
  readonly client: PageFactsDeps["client"] & PageActionsDeps["client"];
  readonly deliveries: PageFactsDeps["deliveries"] & PageActionsDeps["deliveries"];
  readonly queue: PageFactsDeps["queue"] & PageActionsDeps["queue"];
  readonly logLines: Pick<PageLogDeps, "read">;
  readonly audit: (write: PageWrite) => void;
  readonly links: PullRequestLinks;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface Page extends Listener {
  /** Uses new secrets, also for open pages. */
  replace(next: PageConfig): void;
}

/** Throws if the address is in use or not available. */
export async function startPage(config: PageConfig, deps: PageDeps): Promise<Page> {
  const { deployments, clock, audit, links, log } = deps;
  const now = () => clock.now();
  const { host, port } = config;
  const facts = createPageFacts(deps);

  function build(config: PageConfig) {
    const { access, provider } = openWays(config, { now, log });
    const events = createPageEvents({ describe: facts.describe });
    const lines = createPageLog(deps.logLines);
    const sight = createPageSight({ ...deps, mapping: config, now });
    const actions = createPageActions({ ...deps, mapping: config, sight });
    const routes = createPageRoutes({
      facts,
      access,
      sight,
      actions,
      provider,
      links,
      events,
      lines,
      assets,
      audit,
      now,
      log,
    });
    return {
      app: express().disable("x-powered-by").use(routes),
      changed: events.changed,
      end() {
        events.stop();
        lines.stop();
      },
    };
  }

  let current = build(config);
  deployments.onChange(({ deployment }) => current.changed(deployment.key));
  const address = { host, port, purpose: "the page", variable: "TOWLINE_PAGE" };
  const listener = await startListener((req, res) => void current.app(req, res), address);
  return {
    port: listener.port,
    replace(next) {
      current.end(); // open pages reconnect and are authenticated again
      current = build(next);
    },
    async stop(graceMs) {
      current.end();
      await listener.stop(graceMs);
    },
  };
}

/** Builds the configured ways to authenticate. */
function openWays(config: PageConfig, { now, log }: { readonly now: () => number; readonly log: Logger }) {
  const { token, tokenRole, proxy, oidc, viewerGroups, operatorGroups } = config;
  const seal = oidc && createSeal(oidc.clientSecret.reveal(), now);
  const access = createPageAccess({
    token: token?.reveal(),
    tokenRole,
    proxy: proxy && {
      header: proxy.header,
      groupsHeader: proxy.groupsHeader,
      isProxy: createNetworks(proxy.addresses),
      secret: proxy.secret && { header: proxy.secret.header, value: proxy.secret.value.reveal() },
    },
    oidc: oidc && seal && { seal, sessionMs: oidc.sessionMs },
    viewerGroups,
    operatorGroups,
    now,
  });
  const client = oidc && createOidc({ config: oidc, log });
  const provider = client &&
    seal && {
      seal,
      oidc: {
        begin: (switchUser: boolean) => client.begin(switchUser),
        finish: (query: string, flow: unknown) => client.finish(query, LoginFlow.parse(flow)),
        leave: (idToken: string | undefined) => client.leave(idToken),
      },
    };
  return { access, provider };
}

/** Built into `dist/ui`; this file runs from the sources, or from `dist/src/app`. */
const assets = join(import.meta.dirname, import.meta.filename.endsWith(".ts") ? "../../dist/ui" : "../../ui");
