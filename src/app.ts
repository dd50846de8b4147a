/**
 * Opens the server in three phases: what it talks to, its ports, its work. Nothing is used before it is made. Only here
 * and in src/app/ are parts created and connected.
 */
import { openInfrastructure } from "./app/infrastructure.ts";
import { startIntake, type OpenIntake } from "./app/intake.ts";
import { startLeading } from "./app/leading.ts";
import type { ServerState } from "./app/state.ts";
import type { Reading } from "./cli/commands.ts";
import type { Config } from "./config.ts";
import type { Logger } from "./log.ts";

export interface App extends Pick<OpenIntake, "webhooksPort" | "adminPort" | "pagePort"> {
  /** How long running jobs may continue when the server stops. */
  drainMs(): number;
  /** Resolves with the reason when another controller has taken over and this server must exit. */
  readonly lost: Promise<string>;
  /** Stops in the direction of the flow: first deliveries, then jobs, then what they use. Nothing is lost. */
  stop(): Promise<void>;
}

/**
 * Resolves once the ports are open. External systems may be unavailable at first: until then the server is not ready
 * and reports why. Throws for problems that a person has to fix: a port in use, a directory that cannot be written, a
 * Redis that cannot be started.
 */
export async function startApp(config: Config, log: Logger, reading?: Reading): Promise<App> {
  const state: ServerState = {};
  const infrastructure = await openInfrastructure(config, log, reading);
  // Before any work starts, so that a port in use does not interrupt a deploy
  const intake = await startIntake(infrastructure, state);
  const leading = startLeading(infrastructure, intake, state);

  const { live, kluctl } = infrastructure;
  kluctl.version().then(
    (found) => log.info({ version: found }, "kluctl available"),
    (error: unknown) => log.error({ error: (error as Error).message }, "kluctl not available"),
  );
  const { webhooksPort, adminPort, pagePort } = intake;
  const ports = {
    webhooks: webhooksPort,
    admin: adminPort,
    metrics: config.metrics.bindAddress?.port,
    probes: config.probes.bindAddress?.port,
    ...(config.page && { page: pagePort }),
  };
  log.info({ ...ports, forges: config.forges.map(({ id }) => id) }, "listening");

  return {
    webhooksPort,
    adminPort,
    pagePort,
    drainMs: () => live.now.shutdown.drainMs,
    lost: leading.lost,
    async stop() {
      state.stoppingSince = new Date();
      const drainMs = leading.isLost() ? 0 : live.now.shutdown.drainMs;
      log.info({ running: state.work?.running() ?? 0, drainMs }, "stopping");
      await intake.close();
      await infrastructure.stopReloading();
      await leading.stopWork(drainMs);
      await intake.stopWatch();
      await infrastructure.stopTools();
      await intake.closeOverrides();
      await leading.release();
      await infrastructure.close();
      await intake.stop();
      await infrastructure.stopTracing();
      log.info("stopped");
    },
  };
}
