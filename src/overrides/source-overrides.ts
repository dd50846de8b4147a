/** The complete source-override service: listens, loads its keys, and requests sources from connected clients. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "../log.ts";
import type { Overrides } from "../ports.ts";
import type { KeyMaterial } from "../model.ts";
import { createAsk } from "./ask.ts";
import { defaultLimits, type OverrideLimits } from "./limits.ts";
import { createOverrides } from "./overrides.ts";
import { startProxyServer } from "./proxy-server.ts";
import { loadGrpc } from "./service.ts";

export interface SourceOverridesDeps {
  readonly host?: string | undefined;
  readonly port: number;
  /** Retried until it succeeds: the cluster may not answer yet. */
  readonly loadMaterial: () => Promise<KeyMaterial>;
  /** Where the directories of runs are created; those of a crashed process are removed. */
  readonly workDir: string;
  readonly limits?: Partial<OverrideLimits> | undefined;
  readonly log: Logger;
}

export interface SourceOverrides {
  readonly overrides: Overrides;
  readonly port: number;
  /** Resolves when clients can connect. */
  readonly ready: Promise<void>;
  stop(): Promise<void>;
}

const againAfterMs = 5_000;

/** Throws the operating system's error if the address cannot be used. */
export async function startSourceOverrides(deps: SourceOverridesDeps): Promise<SourceOverrides> {
  const { host, port, loadMaterial, workDir, log } = deps;
  const limits = { ...defaultLimits, ...deps.limits };
  const grpc = await loadGrpc();
  const server = await startProxyServer({ grpc, host, port, limits, log });
  const stopping = new AbortController();
  let material: KeyMaterial | undefined;

  async function getReady(): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        material = await loadMaterial();
        server.serve(material);
        log.info({ port: server.port }, "source overrides can be offered");
        return;
      } catch (error) {
        log.warn({ error: (error as Error).message }, "could not get the keys of the source-override service");
        await sleep(againAfterMs, undefined, { signal: stopping.signal }).catch(() => undefined);
      }
    }
  }

  const ask = createAsk({ grpc, server, material: () => material, limits });
  const overrides = createOverrides({ ask, workDir, limits, log });
  await overrides.sweep();
  const ready = getReady();
  return {
    overrides,
    port: server.port,
    ready,
    async stop() {
      stopping.abort();
      await ready;
      await server.stop();
    },
  };
}
