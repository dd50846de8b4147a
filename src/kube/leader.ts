/**
 * Decides which controller serves the cluster, with the Lease that kluctl's own controller takes with `--leader-elect`.
 * While we hold it that controller waits, and while that controller holds it we wait.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { ApiError } from "../errors.ts";
import type { Logger } from "../log.ts";
import { monotonicNow } from "../kit/monotonic.ts";
import type { Held } from "../model.ts";
import type { KubeClient } from "./client.ts";
import { createLeases, createLeaseStore, takenBy, watchLeases } from "./lease.ts";

export const leaderLease = "5ab5d0f9.kluctl.io";

export interface LeaderDeps {
  readonly client: Pick<KubeClient, "request">;
  readonly namespace: string;
  /** `shared`: with all other Towline servers, which have a Lease per deployment. `exclusive`: this process alone. */
  readonly how: "shared" | "exclusive" | "off";
  /** Names this process for users. */
  readonly identity: string;
  readonly log: Logger;
  /** Default: client-go's 15 s. */
  readonly durationMs?: number | undefined;
  /** Default: `monotonicNow`. */
  readonly now?: (() => number) | undefined;
}

export interface Leadership {
  /** Resolves with true when this server may work, with false if it was stopped before. */
  readonly won: Promise<boolean>;
  /** Resolves with the reason when this server may no longer work. */
  readonly lost: Promise<string>;
  /** Whether new work may start: the Lease was renewed so recently that no other controller can have taken it. */
  mayBegin(): boolean;
  /** Why this server waits for another controller, as text for users; `undefined` if it does not. */
  waitsFor(): string | undefined;
  /** Why the Lease cannot be read or renewed, as text for users. */
  problem(): string | undefined;
  stop(): Promise<void>;
}

/**
 * The holder that all Towline servers share; any of them renews for all. In exclusive mode the identity is appended.
 */
const sharedHolder = "towline";

function whoIs(holder: string): string {
  return holder.startsWith(`${sharedHolder}-`) ? "an exclusive Towline (`controller run`)" : "kluctl's own controller";
}

export function startLeadership(deps: LeaderDeps): Leadership {
  const { client, namespace, how, identity, log, durationMs = 15_000, now = monotonicNow } = deps;
  const id = `${namespace}/${leaderLease}`;
  const abort = new AbortController();
  const { signal } = abort;
  const won = Promise.withResolvers<boolean>();
  const lost = Promise.withResolvers<string>();
  let working = how === "off";
  let waiting: string | undefined;
  let problem: string | undefined = working ? undefined : `the Lease ${id} has not been read yet`;
  let held: Held | undefined;
  /** When the last successful renewal was sent. Infinity if no renewal is needed. */
  let renewedAt = Infinity;

  const isOverdue = () => now() - renewedAt > durationMs * (2 / 3);

  function win(): void {
    if (!working) log.info({ lease: id, leaderElection: how }, "leadership acquired");
    working = true;
    [waiting, problem] = [undefined, undefined];
    won.resolve(true);
  }

  function wait(why: string): void {
    if (waiting !== why) log.warn({ lease: id }, `not leading yet: ${why}`);
    [waiting, problem] = [why, undefined];
  }

  function fail(error: unknown): void {
    const silent = error instanceof ApiError && error.status === 0;
    const why = silent
      ? "the API server does not respond"
      : `cannot acquire the Lease ${id}: ${(error as Error).message}`;
    if (problem !== why) log.warn({ lease: id, error: (error as Error).message }, `not leading yet: ${why}`);
    [waiting, problem] = [undefined, why];
  }

  async function pause(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal }).catch(() => undefined);
  }

  async function takeAlone(): Promise<void> {
    const named = { identity: `${sharedHolder}-${identity}`, nameOf: (name: string) => name };
    const leases = createLeases({ client, ...named, durationMs, log, now });
    while (!signal.aborted) {
      try {
        held = await leases.hold({ namespace, name: leaderLease });
        if (held !== undefined) break;
        wait(`another controller holds the Lease ${id}`);
      } catch (error) {
        fail(error);
      }
      await pause(durationMs / 8);
    }
    if (held === undefined) return;
    const hold = held;
    hold.lost.addEventListener("abort", () => lost.resolve((hold.lost.reason as Error).message), { once: true });
    win();
  }

  async function keepShared(): Promise<void> {
    const key = { namespace, name: leaderLease };
    const store = createLeaseStore(client, key, durationMs);
    const others = watchLeases(durationMs, now);
    let logged: string | undefined;
    let late = false;

    /** Tries to take or renew the Lease; returns its holder if another controller has it. */
    async function look(): Promise<string | undefined> {
      for (let attempt = 0; ; attempt++) {
        const lease = await store.read();
        const holder = lease?.spec?.holderIdentity;
        const ours = holder === sharedHolder;
        if (lease !== undefined && !ours && !others.isFree(id, lease)) return holder ?? "somebody";
        const wanted = takenBy(sharedHolder, key, lease, durationMs);
        const renewed = {
          ...lease?.spec,
          leaseDurationSeconds: wanted.spec?.leaseDurationSeconds,
          renewTime: wanted.spec?.renewTime,
        };
        try {
          const askedAt = now();
          await store.write(ours ? { ...wanted, spec: renewed } : wanted);
          renewedAt = askedAt;
          return undefined;
        } catch (error) {
          // A concurrent write, usually by another Towline server.
          if (!(error instanceof ApiError && error.status === 409) || attempt >= 3) throw error;
        }
      }
    }

    for (let waitMs = 0; !signal.aborted; await pause(waitMs)) {
      waitMs = durationMs / 3;
      try {
        const holder = await look();
        if (late && holder === undefined) log.info({ lease: id }, "Lease renewed again");
        late = false;
        if (holder === undefined) win();
        else if (working) return lost.resolve(`${holder} took the Lease ${id}`);
        else wait(`${holder} holds the Lease ${id}: ${whoIs(holder)} is running; stop it, and this server takes over`);
      } catch (error) {
        const status = error instanceof ApiError ? error.status : 0;
        // Without the namespace kluctl's controller cannot exist. If we may not read the Lease, that must not stop us.
        if (status === 404 || status === 403) renewedAt = Infinity;
        if (status === 404) win();
        else if (status === 403) {
          const { message } = error as Error;
          if (logged !== message)
            log.warn({ lease: id, error: message }, "cannot check whether kluctl's own controller is running");
          logged = message;
          win();
        } else if (!working) fail(error);
        else {
          waitMs = durationMs / 20;
          if (!isOverdue() || late) continue;
          late = true;
          log.warn({ lease: id, error: (error as Error).message }, "new work paused until the Lease is renewed");
        }
      }
    }
  }

  if (how === "off") win();
  const running = how === "off" ? Promise.resolve() : how === "shared" ? keepShared() : takeAlone();
  running.catch((error: unknown) => lost.resolve(`the leader election failed: ${(error as Error).message}`));
  return {
    won: won.promise,
    lost: lost.promise,
    mayBegin: () => working && !isOverdue(),
    waitsFor: () => waiting,
    problem: () => problem ?? (working && isOverdue() ? `the Lease ${id} could not be renewed in time` : undefined),
    async stop() {
      abort.abort();
      won.resolve(false);
      await running.catch(() => undefined);
      await held?.release();
    },
  };
}
