/** Health, metrics and version, for probes, Prometheus and operators, on a separate port. */
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { type Response, Router } from "express";
import { within } from "../src/kit/deadline.ts";
import { createNotFound } from "./errors.ts";

/** One readiness check. Details are returned next to `ok`. */
export interface Check {
  readonly name: string;
  check(): CheckResult | Promise<CheckResult>;
}

export interface CheckResult {
  readonly ok: boolean;
  readonly error?: string | undefined;
  readonly [detail: string]: unknown;
}

export interface VersionInfo {
  readonly version: string;
  readonly commit?: string | undefined;
  readonly node: string;
  readonly kluctl?: string | undefined;
}

/** Which pages the port serves. */
export type AdminPages = "all" | "metrics" | "probes";

export interface AdminRoutesDeps {
  readonly checks: readonly Check[];
  readonly metrics: { readonly contentType: string; pieces(): AsyncIterable<string> };
  readonly version: () => VersionInfo;
  /** Timeout of one check. */
  readonly checkTimeoutMs?: number;
  readonly now?: () => Date;
}

interface Readiness {
  readonly ready: boolean;
  readonly checks: Readonly<Record<string, CheckResult>>;
}

export function createAdminRoutes(deps: AdminRoutesDeps, pages: AdminPages = "all"): Router {
  const { metrics, version } = deps;
  const readiness = createReadiness(deps);
  const router = Router();
  router.use((_req, res, next) => {
    res.set("Cache-Control", "no-store");
    next();
  });
  if (pages !== "metrics") {
    // A server that responds is alive. External problems do not justify a restart; they affect readiness only.
    router.get(["/livez", "/healthz"], (_req, res) => {
      res.json({ ok: true });
    });
    router.get("/readyz", async (_req, res) => {
      sendReadiness(res, await readiness());
    });
  }
  if (pages !== "probes") {
    router.get("/metrics", async (_req, res) => {
      // Ignore clients that disconnect during the response.
      await pipeline(Readable.from(metrics.pieces()), res.type(metrics.contentType)).catch(
        (error: NodeJS.ErrnoException) => {
          if (error.code !== "ERR_STREAM_PREMATURE_CLOSE") throw error;
        },
      );
    });
  }
  if (pages === "all") {
    router.get("/version", (_req, res) => {
      res.json(version());
    });
  }
  router.use(createNotFound(knownPages[pages]));
  return router;
}

const knownPages: Readonly<Record<AdminPages, string>> = {
  all: "Available: /livez, /readyz, /metrics and /version.",
  metrics: "Available: /metrics.",
  probes: "Available: /healthz and /readyz.",
};

function sendReadiness(res: Response, { ready, checks }: Readiness): void {
  res.status(ready ? 200 : 503).json({ ready, checks });
}

/** Runs all checks concurrently; callers that arrive meanwhile share the result. */
function createReadiness({ checks, checkTimeoutMs = 2_000, now = () => new Date() }: AdminRoutesDeps) {
  const failingSince = new Map<string, string>();
  let running: Promise<Readiness> | undefined;

  async function run(check: Check): Promise<readonly [string, CheckResult]> {
    const { name } = check;
    const { ok, error, ...details } = await bounded(check, checkTimeoutMs);
    if (ok) {
      failingSince.delete(name);
      return [name, { ok, ...details }];
    }
    const since = failingSince.get(name) ?? now().toISOString();
    failingSince.set(name, since);
    return [name, { ok, error: error ?? "not ready", since, ...details }];
  }

  async function runAll(): Promise<Readiness> {
    const results = await Promise.all(checks.map(run));
    return { ready: results.every(([, { ok }]) => ok), checks: Object.fromEntries(results) };
  }

  return async function readiness(): Promise<Readiness> {
    running ??= runAll().finally(() => {
      running = undefined;
    });
    return running;
  };
}

/** A check that throws or hangs fails without affecting the others. */
async function bounded(check: Check, timeoutMs: number): Promise<CheckResult> {
  const late = (): CheckResult => ({ ok: false, error: `no response within ${timeoutMs} ms` });
  const checking = (async () => check.check())();
  try {
    return await within(timeoutMs, checking, late);
  } catch (error) {
    return { ok: false, error: error instanceof Error ? error.message : String(error) };
  }
}
