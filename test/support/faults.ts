/** A real server with short intervals, and helpers of the fault tests. */
import { join } from "node:path";
import type { Journal } from "./journal.ts";
import { useTowlineProcess, type TowlineProcess } from "./towline.ts";
import type { TestWorld } from "./world.ts";

export interface FaultServer extends TowlineProcess {
  readonly pid: number;
  readonly dataDir: string;
}

/** A server with its data in `<the test's directory>/<name>`; the same name restarts the same server. */
export async function useFaultServer(
  world: TestWorld,
  journal: Pick<Journal, "kluctl">,
  name: string,
  extra: Record<string, string> = {},
): Promise<FaultServer> {
  const dataDir = join(world.dir, name);
  const towline = await useTowlineProcess(world, {
    TOWLINE_DATA_DIR: dataDir,
    TOWLINE_KLUCTL: journal.kluctl,
    TOWLINE_LEASE_DURATION: "5s",
    TOWLINE_SWEEP_INTERVAL: "5s",
    TOWLINE_SHUTDOWN_DRAIN: "5s",
    ...extra,
  });
  return { ...towline, pid: towline.child.pid ?? 0, dataDir };
}

export interface Readiness {
  readonly status: number;
  readonly ready: boolean;
  readonly checks: Readonly<Record<string, { readonly ok: boolean; readonly error?: string }>>;
}

export async function readiness({ adminUrl }: Pick<TowlineProcess, "adminUrl">): Promise<Readiness> {
  const response = await fetch(`${adminUrl}/readyz`);
  return { status: response.status, ...((await response.json()) as Omit<Readiness, "status">) };
}

/** The server's log so far, as one text. */
export function logOf({ lines }: Pick<TowlineProcess, "lines">): string {
  return lines.map((line) => JSON.stringify(line)).join("\n");
}
