/** The ports for probes and metrics: Towline's own, and the two of kluctl's controller. */
import express from "express";
import { type AdminPages, type AdminRoutesDeps, createAdminRoutes } from "../../routes/admin.ts";
import type { Config } from "../config.ts";
import { type Listener, startListener } from "./listener.ts";

export interface AdminListeners {
  /** The port that serves all pages, if enabled. */
  readonly port?: number | undefined;
  stop(graceMs: number): Promise<void>;
}

/** Throws if an address is in use or unavailable. */
export async function startAdminListeners(
  { admin, metrics, probes }: Pick<Config, "admin" | "metrics" | "probes">,
  deps: AdminRoutesDeps,
): Promise<AdminListeners> {
  const listeners: Listener[] = [];
  const stop = async (graceMs: number) => void (await Promise.all(listeners.map((listener) => listener.stop(graceMs))));

  async function open(pages: AdminPages, address: Parameters<typeof startListener>[1]): Promise<number> {
    const listener = await startListener(
      express().disable("x-powered-by").use(createAdminRoutes(deps, pages)),
      address,
    );
    listeners.push(listener);
    return listener.port;
  }

  try {
    const port = admin.enabled
      ? await open("all", { ...admin, purpose: "health and metrics", variable: "TOWLINE_ADMIN" })
      : undefined;
    if (metrics.bindAddress) {
      const variable = "--metrics-bind-address";
      await open("metrics", { ...metrics.bindAddress, purpose: "metrics", variable });
    }
    if (probes.bindAddress) {
      const variable = "--health-probe-bind-address";
      await open("probes", { ...probes.bindAddress, purpose: "probes", variable });
    }
    return { port, stop };
  } catch (error) {
    await stop(0);
    throw error;
  }
}
